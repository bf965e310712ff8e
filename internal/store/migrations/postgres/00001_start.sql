-- +goose Up
-- Times are integer UTC microseconds; NULL stands for "none".

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- The owners' data keys, wrapped under the master key (package vault).
CREATE TABLE data_keys (
    owner      TEXT    NOT NULL PRIMARY KEY,
    master     TEXT    NOT NULL,
    wrapped    BYTEA   NOT NULL,
    created_at BIGINT  NOT NULL
);

CREATE TABLE owners (
    name        TEXT    NOT NULL PRIMARY KEY,
    description TEXT    NOT NULL,
    created_at  BIGINT,
    version     BIGINT  NOT NULL
);

CREATE TABLE principals (
    name        TEXT    NOT NULL PRIMARY KEY,
    owner       TEXT    NOT NULL REFERENCES owners (name),
    environment TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    roles       TEXT    NOT NULL, -- JSON array
    description TEXT    NOT NULL,
    created_at  BIGINT,
    version     BIGINT  NOT NULL
);

CREATE INDEX principals_owner ON principals (owner, name);

CREATE TABLE api_keys (
    id         TEXT    NOT NULL PRIMARY KEY,
    principal  TEXT    NOT NULL REFERENCES principals (name),
    hash       BYTEA   NOT NULL, -- SHA-256 of the whole key
    note       TEXT    NOT NULL,
    created_at BIGINT,
    expires_at BIGINT,
    revoked_at BIGINT
);

CREATE INDEX api_keys_principal ON api_keys (principal, id);

CREATE TABLE agents (
    name          TEXT    NOT NULL PRIMARY KEY,
    owner         TEXT    NOT NULL REFERENCES owners (name),
    environment   TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    url           TEXT    NOT NULL,
    card_url      TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    card          BYTEA   NOT NULL, -- bytes as fetched
    card_hash     TEXT    NOT NULL,
    card_etag     TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    description   TEXT    NOT NULL,
    agent_version TEXT    NOT NULL,
    interfaces    TEXT    NOT NULL, -- JSON array
    use_interface BIGINT  NOT NULL, -- index in interfaces, -1 for none
    warnings      TEXT    NOT NULL, -- JSON array
    pending       TEXT,             -- JSON object
    allow         TEXT    NOT NULL, -- JSON array
    checked_at    BIGINT,
    check_err     TEXT    NOT NULL,
    created_at    BIGINT,
    updated_at    BIGINT,
    version       BIGINT  NOT NULL
);

CREATE INDEX agents_owner ON agents (owner, name);

CREATE TABLE credentials (
    agent      TEXT    NOT NULL PRIMARY KEY REFERENCES agents (name),
    kind       TEXT    NOT NULL,
    place      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    origin     TEXT    NOT NULL,
    secret     BYTEA   NOT NULL, -- sealed
    owner      TEXT    NOT NULL, -- whose data key seals it
    created_at BIGINT
);

-- What happened gets a number of arrival inside its transaction, in an order that
-- respects cause and effect, and its place in the mesh's one feed only once it is
-- committed: the sequencer gives places, so that a reader who goes on behind the
-- last one it saw skips nothing.
CREATE SEQUENCE feed_arrival;

CREATE TABLE feed (
    one  BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    last BIGINT NOT NULL -- the last place that was given
);

INSERT INTO feed (one, last) VALUES (1, 0);

-- Changes of everything but calls. seq is the place in the feed, which calls.seq
-- and calls.end_seq share; NULL until the sequencer has given it.
CREATE TABLE events (
    num         BIGINT  NOT NULL PRIMARY KEY DEFAULT nextval('feed_arrival'),
    seq         BIGINT,
    subject     TEXT    NOT NULL,
    subject_seq BIGINT  NOT NULL,
    type        TEXT    NOT NULL,
    time        BIGINT  NOT NULL,
    owner       TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    data        BYTEA   NOT NULL
);

CREATE UNIQUE INDEX events_subject ON events (subject, subject_seq);
CREATE UNIQUE INDEX events_seq ON events (seq) WHERE seq IS NOT NULL;
CREATE INDEX events_unplaced ON events (num) WHERE seq IS NULL;

-- A row is the call and its two events: seq is the place of call.begun in the
-- feed, end_seq that of call.ended. num and end_num are their arrivals. replica
-- is the process that has the open call.
CREATE TABLE calls (
    num            BIGINT  NOT NULL PRIMARY KEY DEFAULT nextval('feed_arrival'),
    replica        BIGINT,
    seq            BIGINT,
    id             BYTEA   NOT NULL,
    root           BYTEA,   -- NULL where the call starts its chain
    link           TEXT    NOT NULL,
    parent         BYTEA,
    depth          BIGINT  NOT NULL,
    candidates     TEXT,    -- JSON; NULL where there were none
    caller         TEXT    NOT NULL,
    caller_owner   TEXT    NOT NULL,
    caller_agent   TEXT,
    environment    TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    agent_owner    TEXT    NOT NULL,
    instance       TEXT,
    method         TEXT    NOT NULL,
    caller_binding TEXT,
    agent_binding  TEXT,
    version        TEXT,
    message_id     TEXT,
    reference      TEXT,
    trace_id       TEXT,
    span_id        TEXT,
    begun_at       BIGINT  NOT NULL,
    deadline_at    BIGINT,
    context_id     TEXT,
    task_id        TEXT,
    task_state     TEXT,
    end_num        BIGINT,
    end_seq        BIGINT,
    ended_at       BIGINT,
    outcome        TEXT,
    reason         TEXT,
    detail         TEXT,
    status         BIGINT,
    bytes_in       BIGINT,
    bytes_out      BIGINT,
    first_byte     BIGINT, -- nanoseconds
    total          BIGINT, -- nanoseconds
    steps          TEXT     -- name:nanoseconds, separated by blanks
);

CREATE UNIQUE INDEX calls_id ON calls (id);
CREATE UNIQUE INDEX calls_seq ON calls (seq) WHERE seq IS NOT NULL;
CREATE UNIQUE INDEX calls_end ON calls (end_seq) WHERE end_seq IS NOT NULL;
CREATE INDEX calls_unplaced ON calls (num) WHERE seq IS NULL;
CREATE INDEX calls_end_unplaced ON calls (end_num) WHERE end_num IS NOT NULL AND end_seq IS NULL;
CREATE INDEX calls_open ON calls (agent, num) WHERE ended_at IS NULL;
CREATE INDEX calls_replica ON calls (replica) WHERE ended_at IS NULL;
CREATE INDEX calls_root ON calls (root) WHERE root IS NOT NULL;
CREATE INDEX calls_task ON calls (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX calls_reference ON calls (reference) WHERE reference IS NOT NULL;

-- Who may see which task and context of an agent. The first use owns.
CREATE TABLE tasks (
    num        BIGINT  NOT NULL PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    agent      TEXT    NOT NULL,
    instance   TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    owner      TEXT    NOT NULL, -- whose data key seals snapshot
    context_id TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    status_at  BIGINT  NOT NULL,
    final      BIGINT  NOT NULL,
    call       BYTEA,
    updated_at BIGINT  NOT NULL,
    snapshot   BYTEA -- sealed
);

CREATE UNIQUE INDEX tasks_key ON tasks (agent, instance, id);
CREATE INDEX tasks_list ON tasks (principal, status_at DESC, id);

-- A context is known by a keyed hash of agent, instance and id: every plain
-- exchange writes one, and short keys keep what a commit writes small.
CREATE TABLE contexts (
    key       BIGINT  NOT NULL PRIMARY KEY,
    principal TEXT    NOT NULL,
    used_at   BIGINT  NOT NULL -- at most a day old while the context is in use
);

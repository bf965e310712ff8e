-- +goose Up
-- Times are integer UTC microseconds; NULL stands for "none".

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The owners' data keys, wrapped under the master key (package vault).
CREATE TABLE data_keys (
    owner      TEXT    NOT NULL PRIMARY KEY,
    master     TEXT    NOT NULL,
    wrapped    BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE owners (
    name        TEXT    NOT NULL PRIMARY KEY,
    description TEXT    NOT NULL,
    created_at  INTEGER,
    version     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE principals (
    name        TEXT    NOT NULL PRIMARY KEY,
    owner       TEXT    NOT NULL REFERENCES owners (name),
    environment TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    roles       TEXT    NOT NULL, -- JSON array
    description TEXT    NOT NULL,
    created_at  INTEGER,
    version     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX principals_owner ON principals (owner, name);

CREATE TABLE api_keys (
    id         TEXT    NOT NULL PRIMARY KEY,
    principal  TEXT    NOT NULL REFERENCES principals (name),
    hash       BLOB    NOT NULL, -- SHA-256 of the whole key
    note       TEXT    NOT NULL,
    created_at INTEGER,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;

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
    card          BLOB    NOT NULL, -- bytes as fetched
    card_hash     TEXT    NOT NULL,
    card_etag     TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    description   TEXT    NOT NULL,
    agent_version TEXT    NOT NULL,
    interfaces    TEXT    NOT NULL, -- JSON array
    use_interface INTEGER NOT NULL, -- index in interfaces, -1 for none
    warnings      TEXT    NOT NULL, -- JSON array
    pending       TEXT,             -- JSON object
    allow         TEXT    NOT NULL, -- JSON array
    checked_at    INTEGER,
    check_err     TEXT    NOT NULL,
    created_at    INTEGER,
    updated_at    INTEGER,
    version       INTEGER NOT NULL
);

CREATE INDEX agents_owner ON agents (owner, name);

CREATE TABLE credentials (
    agent      TEXT    NOT NULL PRIMARY KEY REFERENCES agents (name),
    kind       TEXT    NOT NULL,
    place      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    origin     TEXT    NOT NULL,
    secret     BLOB    NOT NULL, -- sealed
    owner      TEXT    NOT NULL, -- whose data key seals it
    created_at INTEGER
) WITHOUT ROWID;

-- Changes of everything but calls. seq is the place in the mesh's one feed,
-- which calls.seq and calls.end_seq share.
CREATE TABLE events (
    seq         INTEGER PRIMARY KEY,
    subject     TEXT    NOT NULL,
    subject_seq INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    time        INTEGER NOT NULL,
    owner       TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    data        BLOB    NOT NULL
);

CREATE UNIQUE INDEX events_subject ON events (subject, subject_seq);

-- A row is the call and its two events: seq is the place of call.begun in the
-- feed, end_seq that of call.ended.
CREATE TABLE calls (
    seq            INTEGER PRIMARY KEY,
    id             BLOB    NOT NULL,
    root           BLOB,    -- NULL where the call starts its chain
    link           TEXT    NOT NULL,
    parent         BLOB,
    depth          INTEGER NOT NULL,
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
    begun_at       INTEGER NOT NULL,
    deadline_at    INTEGER,
    context_id     TEXT,
    task_id        TEXT,
    task_state     TEXT,
    end_seq        INTEGER,
    ended_at       INTEGER,
    outcome        TEXT,
    reason         TEXT,
    detail         TEXT,
    status         INTEGER,
    bytes_in       INTEGER,
    bytes_out      INTEGER,
    first_byte     INTEGER, -- nanoseconds
    total          INTEGER, -- nanoseconds
    steps          TEXT     -- name:nanoseconds, separated by blanks
);

CREATE UNIQUE INDEX calls_id ON calls (id);
CREATE INDEX calls_end ON calls (end_seq) WHERE end_seq IS NOT NULL;
CREATE INDEX calls_open ON calls (seq) WHERE ended_at IS NULL;
CREATE INDEX calls_root ON calls (root) WHERE root IS NOT NULL;
CREATE INDEX calls_task ON calls (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX calls_reference ON calls (reference) WHERE reference IS NOT NULL;

-- Who may see which task and context of an agent. The first use owns.
CREATE TABLE tasks (
    num        INTEGER PRIMARY KEY,
    agent      TEXT    NOT NULL,
    instance   TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    owner      TEXT    NOT NULL, -- whose data key seals snapshot
    context_id TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    status_at  INTEGER NOT NULL,
    final      INTEGER NOT NULL,
    call       BLOB,
    updated_at INTEGER NOT NULL,
    snapshot   BLOB -- sealed
);

CREATE UNIQUE INDEX tasks_key ON tasks (agent, instance, id);
CREATE INDEX tasks_list ON tasks (principal, status_at DESC, id);

-- A context is known by a keyed hash of agent, instance and id: every plain
-- exchange writes one, and short keys keep what a commit writes small.
CREATE TABLE contexts (
    key       INTEGER PRIMARY KEY,
    principal TEXT    NOT NULL,
    used_at   INTEGER NOT NULL -- at most a day old while the context is in use
);

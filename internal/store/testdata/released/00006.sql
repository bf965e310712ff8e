BEGIN TRANSACTION;
CREATE TABLE agent_use (
    agent     TEXT NOT NULL PRIMARY KEY,
    called_at INTEGER,
    seen_at   INTEGER
) WITHOUT ROWID;
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
INSERT INTO "agents" VALUES('echo','default','dev','','http://127.0.0.1:1','','','',X'7B7D','','','','','','null',0,'null',NULL,'null',NULL,'',1767323045000000,1767323045000000,1);
CREATE TABLE answers (
    principal TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    owner     TEXT    NOT NULL, -- whose data key seals answer
    request   BLOB    NOT NULL, -- SHA-256 of what was asked
    answer    BLOB,             -- sealed; NULL while the write is under way
    until_at  INTEGER NOT NULL, -- when it is forgotten
    PRIMARY KEY (principal, key)
) WITHOUT ROWID;
CREATE TABLE api_keys (
    id         TEXT    NOT NULL PRIMARY KEY,
    principal  TEXT    NOT NULL REFERENCES principals (name),
    hash       BLOB    NOT NULL, -- SHA-256 of the whole key
    note       TEXT    NOT NULL,
    created_at INTEGER,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;
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
INSERT INTO "calls" VALUES(1,X'01A22DEC6EC67ADE8BC37255ED995620',NULL,'root',NULL,0,NULL,'client','default',NULL,'dev','echo','default',NULL,'SendMessage',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767323045000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "calls" VALUES(2,X'01A22DEC6EC67AE2A3155C42D3B67A3A',NULL,'root',NULL,0,NULL,'client','default',NULL,'dev','echo','default',NULL,'SendMessage',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1767323045000000,NULL,NULL,'t',NULL,3,1767323045001000,'ok',NULL,NULL,0,0,0,0,0,NULL);
CREATE TABLE contexts (
    key       INTEGER PRIMARY KEY,
    principal TEXT    NOT NULL,
    used_at   INTEGER NOT NULL -- at most a day old while the context is in use
);
INSERT INTO "contexts" VALUES(-7591343765104449941,'client',1767323045000000);
CREATE TABLE credentials (
    agent      TEXT    NOT NULL PRIMARY KEY REFERENCES agents (name),
    kind       TEXT    NOT NULL,
    place      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    origin     TEXT    NOT NULL,
    secret     BLOB    NOT NULL, -- sealed
    owner      TEXT    NOT NULL, -- whose data key seals it
    created_at INTEGER
, settings TEXT, private_key BLOB) WITHOUT ROWID;
CREATE TABLE data_keys (
    owner      TEXT    NOT NULL PRIMARY KEY,
    master     TEXT    NOT NULL,
    wrapped    BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "data_keys" VALUES('default','8575a29b45ce7a70',X'494F8790082A3D5AE86E630F482DAAB4C4120E4D45064C9540F7C47946C143DBA3C5C8653CC72B2A5374F8935FCCBF78E2A3A9BE93E73C3F9F9BB030CA1378E1A2D8B45E8951EE51',1767323045000000);
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
INSERT INTO "events" VALUES(4,'tasks/t',1,'task.seen',1767323045000000,'default','dev',X'7B7D');
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO "goose_db_version" VALUES(1,0,1,'2026-11-30 19:26:39');
INSERT INTO "goose_db_version" VALUES(2,1,1,'2026-11-30 19:26:39');
INSERT INTO "goose_db_version" VALUES(3,2,1,'2026-12-01 04:59:43');
INSERT INTO "goose_db_version" VALUES(4,3,1,'2026-12-01 04:59:43');
INSERT INTO "goose_db_version" VALUES(5,4,1,'2026-12-01 04:59:43');
INSERT INTO "goose_db_version" VALUES(6,5,1,'2026-12-01 04:59:43');
INSERT INTO "goose_db_version" VALUES(7,6,1,'2026-12-01 04:59:43');
CREATE TABLE identities (
    issuer     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    principal  TEXT    NOT NULL REFERENCES principals (name),
    made       INTEGER NOT NULL, -- 1: the principal was made for it
    created_at INTEGER,
    seen_at    INTEGER,
    PRIMARY KEY (issuer, subject)
) WITHOUT ROWID;
CREATE TABLE instances (
    agent         TEXT    NOT NULL REFERENCES agents (name),
    id            TEXT    NOT NULL,
    url           TEXT    NOT NULL,
    card_url      TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    card          BLOB    NOT NULL, -- bytes as fetched
    card_etag     TEXT    NOT NULL,
    agent_version TEXT    NOT NULL,
    interfaces    TEXT    NOT NULL, -- JSON array
    use_interface INTEGER NOT NULL, -- index in interfaces, -1 for none
    credential    INTEGER NOT NULL, -- 1 where the agent's credential may go to its origin
    checked_at    INTEGER,
    check_err     TEXT    NOT NULL,
    created_at    INTEGER,
    updated_at    INTEGER,
    version       INTEGER NOT NULL,
    PRIMARY KEY (agent, id)
);
CREATE TABLE limit_overrides (
    name       TEXT    NOT NULL PRIMARY KEY,
    body       TEXT    NOT NULL, -- JSON object: dotted key to value
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
);
CREATE TABLE marks (
    kind     TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    set_name TEXT    NOT NULL,
    made_at  INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('master','8575a29b45ce7a70');
INSERT INTO "meta" VALUES('mesh','c42521778a4d91f3431984e06aee42b5');
CREATE TABLE owners (
    name        TEXT    NOT NULL PRIMARY KEY,
    description TEXT    NOT NULL,
    created_at  INTEGER,
    version     INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "owners" VALUES('default','answers for whatever is registered without an owner',1767323045000000,1);
CREATE TABLE principal_names (
    kind       TEXT    NOT NULL, -- spiffe or dns
    name       TEXT    NOT NULL,
    principal  TEXT    NOT NULL REFERENCES principals (name),
    created_at INTEGER,
    PRIMARY KEY (kind, name)
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
, frozen_at INTEGER, frozen_reason TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
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
INSERT INTO "tasks" VALUES(1,'echo','','t','client','default','','TASK_STATE_COMPLETED',1767323045000000,1,X'01A22DEC6EC67AE2A3155C42D3B67A3A',1767323045000000,X'01F963B6BE24F72B260260ADFBDB6985807AC283B383BD6C6ED4F4CB43F4349BC9FE781C1219D56218AC55EA665FF7D15E2157');
CREATE INDEX principals_owner ON principals (owner, name);
CREATE INDEX api_keys_principal ON api_keys (principal, id);
CREATE INDEX agents_owner ON agents (owner, name);
CREATE UNIQUE INDEX events_subject ON events (subject, subject_seq);
CREATE UNIQUE INDEX calls_id ON calls (id);
CREATE INDEX calls_end ON calls (end_seq) WHERE end_seq IS NOT NULL;
CREATE INDEX calls_open ON calls (seq) WHERE ended_at IS NULL;
CREATE INDEX calls_root ON calls (root) WHERE root IS NOT NULL;
CREATE INDEX calls_task ON calls (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX calls_reference ON calls (reference) WHERE reference IS NOT NULL;
CREATE UNIQUE INDEX tasks_key ON tasks (agent, instance, id);
CREATE INDEX tasks_list ON tasks (principal, status_at DESC, id);
CREATE INDEX answers_until ON answers (until_at);
CREATE INDEX identities_principal ON identities (principal, issuer, subject);
CREATE INDEX principals_frozen ON principals (name) WHERE frozen_at IS NOT NULL;
CREATE INDEX principal_names_principal ON principal_names (principal, kind, name);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('goose_db_version',7);
COMMIT;

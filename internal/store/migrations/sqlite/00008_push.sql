-- +goose Up

-- How the mesh follows a task for those who subscribed to it; goes with the task.
CREATE TABLE push_relays (
    agent      TEXT    NOT NULL,
    instance   TEXT    NOT NULL,
    task_id    TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    callback   TEXT    NOT NULL, -- names the address at which the agent pushes
    token_hash BLOB,             -- SHA-256 of what authenticates the agent there; NULL where it got none
    upstream   TEXT    NOT NULL,
    seen       TEXT    NOT NULL, -- what the journal tells already,
    seen_seq   INTEGER NOT NULL, -- and at which place of it
    look_at    INTEGER,          -- NULL once the task is final
    busy_until INTEGER,     -- NULL where nobody looks just now
    delay      INTEGER NOT NULL, -- nanoseconds
    lost       INTEGER NOT NULL,
    ended_at   INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (agent, instance, task_id),
    FOREIGN KEY (agent, instance, task_id) REFERENCES tasks (agent, instance, id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX push_relays_callback ON push_relays (callback);
CREATE INDEX push_relays_principal ON push_relays (principal);
CREATE INDEX push_relays_due ON push_relays (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX push_relays_ended ON push_relays (ended_at) WHERE ended_at IS NOT NULL;

-- Who is told of a task's events, and where.
CREATE TABLE push_subscriptions (
    id         TEXT    NOT NULL PRIMARY KEY,
    agent      TEXT    NOT NULL,
    instance   TEXT    NOT NULL,
    task_id    TEXT    NOT NULL,
    config_id  TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    owner      TEXT    NOT NULL, -- whose data key seals target
    target     BLOB    NOT NULL, -- sealed: URL, token, credentials
    version    TEXT    NOT NULL,
    cursor_seq INTEGER NOT NULL, -- the last event that is not due any more
    created_at INTEGER NOT NULL,
    FOREIGN KEY (agent, instance, task_id) REFERENCES push_relays (agent, instance, task_id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX push_subscriptions_task ON push_subscriptions (agent, instance, task_id, config_id);
CREATE INDEX push_subscriptions_principal ON push_subscriptions (principal);

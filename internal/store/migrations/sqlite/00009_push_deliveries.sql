-- +goose Up

-- How far the delivery of a subscription is; goes with it.
CREATE TABLE push_deliveries (
    subscription TEXT    NOT NULL PRIMARY KEY REFERENCES push_subscriptions (id) ON DELETE CASCADE,
    agent        TEXT    NOT NULL,
    instance     TEXT    NOT NULL,
    task_id      TEXT    NOT NULL,
    principal    TEXT    NOT NULL,
    host         TEXT    NOT NULL, -- of its URL: receivers share what one host may take
    due_at       INTEGER,          -- NULL: nothing waits
    holder       TEXT    NOT NULL, -- the process that delivers,
    held_until   INTEGER NOT NULL, -- and until when, by the database's clock
    attempts     INTEGER NOT NULL, -- that failed for the event that is next
    attempted_at INTEGER,
    delivered_at INTEGER,
    error        TEXT    NOT NULL, -- of the last attempt; empty where it succeeded
    ended_at     INTEGER           -- the receiver wants no more
);

CREATE INDEX push_deliveries_task ON push_deliveries (agent, instance, task_id);
CREATE INDEX push_deliveries_due ON push_deliveries (due_at) WHERE due_at IS NOT NULL;

-- Events that could not be delivered in time. They outlive their subscription.
CREATE TABLE push_letters (
    id           TEXT    NOT NULL PRIMARY KEY,
    subscription TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    instance     TEXT    NOT NULL,
    task_id      TEXT    NOT NULL,
    principal    TEXT    NOT NULL,
    owner        TEXT    NOT NULL, -- whose data key seals frame
    seq          INTEGER NOT NULL,
    happened_at  INTEGER NOT NULL,
    died_at      INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    error        TEXT    NOT NULL,
    frame        BLOB    NOT NULL  -- sealed copy of the event
);

CREATE INDEX push_letters_died ON push_letters (died_at);
CREATE INDEX push_letters_subscription ON push_letters (subscription);

INSERT INTO push_deliveries (subscription, agent, instance, task_id, principal, host, due_at, holder, held_until, attempts, error)
SELECT id, agent, instance, task_id, principal, '', created_at, '', 0, 0, '' FROM push_subscriptions;

-- +goose Up

-- The journal of a task's events: what its streams have shown, in order. A row
-- outlives its frames, so that the sequence goes on and never begins anew.
CREATE TABLE journals (
    num        INTEGER NOT NULL PRIMARY KEY,
    agent      TEXT    NOT NULL,
    instance   TEXT    NOT NULL,
    task       TEXT    NOT NULL,
    first_seq  INTEGER NOT NULL, -- of the oldest frame that is kept; last_seq + 1 where none is
    last_seq   INTEGER NOT NULL,
    bytes_in   INTEGER NOT NULL, -- of all frames there ever were
    bytes_out  INTEGER NOT NULL, -- of those that were removed
    first_at   INTEGER,          -- time of the oldest frame that is kept
    updated_at INTEGER NOT NULL,
    source     BLOB,             -- the call whose exchange with the agent feeds it
    holder     INTEGER,          -- the replica that has this exchange
    UNIQUE (agent, instance, task)
);
CREATE INDEX journals_first_at ON journals (first_at);

CREATE TABLE frames (
    journal INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    owner   TEXT    NOT NULL, -- whose key seals the frame
    total   INTEGER NOT NULL, -- bytes of the journal's frames up to this one
    frame   BLOB    NOT NULL, -- sealed StreamResponse
    PRIMARY KEY (journal, seq)
);

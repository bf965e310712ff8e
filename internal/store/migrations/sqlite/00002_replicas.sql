-- +goose Up
-- Answers to writes of the control API that carried an Idempotency-Key.
CREATE TABLE answers (
    principal TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    owner     TEXT    NOT NULL, -- whose data key seals answer
    request   BLOB    NOT NULL, -- SHA-256 of what was asked
    answer    BLOB,             -- sealed; NULL while the write is under way
    until_at  INTEGER NOT NULL, -- when it is forgotten
    PRIMARY KEY (principal, key)
) WITHOUT ROWID;

CREATE INDEX answers_until ON answers (until_at);

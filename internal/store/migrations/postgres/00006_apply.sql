-- +goose Up

-- What documents have created, and under which set: only that may be pruned.
-- made_at is when the thing itself was made: one of the same name that was made
-- later by hand is not the one that is marked.
CREATE TABLE marks (
    kind     TEXT   NOT NULL,
    name     TEXT   NOT NULL,
    set_name TEXT   NOT NULL,
    made_at  BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Limits of the running mesh that differ from the configuration; one row.
CREATE TABLE limit_overrides (
    name       TEXT   NOT NULL PRIMARY KEY,
    body       TEXT   NOT NULL, -- JSON object: dotted key to value
    created_at BIGINT NOT NULL,
    version    BIGINT NOT NULL
);

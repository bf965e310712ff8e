-- +goose Up
-- What a credential has beside its secret: token endpoint, client certificate.
ALTER TABLE credentials ADD COLUMN settings TEXT; -- JSON object; NULL where there are none
ALTER TABLE credentials ADD COLUMN private_key BLOB;                  -- sealed; NULL without a certificate

-- Further addresses at which the same agent answers.
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

-- When an agent was last called, and last found well: kept apart from the
-- agent's row, whose version it does not touch. called_at lags by a minute.
CREATE TABLE agent_use (
    agent     TEXT NOT NULL PRIMARY KEY,
    called_at INTEGER,
    seen_at   INTEGER
) WITHOUT ROWID;

INSERT INTO agent_use (agent, called_at, seen_at)
SELECT name, (SELECT MAX(begun_at) FROM calls WHERE calls.agent = agents.name),
    CASE WHEN check_err = '' THEN checked_at END
FROM agents;

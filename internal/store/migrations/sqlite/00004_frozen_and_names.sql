-- +goose Up
-- A frozen principal is refused everywhere until it is unfrozen.
ALTER TABLE principals ADD COLUMN frozen_at INTEGER;
ALTER TABLE principals ADD COLUMN frozen_reason TEXT NOT NULL DEFAULT '';

CREATE INDEX principals_frozen ON principals (name) WHERE frozen_at IS NOT NULL;

-- Which principal a name in a client certificate proves.
CREATE TABLE principal_names (
    kind       TEXT    NOT NULL, -- spiffe or dns
    name       TEXT    NOT NULL,
    principal  TEXT    NOT NULL REFERENCES principals (name),
    created_at INTEGER,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE INDEX principal_names_principal ON principal_names (principal, kind, name);

-- +goose Up
-- Whom the subjects of foreign issuers are here: see identity.Link.
CREATE TABLE identities (
    issuer     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    principal  TEXT    NOT NULL REFERENCES principals (name),
    made       INTEGER NOT NULL, -- 1: the principal was made for it
    created_at INTEGER,
    seen_at    INTEGER,
    PRIMARY KEY (issuer, subject)
) WITHOUT ROWID;

CREATE INDEX identities_principal ON identities (principal, issuer, subject);

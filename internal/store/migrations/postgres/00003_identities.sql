-- +goose Up
-- Whom the subjects of foreign issuers are here: see identity.Link.
CREATE TABLE identities (
    issuer     TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    principal  TEXT   NOT NULL REFERENCES principals (name),
    made       BIGINT NOT NULL, -- 1: the principal was made for it
    created_at BIGINT,
    seen_at    BIGINT,
    PRIMARY KEY (issuer, subject)
);

CREATE INDEX identities_principal ON identities (principal, issuer, subject);

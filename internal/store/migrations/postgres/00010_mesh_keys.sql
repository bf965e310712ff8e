-- +goose Up
-- The keys with which the mesh signs. The purpose's newest row whose active_at
-- has come is in force; a generation exists once, so that of two replicas that
-- make a key at the same moment one finds it made.
CREATE TABLE mesh_keys (
    id          TEXT   NOT NULL PRIMARY KEY, -- RFC 7638 thumbprint
    purpose     TEXT   NOT NULL,
    generation  BIGINT NOT NULL,
    public_key  TEXT   NOT NULL, -- JWK
    private_key BYTEA NOT NULL, -- sealed PKCS #8; empty where it signs nothing any more
    created_at  BIGINT NOT NULL,
    active_at   BIGINT NOT NULL,
    revoked_at  BIGINT,
    UNIQUE (purpose, generation)
);

-- +goose Up

-- Messages that were sent lately, so that none is worked on twice.
CREATE TABLE sent (
    key    INTEGER PRIMARY KEY, -- keyed hash of who sent which message id to which agent
    call   BLOB    NOT NULL,    -- the call that sent it first
    digest BLOB    NOT NULL,    -- of the message
    at     INTEGER NOT NULL
);
CREATE INDEX sent_at ON sent (at);

-- What the agent asked of the caller's side on the way; JSON object, NULL for nothing.
ALTER TABLE calls ADD COLUMN asked TEXT;

-- Whether the agent may ask callers for credentials: pass or forbid.
ALTER TABLE agents ADD COLUMN auth_required TEXT NOT NULL DEFAULT 'pass';

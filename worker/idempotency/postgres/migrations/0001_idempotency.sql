-- Answers of calls that were executed, for PostgreSQL 15 and later. Apply it with the tool of your choice; again does no harm. Rights: the
-- callers need SELECT and INSERT; whoever cleans up, SELECT, UPDATE and DELETE.

CREATE TABLE IF NOT EXISTS leasehold_idempotency (
  scope        text COLLATE "C" NOT NULL CHECK (octet_length(scope) BETWEEN 1 AND 128), -- whose keys these are
  key          text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 256),
  payload_hash bytea NOT NULL CHECK (octet_length(payload_hash) = 32),                  -- SHA-256 of what was asked
  response     bytea NOT NULL CHECK (octet_length(response) <= 1048576),
  executed_at  timestamptz NOT NULL DEFAULT now(),
  expires_at   timestamptz NOT NULL CHECK (isfinite(expires_at)),                       -- deleted some time after this, never before
  PRIMARY KEY (scope, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX IF NOT EXISTS leasehold_idempotency_expiry ON leasehold_idempotency (expires_at);

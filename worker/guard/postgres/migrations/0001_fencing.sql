-- Fencing for PostgreSQL 12 and later. Safe to run again. Any language can call it:
--
--   BEGIN;
--   SELECT leasehold.fence('account/42', 17592186044423);  -- fails with SQLSTATE LHF01 if a higher token was here
--   UPDATE account SET balance = balance - 10 WHERE id = 42;
--   COMMIT;
--
-- Check and write must be in one transaction. fence() locks the resource until that transaction ends, so nobody
-- comes between. A role that writes needs, and should have no more than:
--
--   GRANT USAGE ON SCHEMA leasehold TO app;
--   GRANT SELECT, INSERT, UPDATE ON leasehold.fence_mark TO app;

CREATE SCHEMA IF NOT EXISTS leasehold;

CREATE TABLE IF NOT EXISTS leasehold.fence_mark (
    resource  text        PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512),
    token     bigint      NOT NULL CHECK (token > 0),
    raised_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70); -- room to raise a mark without touching the index

COMMENT ON TABLE leasehold.fence_mark IS 'The highest fencing token that has written to each resource';

-- fence lets the transaction go on if no higher token has written to the resource, and raises the mark.
CREATE OR REPLACE FUNCTION leasehold.fence(p_resource text, p_token bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_mark bigint;
BEGIN
    SELECT m.token INTO v_mark FROM leasehold.fence_mark AS m WHERE m.resource = p_resource FOR NO KEY UPDATE;
    IF FOUND THEN
        IF v_mark = p_token THEN
            RETURN; -- this token was here before: the lock is enough, no new row version is made
        ELSIF v_mark < p_token THEN
            UPDATE leasehold.fence_mark AS m SET token = p_token, raised_at = now() WHERE m.resource = p_resource;
            RETURN;
        END IF;
    ELSE -- nobody was here before, or somebody comes just now
        INSERT INTO leasehold.fence_mark AS m (resource, token) VALUES (p_resource, p_token)
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token, raised_at = excluded.raised_at
            WHERE m.token <= excluded.token;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT m.token INTO v_mark FROM leasehold.fence_mark AS m WHERE m.resource = p_resource;
    END IF;
    RAISE EXCEPTION 'stale: token % may not write to "%", which has seen token %', p_token, p_resource, v_mark
        USING ERRCODE = 'LHF01', DETAIL = v_mark::text;
END
$$;

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
--   GRANT EXECUTE ON FUNCTION leasehold.fence(text, bigint) TO app;
--   GRANT SELECT ON leasehold.fence_mark TO app;  -- only to read marks
--
-- fence() runs with the rights of the role that applied this file. So a worker can raise a mark, and nobody but that role can lower
-- one. In an older version everybody could execute it, and this file ends that: grant EXECUTE before you apply it, or workers are
-- refused until you do. Who granted more for that version takes it back afterwards:
--
--   REVOKE INSERT, UPDATE ON leasehold.fence_mark FROM app;

CREATE SCHEMA IF NOT EXISTS leasehold;

CREATE TABLE IF NOT EXISTS leasehold.fence_mark (
    resource  text        PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512),
    token     bigint      NOT NULL CHECK (token > 0),
    raised_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70); -- room to raise a mark without touching the index

COMMENT ON TABLE leasehold.fence_mark IS 'The highest fencing token that has written to each resource';

-- fence lets the transaction go on if no higher token has written to the resource, and raises the mark. It runs with more rights than its
-- caller, whose search_path it keeps: to set another one for each call costs half as much as all the rest. So every name in it says where it is.
CREATE OR REPLACE FUNCTION leasehold.fence(p_resource text, p_token bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_mark bigint;
BEGIN
    IF p_resource IS NULL OR p_token IS NULL OR p_token OPERATOR(pg_catalog.<) 1 THEN
        RAISE EXCEPTION 'fence: resource %, token %: neither may be NULL, and a token is above zero', p_resource, p_token
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Is LEASEHOLD_FENCING_TOKEN set where the statement is made?';
    END IF;
    SELECT m.token INTO v_mark FROM leasehold.fence_mark AS m WHERE m.resource OPERATOR(pg_catalog.=) p_resource FOR NO KEY UPDATE;
    IF FOUND THEN
        IF v_mark OPERATOR(pg_catalog.=) p_token THEN
            RETURN; -- this token was here before: the lock is enough, no new row version is made
        ELSIF v_mark OPERATOR(pg_catalog.<) p_token THEN
            UPDATE leasehold.fence_mark AS m SET token = p_token, raised_at = pg_catalog.now() WHERE m.resource OPERATOR(pg_catalog.=) p_resource;
            RETURN;
        END IF;
    ELSE -- nobody was here before, or somebody comes just now
        INSERT INTO leasehold.fence_mark AS m (resource, token) VALUES (p_resource, p_token)
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token, raised_at = excluded.raised_at
            WHERE m.token OPERATOR(pg_catalog.<=) excluded.token;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT m.token INTO v_mark FROM leasehold.fence_mark AS m WHERE m.resource OPERATOR(pg_catalog.=) p_resource;
    END IF;
    RAISE EXCEPTION 'stale: token % may not write to "%", which has seen token %', p_token, p_resource, v_mark
        USING ERRCODE = 'LHF01', DETAIL = v_mark;
END
$$;

REVOKE ALL ON FUNCTION leasehold.fence(text, bigint) FROM PUBLIC;

-- The transactional outbox, for PostgreSQL 15 and later. Apply it with the tool of your choice, into a schema that is in the
-- search_path of both the writers and the relay; again does no harm, and brings an older outbox up to date. Rights: writers need
-- INSERT on leasehold_outbox and USAGE on the sequence, and can set no more than what an event is; the relay owns the tables,
-- or has SELECT, INSERT, UPDATE and DELETE on the three (then autovacuum alone cleans up); who retries parked events needs both
-- rights.
--
-- Any language enqueues with one INSERT in its own transaction:
--
--   INSERT INTO leasehold_outbox (key, source, type, data) VALUES ('order-17', '/shop', 'com.example.sold', '{"n":1}');

CREATE SEQUENCE IF NOT EXISTS leasehold_outbox_seq;

-- What is not delivered yet. A row is deleted when it was. From enqueued_at on, and seq, an INSERT is not believed: see the trigger.
CREATE TABLE IF NOT EXISTS leasehold_outbox (
  key             text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512), -- NULL in an INSERT: the id
  seq             bigint NOT NULL,                                                       -- set by the trigger, always
  id              text NOT NULL DEFAULT gen_random_uuid()::text CHECK (octet_length(id) BETWEEN 1 AND 128),
  source          text NOT NULL CHECK (octet_length(source) BETWEEN 1 AND 512),
  type            text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 128),
  subject         text NOT NULL DEFAULT '' CHECK (octet_length(subject) <= 512),
  time            timestamptz NOT NULL DEFAULT now() CHECK (isfinite(time)),
  datacontenttype text NOT NULL DEFAULT 'application/json' CHECK (octet_length(datacontenttype) BETWEEN 1 AND 128
                    AND datacontenttype !~ '[[:cntrl:]]'),                               -- it becomes a header as it is
  data            bytea NOT NULL DEFAULT '' CHECK (octet_length(data) <= 1048576),
  extensions      jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(extensions) = 'object' AND octet_length(extensions::text) <= 16384
                    AND NOT extensions @? '$.keyvalue() ? (@.value.type() != "string" || !(@.key like_regex "^[a-z0-9]{1,20}$"))'),
  enqueued_at     timestamptz NOT NULL DEFAULT clock_timestamp() CHECK (isfinite(enqueued_at)),
  attempts        int NOT NULL DEFAULT 0,              -- failed deliveries that were counted
  due_at          timestamptz NOT NULL DEFAULT '-infinity', -- no delivery before; of the first event of a key it stops the key
  last_error      text NOT NULL DEFAULT '',
  PRIMARY KEY (key, seq)                               -- the only index: the first event of each key is found by walking it
) WITH (
  fillfactor = 90,                                     -- room for a counted failure beside the row
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0
);

-- What was given up. A row stays until somebody retries it or deletes it.
CREATE TABLE IF NOT EXISTS leasehold_outbox_parked (
  LIKE leasehold_outbox INCLUDING CONSTRAINTS,
  parked_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (seq)
);

-- What the relays are delivering now: one row a relay, committed before the first delivery of a batch and deleted with its outcome. Whoever
-- gets the lock on an event of such a row knows that the relay has died over it, or has lost its connection.
CREATE TABLE IF NOT EXISTS leasehold_outbox_offered (
  relay      text PRIMARY KEY,           -- a random name for each start
  seqs       bigint[] NOT NULL,
  counts     boolean NOT NULL,           -- it was one event, alone: its next relay counts a failed delivery
  offered_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- A sequence alone is not an order: the number is drawn at the INSERT, but a transaction with a lower number can commit after
-- one with a higher number, and would then be found by the relay too late. So the writers of one key come one after another:
-- whoever inserts holds the key until the end of the transaction, and the number is drawn after that. For one key, the order
-- of numbers is the order of commits.
--
-- A writer says what happened. What became of it is for relays to say: one that could set due_at would stop its key for ever.
CREATE OR REPLACE FUNCTION leasehold_outbox_order() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.key IS NULL THEN
    NEW.key := NEW.id; -- alone, so nobody to wait for
  ELSE
    PERFORM pg_advisory_xact_lock(hashtextextended(NEW.key, 5494291760837283));
  END IF;
  NEW.seq := nextval(format('%I.leasehold_outbox_seq', TG_TABLE_SCHEMA)::regclass);
  NEW.enqueued_at := clock_timestamp();
  NEW.attempts := 0;
  NEW.due_at := '-infinity';
  NEW.last_error := '';
  RETURN NEW;
END $$;

-- Wakes the relays when the transaction commits; several notifications of one transaction become one. Transactions that notify
-- commit one at a time in the whole database server. Where that is too slow, disable this trigger: the relays poll.
CREATE OR REPLACE FUNCTION leasehold_outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NOTIFY leasehold_outbox;
  RETURN NULL;
END $$;

-- Not OR REPLACE, which would enable a trigger that was disabled.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'leasehold_outbox'::regclass AND tgname = 'leasehold_outbox_order') THEN
    CREATE TRIGGER leasehold_outbox_order BEFORE INSERT ON leasehold_outbox
      FOR EACH ROW EXECUTE FUNCTION leasehold_outbox_order();
  END IF;
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'leasehold_outbox'::regclass AND tgname = 'leasehold_outbox_wake') THEN
    CREATE TRIGGER leasehold_outbox_wake AFTER INSERT ON leasehold_outbox
      FOR EACH STATEMENT EXECUTE FUNCTION leasehold_outbox_wake();
  END IF;
END $$;

-- Puts parked events back, each at the end of its key and with the id that it has, as if it was enqueued now. Returns how many.
--   SELECT leasehold_outbox_retry(ARRAY['5f0c...']);
CREATE OR REPLACE FUNCTION leasehold_outbox_retry(ids text[]) RETURNS bigint LANGUAGE sql AS $$
  WITH back AS (DELETE FROM leasehold_outbox_parked WHERE id = ANY (ids) RETURNING *), again AS (
    INSERT INTO leasehold_outbox (key, id, source, type, subject, time, datacontenttype, data, extensions)
    SELECT key, id, source, type, subject, time, datacontenttype, data, extensions FROM back ORDER BY key, seq
    RETURNING 1)
  SELECT count(*) FROM again
$$;

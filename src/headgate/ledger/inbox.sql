-- function: receive
-- Take in N deliveries in one statement: admit the new ones, count the others.
-- Keys arrive sorted and without repeats; two receivers of the same keys would deadlock otherwise.
-- Plans are pinned: on a fresh table the planner would guess a sequential scan and keep it.
-- Answers one row per delivery that is not new: its entry, and whether the payload differs.
CREATE OR REPLACE FUNCTION headgate.receive(
    p smallint, from_source text, deliveries bigint,
    keys bytea[], uris text[], event_times timestamptz[], received timestamptz[],
    prints bigint[], gone boolean[], sequences text[], subjects text[], envelopes bytea[], datas bytea[],
    OUT admitted bigint, OUT known bytea[], OUT conflicting bytea[])
LANGUAGE plpgsql AS $$
DECLARE
    fresh bytea[];
BEGIN
    WITH told AS MATERIALIZED (
        SELECT * FROM unnest(keys, uris, event_times, received, prints, gone, sequences, subjects, envelopes, datas)
            AS t(key, uri, event_time, received_at, fingerprint, removed, sequence, subject, envelope, data)),
    admit AS (
        INSERT INTO headgate.entry (pipeline, key, uri, event_time, received_at, fingerprint, removed, sequence, envelope, data)
        SELECT p, t.key, t.uri, t.event_time, t.received_at, t.fingerprint, t.removed, t.sequence, t.envelope, t.data
        FROM told t
        ON CONFLICT (pipeline, key) DO NOTHING
        RETURNING id, entry.key, entry.uri),
    enqueue AS (
        INSERT INTO headgate.work (pipeline, id, subject)
        SELECT p, a.id, hashtextextended(coalesce(t.subject, a.uri), p)
        FROM admit a JOIN told t ON t.key = a.key)
    SELECT array_agg(a.key) INTO fresh FROM admit a;

    admitted := coalesce(cardinality(fresh), 0);
    -- The usual case first: everything was new, and nothing was said twice.
    IF admitted < deliveries THEN
        IF admitted < cardinality(keys) THEN
            WITH again AS (
                SELECT e.id, t.key, t.fingerprint, t.envelope, e.fingerprint <> t.fingerprint AS differs
                FROM unnest(keys, prints, envelopes) AS t(key, fingerprint, envelope)
                JOIN headgate.entry e ON e.pipeline = p AND e.key = t.key
                WHERE NOT t.key = ANY (coalesce(fresh, '{}'))),
            counted AS (
                INSERT INTO headgate.redelivery AS r (entry, times, conflicts, last_at)
                SELECT a.id, 1, a.differs::int, clock_timestamp() FROM again a ORDER BY a.id
                ON CONFLICT (entry) DO UPDATE SET times = r.times + 1,
                    conflicts = r.conflicts + excluded.conflicts, last_at = excluded.last_at),
            recorded AS (
                INSERT INTO headgate.conflict (entry, fingerprint, envelope)
                SELECT a.id, a.fingerprint, a.envelope FROM again a WHERE a.differs)
            SELECT array_agg(a.key), array_agg(a.key) FILTER (WHERE a.differs)
            INTO known, conflicting FROM again a;
        END IF;
    END IF;

    INSERT INTO headgate.tally AS y (pipeline, source, slot, received, admitted, duplicate, conflict)
    VALUES (p, from_source, pg_backend_pid() % 16, deliveries, receive.admitted,
            deliveries - receive.admitted - coalesce(cardinality(conflicting), 0),
            coalesce(cardinality(conflicting), 0))
    ON CONFLICT (pipeline, source, slot) DO UPDATE SET
        received = y.received + excluded.received, admitted = y.admitted + excluded.admitted,
        duplicate = y.duplicate + excluded.duplicate, conflict = y.conflict + excluded.conflict;
END $$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off;

-- function: notice
-- The compare-and-swap of a polled source: whoever saw the uri as it is known may number its next
-- generation. The loser saw an older listing; it looks again and finds nothing new.
CREATE OR REPLACE FUNCTION headgate.notice(
    p smallint, from_source text, uris text[], hints text[], expected bigint[], gone boolean[])
RETURNS TABLE (uri text, generation bigint)
LANGUAGE sql AS $$
    INSERT INTO headgate.listing AS l (pipeline, source, uri, hint, generation, removed)
    SELECT p, from_source, t.uri, t.hint, t.expected + 1, t.gone
    FROM unnest(uris, hints, expected, gone) AS t(uri, hint, expected, gone)
    ORDER BY t.uri
    ON CONFLICT (pipeline, source, uri) DO UPDATE
        SET hint = excluded.hint, generation = excluded.generation, removed = excluded.removed
        WHERE l.generation = excluded.generation - 1
    RETURNING l.uri, l.generation
$$;

-- name: listing
SELECT uri, hint, generation, removed FROM headgate.listing WHERE pipeline = $1 AND source = $2

-- name: store
INSERT INTO headgate.store AS s (uri) VALUES ($1)
ON CONFLICT (uri) DO UPDATE SET uri = excluded.uri
RETURNING id

-- name: register
INSERT INTO headgate.pipeline AS p (name, store) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET store = excluded.store
RETURNING id

-- name: deploy
INSERT INTO headgate.deployment AS d (pipeline, version, code, params, declared)
VALUES ($1, $2, $3, $4, $5::text::jsonb)
ON CONFLICT (pipeline, version, code, params) DO UPDATE SET declared = excluded.declared
RETURNING id

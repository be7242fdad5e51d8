-- function: receive
-- Take in N deliveries in one statement: admit the new ones, count the others.
-- Keys arrive sorted and without repeats; two receivers of the same keys would deadlock otherwise.
-- Known keys are looked up first and left out. Whoever is told the same at the same moment waits for
-- the one who was quicker, and looks again: ON CONFLICT would have every new row pay for that.
-- Joins are pinned to hashing: the planner takes an array for ten rows and would loop over a
-- thousand of them a thousand times.
-- `subjects` is null where every uri is its own subject.
-- Where a subject comes several times, `ranks` says in which order it was told: entries are
-- numbered in that order, since the gate takes them by number.
-- `parts` names the partition of each, where a pipeline limits them.
-- Whoever waits for work is told with the commit (pg/bell.py).
-- Answers how many were new, the keys that were not, and those of them whose payload differs.
CREATE OR REPLACE FUNCTION headgate.receive(
    p smallint, from_source text, deliveries bigint,
    keys bytea[], uris text[], event_times timestamptz[], received timestamptz[],
    prints bigint[], gone boolean[], sequences text[], subjects text[], envelopes bytea[], datas bytea[],
    ranks int[], parts text[],
    OUT admitted bigint, OUT known bytea[], OUT conflicting bytea[])
LANGUAGE plpgsql AS $$
DECLARE
    many   int := cardinality(keys);
    named  bytea[] := CASE WHEN subjects IS NULL AND parts IS NULL THEN '{}' ELSE keys END;
    ids    bigint[];
    before bigint[];
    told   bigint[];
BEGIN
    IF ranks IS NOT NULL THEN
        ids := ARRAY(SELECT nextval('headgate.entry_id_seq') FROM generate_series(1, many));
    END IF;
    LOOP
        SELECT array_agg(o.key), array_agg(o.id), array_agg(o.fingerprint) INTO known, before, told
        FROM headgate.entry o WHERE o.pipeline = p AND o.key = ANY (keys);
        BEGIN
            WITH admit AS (
                INSERT INTO headgate.entry (id, pipeline, key, uri, event_time, received_at, fingerprint, removed, sequence, envelope, data)
                OVERRIDING SYSTEM VALUE
                SELECT coalesce(ids[t.rank], nextval('headgate.entry_id_seq')), p, t.key, t.uri, t.event_time,
                       t.received_at, t.fingerprint, t.removed, t.sequence, t.envelope, t.data
                FROM (SELECT unnest(keys) AS key, unnest(uris) AS uri,
                             unnest(headgate.spread(event_times, many)) AS event_time,
                             unnest(headgate.spread(received, many)) AS received_at,
                             unnest(prints) AS fingerprint, unnest(headgate.spread(gone, many)) AS removed,
                             unnest(headgate.spread(sequences, many)) AS sequence, unnest(envelopes) AS envelope,
                             unnest(headgate.spread(datas, many)) AS data, unnest(ranks) AS rank) AS t
                WHERE NOT EXISTS (SELECT FROM unnest(known) AS k(key) WHERE k.key = t.key)
                RETURNING id, entry.key, entry.uri),
            enqueue AS (
                INSERT INTO headgate.work (pipeline, id, subject, part)
                SELECT p, a.id, hashtextextended(coalesce(t.subject, a.uri), p), hashtextextended(t.part, p)
                FROM admit a LEFT JOIN unnest(named, subjects, parts) AS t(key, subject, part) ON t.key = a.key
                ORDER BY a.id)
            SELECT count(*) INTO admitted FROM admit a;
            EXIT;
        EXCEPTION WHEN unique_violation THEN
            -- Somebody was quicker, so more is known by now; else looking again would show the same.
            IF (SELECT count(*) FROM headgate.entry o WHERE o.pipeline = p AND o.key = ANY (keys))
               <= coalesce(cardinality(known), 0) THEN
                RAISE;
            END IF;
        END;
    END LOOP;

    IF admitted > 0 THEN
        PERFORM pg_notify('headgate.work', p::text);
    END IF;
    IF known IS NOT NULL THEN
        WITH again AS (
            SELECT e.id, t.key, t.fingerprint, t.envelope, e.fingerprint <> t.fingerprint AS differs
            FROM (SELECT unnest(keys) AS key, unnest(prints) AS fingerprint,
                         unnest(envelopes) AS envelope) AS t
            JOIN (SELECT unnest(before) AS id, unnest(known) AS key,
                         unnest(told) AS fingerprint) AS e ON e.key = t.key),
        counted AS (
            INSERT INTO headgate.redelivery AS r (entry, times, conflicts, last_at)
            SELECT a.id, 1, a.differs::int, clock_timestamp() FROM again a ORDER BY a.id
            ON CONFLICT (entry) DO UPDATE SET times = r.times + 1,
                conflicts = r.conflicts + excluded.conflicts, last_at = excluded.last_at),
        recorded AS (
            INSERT INTO headgate.conflict (entry, fingerprint, envelope)
            SELECT a.id, a.fingerprint, a.envelope FROM again a WHERE a.differs)
        SELECT array_agg(a.key) INTO conflicting FROM again a WHERE a.differs;
    END IF;

    INSERT INTO headgate.tally AS y (pipeline, source, slot, received, admitted, duplicate, conflict)
    VALUES (p, from_source, pg_backend_pid() % 16, deliveries, receive.admitted,
            deliveries - receive.admitted - coalesce(cardinality(conflicting), 0),
            coalesce(cardinality(conflicting), 0))
    ON CONFLICT (pipeline, source, slot) DO UPDATE SET
        received = y.received + excluded.received, admitted = y.admitted + excluded.admitted,
        duplicate = y.duplicate + excluded.duplicate, conflict = y.conflict + excluded.conflict;
END $$ SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off
       SET plan_cache_mode = force_generic_plan;

-- function: receive_claimed
-- A lone change, and a worker in the same process that has nothing to do: admitted and claimed in one
-- transaction, so that nobody has to be told of it and to ask for it.
-- It keeps to the rules of `claim`: its lock, a lease that is still held, one claimed entry per subject.
-- Where one of them is in the way, or the pipeline limits how much may run, the change is only admitted,
-- and the bell rings. What was told before is answered by no row, and nothing is written: the ordinary
-- way counts it.
-- The key comes before the lock: who waits for a key, since somebody else is telling the same, must not
-- hold up all claims of the pipeline.
CREATE OR REPLACE FUNCTION headgate.receive_claimed(
    p smallint, from_source text, w int, new_key bytea, new_uri text, at timestamptz, got timestamptz,
    print bigint, gone boolean, seq text, about text, told bytea, body bytea)
RETURNS TABLE (
    id bigint, subject bigint, claimed float8,
    head bigint, head_version int, head_removed boolean, head_content bytea, head_effect bytea,
    head_sequence text, head_event_time timestamptz, head_seen bigint, head_artifacts text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    entry_id bigint;
    hashed   bigint := hashtextextended(coalesce(about, new_uri), p);
    now_at   timestamptz;
BEGIN
    -- Who tells it waits for the disk, or for the commit that ends the attempt (nearby.py).
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO headgate.entry (pipeline, key, uri, event_time, received_at, fingerprint, removed, sequence, envelope, data)
    VALUES (p, new_key, new_uri, at, got, print, gone, seq, told, body)
    ON CONFLICT (pipeline, key) DO NOTHING RETURNING entry.id INTO entry_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(1751606887, p);
    SELECT clock_timestamp() INTO now_at FROM headgate.worker k
    WHERE k.id = w AND k.buried_at IS NULL AND k.alive_until > clock_timestamp()
      AND NOT EXISTS (SELECT FROM headgate.work o WHERE o.subject = hashed)
      AND NOT EXISTS (SELECT FROM headgate.part x WHERE x.pipeline = p)
      AND EXISTS (SELECT FROM headgate.pipeline l
                  WHERE l.id = p AND l.per_partition IS NULL AND l.coalesce_seconds IS NULL)
    FOR SHARE OF k;
    IF now_at IS NULL THEN
        PERFORM pg_notify('headgate.work', p::text);
    END IF;
    INSERT INTO headgate.work (pipeline, id, subject, worker, fence, attempts, first_at)
    VALUES (p, entry_id, hashed, CASE WHEN now_at IS NOT NULL THEN w END, (now_at IS NOT NULL)::int,
            (now_at IS NOT NULL)::int, now_at);
    INSERT INTO headgate.tally AS y (pipeline, source, slot, received, admitted, duplicate, conflict)
    VALUES (p, from_source, pg_backend_pid() % 16, 1, 1, 0, 0)
    ON CONFLICT (pipeline, source, slot) DO UPDATE SET
        received = y.received + 1, admitted = y.admitted + 1;
    RETURN QUERY
    SELECT entry_id, hashed, extract(epoch FROM now_at)::float8,
           h.entry, h.version, h.removed, h.content, h.effect, h.sequence, h.event_time, h.id,
           CASE WHEN gone THEN h.artifacts::text END
    FROM (SELECT) AS one LEFT JOIN LATERAL (
        SELECT o.entry, o.version, o.removed, o.content, o.effect, o.artifacts, x.sequence, x.event_time, x.id
        FROM headgate.publication o CROSS JOIN LATERAL (
            SELECT y.id, y.sequence, headgate.stood_at(y.sequence, y.event_time, y.received_at) AS event_time
            FROM headgate.entry y WHERE y.id = coalesce(o.seen, o.entry) OFFSET 0) AS x
        WHERE now_at IS NOT NULL AND o.pipeline = p AND o.uri = new_uri AND o.successor IS NULL OFFSET 0) AS h ON true;
END $$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;

-- function: notice
-- The compare-and-swap of a polled source: whoever saw the uri as it is known may number its next
-- generation. The loser saw an older listing; it looks again and finds nothing new.
-- Numbers go on where any source of the pipeline left off: a source that is renamed, or replaced by
-- one that covers the same folder, must not use a number of its predecessor again.
CREATE OR REPLACE FUNCTION headgate.notice(
    p smallint, from_source text, uris text[], hints text[], expected bigint[], gone boolean[])
RETURNS TABLE (uri text, generation bigint)
LANGUAGE sql AS $$
    INSERT INTO headgate.listing AS l (pipeline, uri, source, hint, generation, removed)
    SELECT p, t.uri, from_source, t.hint, 1 + greatest(t.expected, (
               SELECT max(o.generation) FROM headgate.listing o WHERE o.pipeline = p AND o.uri = t.uri)),
           t.gone
    FROM unnest(uris, hints, expected, gone) AS t(uri, hint, expected, gone)
    ORDER BY t.uri
    ON CONFLICT (pipeline, uri, source) DO UPDATE
        SET hint = excluded.hint, generation = excluded.generation, removed = excluded.removed
        WHERE l.generation = expected[array_position(uris, l.uri)]
    RETURNING l.uri, l.generation
$$;

-- name: listing
SELECT uri, hint, generation, removed FROM headgate.listing WHERE pipeline = $1 AND source = $2

-- name: store
-- Looked for first: an INSERT that finds its row there has used up a number all the same, and a smallint
-- has few. Processes start often.
WITH known AS (SELECT s.id FROM headgate.store s WHERE s.uri = $1),
made AS (
    INSERT INTO headgate.store AS s (uri) SELECT $1 WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT (uri) DO UPDATE SET uri = excluded.uri
    RETURNING s.id)
SELECT id FROM known UNION ALL SELECT id FROM made

-- name: register
WITH known AS (
    UPDATE headgate.pipeline p SET store = $2, per_partition = $3, coalesce_seconds = $4, retries_per_second = $5
    WHERE p.name = $1 RETURNING p.id),
made AS (
    INSERT INTO headgate.pipeline AS p (name, store, per_partition, coalesce_seconds, retries_per_second)
    SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT (name) DO UPDATE SET store = excluded.store, per_partition = excluded.per_partition,
        coalesce_seconds = excluded.coalesce_seconds, retries_per_second = excluded.retries_per_second
    RETURNING p.id)
SELECT id FROM known UNION ALL SELECT id FROM made

-- name: deploy
INSERT INTO headgate.deployment AS d (pipeline, version, code, params, declared)
VALUES ($1, $2, $3, $4, $5::text::jsonb)
ON CONFLICT (pipeline, version, code, params, md5(declared::text))
    DO UPDATE SET registered_at = clock_timestamp()
RETURNING id

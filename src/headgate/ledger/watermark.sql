-- function: receive_timed
-- `receive` for a pipeline that declares event time. The stream's row is locked first, ahead of any
-- entry: receivers of one stream pass one after the other and number their entries in that order.
-- `events` says which of the deliveries are events of the stream; what was set aside on arrival and
-- the periods of a schedule are not. `ranks` is always given.
-- Answers what `receive` does, with the keys of what is late and the watermark that had passed each.
CREATE OR REPLACE FUNCTION headgate.receive_timed(
    p smallint, from_source text, deliveries bigint,
    keys bytea[], uris text[], event_times timestamptz[], received timestamptz[],
    prints bigint[], gone boolean[], sequences text[], subjects text[], envelopes bytea[], datas bytea[],
    ranks int[], parts text[], events boolean[], lateness float8, skew float8,
    OUT admitted bigint, OUT known bytea[], OUT conflicting bytea[], OUT late bytea[], OUT passed timestamptz[])
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM headgate.watermark w WHERE w.pipeline = p AND w.source = from_source FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO headgate.watermark (pipeline, source) VALUES (p, from_source) ON CONFLICT DO NOTHING;
        PERFORM FROM headgate.watermark w WHERE w.pipeline = p AND w.source = from_source FOR UPDATE;
    END IF;
    SELECT r.admitted, r.known, r.conflicting INTO admitted, known, conflicting
    FROM headgate.receive(p, from_source, deliveries, keys, uris, event_times, received, prints, gone,
                          sequences, subjects, envelopes, datas, ranks, parts) r;
    IF admitted > 0 THEN
        SELECT d.late, d.passed INTO late, passed
        FROM headgate.decide_late(p, from_source, keys, event_times, ranks, events, known, lateness, skew) d;
    END IF;
END $$;

-- function: decide_late
-- Which of the entries that were just admitted are late, and how far the stream has come after them
-- (`admit` in model/watermark.py). They count in the order they were told, which is that of their
-- numbers: each is held against what came before it. A clock is believed no further than `skew` ahead
-- of this server's.
-- New keys are told from known ones by grouping: a join of two arrays may be planned as a loop in a loop.
CREATE OR REPLACE FUNCTION headgate.decide_late(
    p smallint, from_source text, keys bytea[], event_times timestamptz[], ranks int[], events boolean[],
    known bytea[], lateness float8, skew float8, OUT late bytea[], OUT passed timestamptz[])
LANGUAGE plpgsql AS $$
DECLARE
    many    int := cardinality(keys);
    ceiling timestamptz := clock_timestamp() + make_interval(secs => skew);
    stood   timestamptz;
    latest  timestamptz;
BEGIN
    SELECT w.watermark INTO stood FROM headgate.watermark w WHERE w.pipeline = p AND w.source = from_source;
    WITH told AS (
        SELECT t.key, max(t.event_time) AS event_time, max(t.rank) AS rank,
               least(max(t.event_time), ceiling) AS counted
        FROM (SELECT unnest(keys) AS key, unnest(headgate.spread(event_times, many)) AS event_time,
                     unnest(ranks) AS rank, unnest(headgate.spread(events, many)) AS new
              UNION ALL SELECT unnest(known), NULL, NULL, false) AS t
        GROUP BY t.key HAVING bool_and(t.new)),
    against AS (
        SELECT t.key, t.event_time, t.rank, t.counted,
               greatest(stood, headgate.watermark_of(max(t.counted) OVER before, lateness)) AS watermark
        FROM told t WINDOW before AS (ORDER BY t.rank ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    SELECT array_agg(a.key ORDER BY a.rank) FILTER (WHERE a.event_time < a.watermark),
           array_agg(a.watermark ORDER BY a.rank) FILTER (WHERE a.event_time < a.watermark),
           max(a.counted)
    INTO late, passed, latest FROM against a;
    IF late IS NOT NULL THEN
        UPDATE headgate.entry e SET late = t.passed
        FROM unnest(decide_late.late, decide_late.passed) AS t(key, passed) WHERE e.pipeline = p AND e.key = t.key;
    END IF;
    IF latest IS NOT NULL THEN
        UPDATE headgate.watermark w SET
            seen = greatest(w.seen, latest),
            watermark = greatest(w.watermark, headgate.watermark_of(latest, lateness)),
            heard_at = clock_timestamp(),
            late = w.late + coalesce(cardinality(decide_late.late), 0)
        WHERE w.pipeline = p AND w.source = from_source;
    END IF;
END $$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off;

-- function: watermark_of
-- The latest event time less the allowed lateness, and not before the first year that programs know.
CREATE OR REPLACE FUNCTION headgate.watermark_of(latest timestamptz, lateness float8) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN latest IS NOT NULL THEN
        greatest(latest - make_interval(secs => lateness), '0001-01-01 00:00:00+00'::timestamptz) END
$$;

-- name: declare
-- A source that has told nothing yet is waited for as well, until it counts as idle.
INSERT INTO headgate.watermark (pipeline, source) SELECT $1, s FROM unnest($2::text[]) AS t(s) ORDER BY s
ON CONFLICT DO NOTHING

-- name: streams
-- The streams of pipelines that declare event time now, or of one of them, and what time it is.
SELECT p.id, p.name AS pipeline, w.source, w.seen, w.watermark, w.heard_at, w.late,
       (d.declared -> 'event_time' ->> 'idle_seconds')::float8 AS idle_seconds, clock_timestamp() AS now
FROM headgate.watermark w JOIN headgate.pipeline p ON p.id = w.pipeline
JOIN LATERAL (
    SELECT d.declared FROM headgate.deployment d WHERE d.pipeline = p.id
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) d ON true
WHERE jsonb_typeof(d.declared -> 'event_time') = 'object' AND ($1::text IS NULL OR p.name = $1)
ORDER BY p.name, w.source

-- name: unfinished
-- The earliest event that was admitted and is neither done nor set aside.
SELECT min(e.event_time) FROM headgate.work w JOIN headgate.entry e ON e.id = w.id
WHERE w.pipeline = $1 AND e.event_time < $2

-- name: holding
-- Pipelines that hold what is late and say when to release it; up to when that was done, and the time.
SELECT p.id, p.name, d.declared -> 'event_time' ->> 'release' AS release, p.late_released, clock_timestamp() AS now
FROM headgate.pipeline p
JOIN LATERAL (
    SELECT d.declared FROM headgate.deployment d WHERE d.pipeline = p.id
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) d ON true
WHERE d.declared -> 'event_time' ->> 'release' IS NOT NULL
ORDER BY p.id

-- name: held
SELECT q.entry FROM headgate.quarantine q
WHERE q.pipeline = $1 AND q.class = 'late' AND q.first_at <= $2 ORDER BY q.entry LIMIT $3

-- name: released
-- Several may sweep at once: it never moves back.
UPDATE headgate.pipeline p SET late_released = greatest(p.late_released, $2) WHERE p.id = $1

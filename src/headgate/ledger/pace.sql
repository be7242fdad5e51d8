-- function: retry_tokens
-- How many retries of a pipeline may begin now: what was left, and what has come in since. The
-- bucket holds what a second brings, and never less than one.
CREATE OR REPLACE FUNCTION headgate.retry_tokens(p smallint, rate float8, now_at timestamptz)
RETURNS float8 LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT least(greatest(rate, 1), t.tokens + rate * extract(epoch FROM now_at - t.at)::float8)
         FROM headgate.throttle t WHERE t.pipeline = p),
        greatest(rate, 1))
$$;

-- function: spend_retries
CREATE OR REPLACE FUNCTION headgate.spend_retries(p smallint, left_over float8, now_at timestamptz)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO headgate.throttle AS t (pipeline, tokens, at) VALUES (p, left_over, now_at)
    ON CONFLICT (pipeline) DO UPDATE SET tokens = excluded.tokens, at = excluded.at
$$;

-- function: is_first
-- Is nothing of this subject claimed, and nothing older of it ready?
CREATE OR REPLACE FUNCTION headgate.is_first(of_subject bigint, entry bigint, now_at timestamptz)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (
        SELECT FROM headgate.work b
        WHERE b.subject = of_subject AND b.id <> entry
          AND (b.worker IS NOT NULL OR (b.id < entry AND coalesce(b.due_at, now_at) <= now_at)))
$$;

-- function: in_burst
CREATE OR REPLACE FUNCTION headgate.in_burst(
    p smallint, of_subject bigint, quiet_seconds float8, now_at timestamptz)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT quiet_seconds IS NOT NULL AND EXISTS (
        SELECT FROM headgate.burst b
        WHERE b.pipeline = p AND b.subject = of_subject
          AND b.started_at > now_at - make_interval(secs => quiet_seconds))
$$;

-- function: held_back
-- Work that was never started, of a pipeline that limits its partitions or folds bursts. It walks
-- from partition to partition, so that a full one costs nobody a look at all its rows; rows of a
-- pipeline without partitions are one partition here.
CREATE OR REPLACE FUNCTION headgate.held_back(
    p smallint, n int, per_part int, quiet_seconds float8, now_at timestamptz)
RETURNS tid[] LANGUAGE sql STABLE AS $$
    SELECT ARRAY(
        WITH RECURSIVE walk AS (
            (SELECT o.part FROM headgate.work o
             WHERE o.pipeline = p AND o.part IS NOT NULL AND per_part IS NOT NULL
             ORDER BY o.part LIMIT 1)
            UNION ALL
            SELECT (SELECT o.part FROM headgate.work o
                    WHERE o.pipeline = p AND o.part > w.part ORDER BY o.part LIMIT 1)
            FROM walk w WHERE w.part IS NOT NULL),
        room AS (
            SELECT w.part, greatest(per_part - coalesce((
                SELECT b.busy FROM headgate.part b WHERE b.pipeline = p AND b.part = w.part), 0), 0)
                AS free
            FROM walk w WHERE w.part IS NOT NULL)
        SELECT c.at FROM (
            SELECT o.at, o.id FROM room r CROSS JOIN LATERAL (
                SELECT o.ctid AS at, o.id FROM headgate.work o
                WHERE o.pipeline = p AND o.part = r.part AND o.worker IS NULL AND o.due_at IS NULL
                  AND headgate.is_first(o.subject, o.id, now_at)
                  AND NOT headgate.in_burst(p, o.subject, quiet_seconds, now_at)
                ORDER BY o.id LIMIT r.free) o
            UNION ALL
            (SELECT o.ctid, o.id FROM headgate.work o
             WHERE o.pipeline = p AND o.part IS NULL AND o.worker IS NULL AND o.due_at IS NULL
               AND headgate.is_first(o.subject, o.id, now_at)
               AND NOT headgate.in_burst(p, o.subject, quiet_seconds, now_at)
             ORDER BY o.id LIMIT n)) c
        ORDER BY c.id LIMIT n)
$$ SET enable_seqscan = off SET enable_bitmapscan = off;

-- function: superseded
-- Is there a change of the same uri that nobody has started and that is newer by the source's own
-- account? The one admitted last need not be the newest.
CREATE OR REPLACE FUNCTION headgate.superseded(
    of_subject bigint, entry bigint, of_uri text, of_sequence text, of_time timestamptz)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM headgate.work y CROSS JOIN LATERAL (
            SELECT * FROM headgate.entry o WHERE o.id = y.id OFFSET 0) AS z
        WHERE y.subject = of_subject AND y.id <> entry AND y.attempts = 0 AND y.due_at IS NULL
          AND y.worker IS NULL AND z.uri = of_uri
          AND CASE WHEN headgate.alike(z.sequence, of_sequence)
                   THEN z.sequence > of_sequence COLLATE "C"
                   ELSE (headgate.stood_at(z.sequence, z.event_time, z.received_at), z.id) > (of_time, entry) END)
$$;

-- function: within_partitions
-- Of these rows, as many of each partition as it has room for, counted in. A partition that is
-- locked is being left right now; the next claim finds it with room.
CREATE OR REPLACE FUNCTION headgate.within_partitions(p smallint, rows_at tid[], per_part int)
RETURNS tid[] LANGUAGE plpgsql AS $$
DECLARE
    kept tid[];
BEGIN
    INSERT INTO headgate.part (pipeline, part, busy)
    SELECT DISTINCT p, o.part, 0 FROM headgate.work o
    WHERE o.ctid = ANY (rows_at) AND o.part IS NOT NULL ORDER BY 2
    ON CONFLICT DO NOTHING;
    WITH locked AS (
        SELECT b.part, b.busy FROM headgate.part b
        WHERE b.pipeline = p AND b.part IN (
            SELECT o.part FROM headgate.work o WHERE o.ctid = ANY (rows_at))
        ORDER BY b.part FOR UPDATE SKIP LOCKED),
    ranked AS (
        SELECT o.ctid AS at, o.part, l.busy,
               row_number() OVER (PARTITION BY o.part ORDER BY o.due_at, o.id) AS nth
        FROM headgate.work o LEFT JOIN locked l ON l.part = o.part
        WHERE o.ctid = ANY (rows_at) AND o.worker IS NULL)
    SELECT coalesce(array_agg(r.at), '{}') INTO kept FROM ranked r
    WHERE r.part IS NULL OR r.nth <= per_part - r.busy;
    UPDATE headgate.part b SET busy = b.busy + c.n FROM (
        SELECT o.part, count(*) AS n FROM headgate.work o
        WHERE o.ctid = ANY (kept) AND o.part IS NOT NULL GROUP BY o.part) c
    WHERE b.pipeline = p AND b.part = c.part;
    RETURN kept;
END $$;

-- name: started
-- A change of these subjects begins now: what follows within the window waits, and folds.
INSERT INTO headgate.burst AS b (pipeline, subject, started_at)
SELECT $1, s, clock_timestamp() FROM unnest($2::bigint[]) AS t(s) GROUP BY s ORDER BY s
ON CONFLICT (pipeline, subject) DO UPDATE SET started_at = excluded.started_at

-- name: forget
-- Bursts that are over, and partitions that hold nothing.
WITH bursts AS (
    DELETE FROM headgate.burst b USING headgate.pipeline p
    WHERE p.id = b.pipeline AND b.started_at <
        clock_timestamp() - make_interval(secs => coalesce(p.coalesce_seconds, 0)))
DELETE FROM headgate.part x WHERE (x.pipeline, x.part) IN (
    SELECT b.pipeline, b.part FROM headgate.part b
    WHERE b.busy = 0 AND NOT EXISTS (
        SELECT FROM headgate.work o WHERE o.pipeline = b.pipeline AND o.part = b.part)
    FOR UPDATE SKIP LOCKED)

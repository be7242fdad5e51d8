-- function: flow_lines
-- How the lines of some commits ended, each commit by itself: the definition that the roll-up adds up and
-- that whoever asks adds for what came after it. Commits are read in their order and lines by their batch.
-- Decisions of operators have no attempt, and steps that are the same each time.
--   released, discarded: out of quarantine · undiscarded: back into it · reset: a skipped entry is asked again
CREATE OR REPLACE FUNCTION headgate.flow_lines(after bigint, upto bigint)
RETURNS TABLE (pipeline smallint, at timestamptz, kind text, reason text, n bigint, doubled bigint)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(c.pipeline, (SELECT e.pipeline FROM headgate.journal j JOIN headgate.entry e ON e.id = j.entry
                                 WHERE j.batch = c.batch ORDER BY j.n LIMIT 1)),
           c.at,
           CASE x.decided WHEN 'quarantined received' THEN 'released' WHEN 'quarantined rolled_back' THEN 'discarded'
                          WHEN 'rolled_back quarantined' THEN 'undiscarded' WHEN 'skipped received' THEN 'reset'
                          ELSE x.outcome::text END,
           CASE WHEN x.outcome = 'skipped' THEN x.reason WHEN x.decided = 'skipped received'
                THEN convert_from(x.doc, 'UTF8')::json ->> 'skipped' ELSE '' END,
           x.n, x.doubled
    FROM headgate.commit c
    CROSS JOIN LATERAL (
        SELECT j.outcome, j.reason, count(*) AS n,
               CASE WHEN j.attempt = 0 THEN j.steps END AS decided,
               CASE WHEN j.attempt = 0 AND j.steps = 'skipped received' THEN j.doc END AS doc,
               -- Nothing can come before a first claim.
               count(*) FILTER (WHERE j.fence > 1 AND j.outcome = 'finalized' AND EXISTS (
                   SELECT FROM headgate.journal o
                   WHERE o.entry = j.entry AND o.outcome = 'finalized' AND (o.batch, o.n) < (j.batch, j.n))) AS doubled
        FROM headgate.journal j WHERE j.batch = c.batch GROUP BY 1, 2, 4, 5) x
    WHERE c.pos > after AND c.pos <= upto
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
   SET enable_sort = off SET jit = off;

-- function: flow_kinds
-- What each end of a line adds to where entries rest, or takes off.
CREATE OR REPLACE FUNCTION headgate.flow_kinds() RETURNS TABLE (said text, kind text, sign int)
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('finalized', 'finalized', 1), ('skipped', 'skipped', 1), ('reset', 'skipped', -1),
           ('quarantined', 'quarantined', 1), ('released', 'quarantined', -1),
           ('discarded', 'quarantined', -1), ('discarded', 'discarded', 1),
           ('undiscarded', 'quarantined', 1), ('undiscarded', 'discarded', -1)
$$;

-- function: flow_roll_up
-- Add up the next commits, of about `most` lines, and the deliveries since the last time; how many lines
-- and deliveries that were. Null: somebody else is at it.
-- Positions rise in the order of commits and have no gaps, so what is there up to a position is all of it.
CREATE OR REPLACE FUNCTION headgate.flow_roll_up(most int, samples int, bounds float8[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    after bigint;
    upto  bigint;
    lines bigint;
    told  bigint;
BEGIN
    SELECT m.pos INTO after FROM headgate.flow_mark m FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- It can all be added up again: nobody waits for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT max(c.pos), sum(c.n) INTO upto, lines FROM (
        SELECT c.pos, c.n, sum(c.n) OVER (ORDER BY c.pos) - c.n AS before FROM (
            SELECT c.pos, c.n FROM headgate.commit c WHERE c.pos > after ORDER BY c.pos LIMIT most) c) c
    WHERE c.before < most;
    IF lines > 0 THEN
        PERFORM headgate.flow_add(after, upto);
        PERFORM headgate.flow_time(after, upto, samples, bounds);
        UPDATE headgate.flow_mark SET pos = upto, rolled_at = clock_timestamp();
    END IF;
    told := headgate.flow_take();
    RETURN coalesce(lines, 0) + told;
END $$;

-- function: flow_add
CREATE OR REPLACE FUNCTION headgate.flow_add(after bigint, upto bigint) RETURNS void
LANGUAGE sql AS $$
    WITH ended AS MATERIALIZED (SELECT * FROM headgate.flow_lines(after, upto)),
    totals AS (
        INSERT INTO headgate.flow_total AS t (pipeline, kind, reason, n, last_at)
        SELECT e.pipeline, k.kind, e.reason, sum(k.sign * e.n), max(e.at)
        FROM ended e JOIN headgate.flow_kinds() k ON k.said = e.kind
        GROUP BY 1, 2, 3
        ON CONFLICT (pipeline, kind, reason) DO UPDATE
            SET n = t.n + excluded.n, last_at = greatest(t.last_at, excluded.last_at))
    INSERT INTO headgate.flow AS f
        (at, minutes, pipeline, finalized, skipped, quarantined, waiting, fenced, other, doubled)
    SELECT date_bin(make_interval(mins => w.minutes), e.at, '2000-01-01Z'), w.minutes, e.pipeline,
           coalesce(sum(e.n) FILTER (WHERE e.kind = 'finalized'), 0),
           coalesce(sum(e.n) FILTER (WHERE e.kind = 'skipped'), 0),
           coalesce(sum(e.n) FILTER (WHERE e.kind = 'quarantined'), 0),
           coalesce(sum(e.n) FILTER (WHERE e.kind = 'waiting'), 0),
           coalesce(sum(e.n) FILTER (WHERE e.kind = 'fenced'), 0),
           coalesce(sum(e.n) FILTER (WHERE e.kind NOT IN ('finalized', 'skipped', 'quarantined', 'waiting', 'fenced')), 0),
           sum(e.doubled)
    FROM ended e CROSS JOIN (VALUES (1), (60)) AS w(minutes)
    GROUP BY 1, 2, 3
    ON CONFLICT (minutes, at, pipeline) DO UPDATE SET
        finalized = f.finalized + excluded.finalized, skipped = f.skipped + excluded.skipped,
        quarantined = f.quarantined + excluded.quarantined, waiting = f.waiting + excluded.waiting,
        fenced = f.fenced + excluded.fenced, other = f.other + excluded.other,
        doubled = f.doubled + excluded.doubled
$$;

-- function: flow_time
-- How long finalized and skipped entries took. Of the lines of these commits about `samples` are looked at,
-- evenly spread, and each stands for those it was taken from; where there are fewer, all of them. What a
-- replay runs again was received long ago, and what lay in quarantine waited for a person: both say nothing
-- of how long the work takes.
CREATE OR REPLACE FUNCTION headgate.flow_time(after bigint, upto bigint, samples int, bounds float8[]) RETURNS void
LANGUAGE sql AS $$
    WITH page AS MATERIALIZED (
        SELECT c.batch, c.n, c.at, sum(c.n) OVER (ORDER BY c.pos) - c.n AS before,
               greatest(sum(c.n) OVER () / samples, 1) AS step
        FROM headgate.commit c WHERE c.pos > after AND c.pos <= upto),
    taken AS MATERIALIZED (
        SELECT e.pipeline, c.at, c.step,
               width_bucket(extract(epoch FROM j.at - e.received_at)::float8, bounds) AS bucket
        FROM page c
        CROSS JOIN LATERAL generate_series(c.step - c.before % c.step, c.n, c.step) AS g(n)
        CROSS JOIN LATERAL (
            SELECT j.entry, j.at, j.fence FROM headgate.journal j
            WHERE j.batch = c.batch AND j.n = g.n AND j.outcome IN ('finalized', 'skipped') OFFSET 0) j
        CROSS JOIN LATERAL (
            SELECT e.pipeline, e.received_at FROM headgate.entry e
            WHERE e.id = j.entry AND e.replay IS NULL OFFSET 0) e
        WHERE j.fence = 1 OR NOT EXISTS (
            SELECT FROM headgate.journal o WHERE o.entry = j.entry AND o.outcome = 'quarantined'))
    INSERT INTO headgate.flow_latency AS f (at, minutes, pipeline, bucket, n)
    SELECT date_bin(make_interval(mins => w.minutes), t.at, '2000-01-01Z'), w.minutes, t.pipeline, t.bucket, sum(t.step)
    FROM taken t CROSS JOIN (VALUES (1), (60)) AS w(minutes)
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (minutes, at, pipeline, bucket) DO UPDATE SET n = f.n + excluded.n
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
   SET jit = off;

-- function: flow_take
-- What the tally has more than was seen of it, and see it.
CREATE OR REPLACE FUNCTION headgate.flow_take() RETURNS bigint
LANGUAGE sql AS $$
    WITH more AS MATERIALIZED (
        SELECT t.pipeline, t.source, t.received - coalesce(s.received, 0) AS received,
               t.admitted - coalesce(s.admitted, 0) AS admitted,
               t.duplicate - coalesce(s.duplicate, 0) AS duplicate,
               t.conflict - coalesce(s.conflict, 0) AS conflict
        FROM (SELECT y.pipeline, y.source, sum(y.received) AS received, sum(y.admitted) AS admitted,
                     sum(y.duplicate) AS duplicate, sum(y.conflict) AS conflict
              FROM headgate.tally y GROUP BY y.pipeline, y.source) t
        LEFT JOIN headgate.flow_seen s ON s.pipeline = t.pipeline AND s.source = t.source
        WHERE t.received <> coalesce(s.received, 0)),
    seen AS (
        INSERT INTO headgate.flow_seen AS s (pipeline, source, received, admitted, duplicate, conflict)
        SELECT m.pipeline, m.source, m.received, m.admitted, m.duplicate, m.conflict FROM more m
        ON CONFLICT (pipeline, source) DO UPDATE SET
            received = s.received + excluded.received, admitted = s.admitted + excluded.admitted,
            duplicate = s.duplicate + excluded.duplicate, conflict = s.conflict + excluded.conflict),
    added AS (
        INSERT INTO headgate.flow_delivery AS d
            (at, minutes, pipeline, source, received, admitted, duplicate, conflict)
        SELECT date_bin(make_interval(mins => w.minutes), clock_timestamp(), '2000-01-01Z'), w.minutes,
               m.pipeline, m.source, m.received, m.admitted, m.duplicate, m.conflict
        FROM more m CROSS JOIN (VALUES (1), (60)) AS w(minutes)
        ON CONFLICT (minutes, at, pipeline, source) DO UPDATE SET
            received = d.received + excluded.received, admitted = d.admitted + excluded.admitted,
            duplicate = d.duplicate + excluded.duplicate, conflict = d.conflict + excluded.conflict)
    SELECT coalesce(sum(m.received), 0)::bigint FROM more m
$$;

-- name: roll_up
SELECT headgate.flow_roll_up($1, $2, $3::float8[])

-- name: forget
DELETE FROM headgate.flow WHERE minutes = 1 AND at < clock_timestamp() - make_interval(hours => $1)

-- name: forget_latency
DELETE FROM headgate.flow_latency WHERE minutes = 1 AND at < clock_timestamp() - make_interval(hours => $1)

-- name: forget_deliveries
DELETE FROM headgate.flow_delivery WHERE minutes = 1 AND at < clock_timestamp() - make_interval(hours => $1)

-- name: totals
-- Where entries rest that are not live work: up to the mark, and what the journal says beyond it.
SELECT t.pipeline, t.kind, t.reason, t.n, t.last_at FROM headgate.flow_total t
UNION ALL
SELECT e.pipeline, k.kind, e.reason, (k.sign * e.n)::bigint, e.at
FROM headgate.flow_mark m
CROSS JOIN LATERAL headgate.flow_lines(m.pos, 9223372036854775807) e
JOIN headgate.flow_kinds() k ON k.said = e.kind

-- function: flow_queues
-- Live work of each pipeline: of a long queue only the first are looked at one by one. Claims go by number,
-- so those that are claimed are among them. A queue that has just grown is one that the planner knows
-- nothing of: it is told to go by the index, and stops where it was asked to.
CREATE OR REPLACE FUNCTION headgate.flow_queues(most int)
RETURNS TABLE (id smallint, seen bigint, ready bigint, claimed bigint, waiting bigint, oldest timestamptz, now timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT p.id, q.seen, q.ready, q.claimed, q.waiting, o.received_at, clock_timestamp()
    FROM headgate.pipeline p
    CROSS JOIN LATERAL (
        SELECT count(*) AS seen,
               count(*) FILTER (WHERE w.worker IS NULL AND coalesce(w.due_at, '-infinity') <= clock_timestamp()) AS ready,
               count(*) FILTER (WHERE w.worker IS NOT NULL) AS claimed,
               count(*) FILTER (WHERE w.worker IS NULL AND w.due_at > clock_timestamp()) AS waiting,
               min(w.id) AS first
        FROM (SELECT w.id, w.worker, w.due_at FROM headgate.work w WHERE w.pipeline = p.id ORDER BY w.id LIMIT most) w) q
    LEFT JOIN LATERAL (SELECT e.received_at FROM headgate.entry e WHERE e.id = q.first) o ON true
$$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
   SET enable_sort = off SET jit = off;

-- name: queues
SELECT * FROM headgate.flow_queues($1)

-- function: flow_waiting
-- What waits for a retry in a long queue, by the indexes that retries are found with. The sums keep the
-- planner from walking the whole queue for them.
CREATE OR REPLACE FUNCTION headgate.flow_waiting(p smallint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT (SELECT count(*) FROM headgate.work w
            WHERE w.pipeline + 0 = p AND w.due_at > clock_timestamp() AND w.worker IS NULL
              AND w.due_at IS NOT NULL AND w.upstream IS NULL)
         + (SELECT count(*) FROM headgate.work w
            WHERE w.pipeline + 0 = p AND w.due_at > clock_timestamp() AND w.worker IS NULL
              AND w.upstream IS NOT NULL)
$$ SET enable_seqscan = off SET jit = off;

-- name: waiting
SELECT headgate.flow_waiting($1)

-- name: deliveries
SELECT p.id, p.name, t.source, coalesce(sum(t.received), 0)::bigint AS received,
       coalesce(sum(t.admitted), 0)::bigint AS admitted, coalesce(sum(t.duplicate), 0)::bigint AS duplicate,
       coalesce(sum(t.conflict), 0)::bigint AS conflict
FROM headgate.pipeline p LEFT JOIN headgate.tally t ON t.pipeline = p.id
GROUP BY p.id, p.name, t.source ORDER BY p.name, t.source

-- name: rates
-- What came and ended in the minute that is running and the one before, and how long that is.
SELECT p.id, extract(epoch FROM clock_timestamp() - b.since)::float8 AS seconds,
       coalesce(d.received, 0)::bigint AS received, coalesce(d.admitted, 0)::bigint AS admitted,
       coalesce(d.duplicate, 0)::bigint AS duplicate, coalesce(f.finalized, 0)::bigint AS finalized,
       coalesce(f.failed, 0)::bigint AS failed
FROM headgate.pipeline p
CROSS JOIN (SELECT date_trunc('minute', clock_timestamp() - interval '1 minute') AS since) b
LEFT JOIN LATERAL (
    SELECT sum(d.received) AS received, sum(d.admitted) AS admitted, sum(d.duplicate) AS duplicate
    FROM headgate.flow_delivery d WHERE d.minutes = 1 AND d.at >= b.since AND d.pipeline = p.id) d ON true
LEFT JOIN LATERAL (
    SELECT sum(f.finalized) AS finalized, sum(f.waiting + f.quarantined) AS failed
    FROM headgate.flow f WHERE f.minutes = 1 AND f.at >= b.since AND f.pipeline = p.id) f ON true

-- name: ended
-- $1: the width of a row; $2: since when.
SELECT p.name AS pipeline, f.at, f.finalized, f.skipped, f.quarantined, f.waiting, f.fenced, f.other, f.doubled
FROM headgate.flow f JOIN headgate.pipeline p ON p.id = f.pipeline
WHERE f.minutes = $1 AND f.at >= $2 ORDER BY f.at, p.name

-- name: delivered
SELECT p.name AS pipeline, d.at, d.source, d.received, d.admitted, d.duplicate, d.conflict
FROM headgate.flow_delivery d JOIN headgate.pipeline p ON p.id = d.pipeline
WHERE d.minutes = $1 AND d.at >= $2 ORDER BY d.at, p.name, d.source

-- name: took
SELECT p.name AS pipeline, l.at, l.bucket, l.n
FROM headgate.flow_latency l JOIN headgate.pipeline p ON p.id = l.pipeline
WHERE l.minutes = $1 AND l.at >= $2 ORDER BY l.at, p.name, l.bucket

-- name: clock
-- What time it is, and what is not added up yet: how many commits, and since when the first of them waits.
SELECT clock_timestamp() AS now, m.rolled_at,
       coalesce((SELECT max(c.pos) FROM headgate.commit c), 0) - m.pos AS behind,
       (SELECT c.at FROM headgate.commit c WHERE c.pos = m.pos + 1) AS waits_since
FROM headgate.flow_mark m

-- name: pipelines
SELECT p.name FROM headgate.pipeline p ORDER BY p.name

-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: matching
-- What a plan would let run again: what is in quarantine and fits, by number. `first` is the oldest of
-- its subject; `rank` counts within a pipeline's reason.
SELECT q.entry, q.pipeline, q.fence, p.name, q.class, q.reason,
       row_number() OVER (PARTITION BY q.pipeline, q.subject ORDER BY q.entry) = 1 AS first,
       row_number() OVER (PARTITION BY q.pipeline, q.class, q.reason ORDER BY q.entry) AS rank
FROM headgate.quarantine q JOIN headgate.pipeline p ON p.id = q.pipeline
WHERE ($1::text IS NULL OR p.name = $1) AND ($2::text IS NULL OR q.class = $2)
  AND ($3::text IS NULL OR q.reason = $3) AND ($4::timestamptz IS NULL OR q.last_at >= $4)
ORDER BY q.entry

-- name: counted
-- How many fit, by pipeline, class and reason.
SELECT p.name, g.class, g.reason, g.entries
FROM (SELECT q.pipeline, q.class, q.reason, count(*) AS entries FROM headgate.quarantine q
      WHERE ($1::text IS NULL OR q.pipeline = (SELECT x.id FROM headgate.pipeline x WHERE x.name = $1))
        AND ($2::text IS NULL OR q.class = $2)
        AND ($3::text IS NULL OR q.reason = $3) AND ($4::timestamptz IS NULL OR q.last_at >= $4)
      GROUP BY 1, 2, 3) g
JOIN headgate.pipeline p ON p.id = g.pipeline
ORDER BY g.entries DESC, 1, 2, 3

-- name: first
-- Of what `matching` finds, those that would go first.
SELECT m.entry FROM (
    SELECT q.entry,
           row_number() OVER (PARTITION BY q.pipeline, q.subject ORDER BY q.entry) = 1 AS first,
           row_number() OVER (PARTITION BY q.pipeline, q.class, q.reason ORDER BY q.entry) AS rank
    FROM headgate.quarantine q
    WHERE ($1::text IS NULL OR q.pipeline = (SELECT x.id FROM headgate.pipeline x WHERE x.name = $1))
      AND ($2::text IS NULL OR q.class = $2)
      AND ($3::text IS NULL OR q.reason = $3) AND ($4::timestamptz IS NULL OR q.last_at >= $4)) m
WHERE m.first ORDER BY m.rank, m.entry LIMIT $5

-- name: make
INSERT INTO headgate.redrive
    (actor, because, asked, pipelines, canary, batch, per_second, stop_share, backlog, total)
VALUES ($1, $2, $3::text::jsonb, $4::smallint[], $5, $6, $7, $8, $9, $10)
RETURNING id

-- name: list_entries
INSERT INTO headgate.redriven (redrive, n, entry, pipeline, fence)
SELECT $1, t.n, t.entry, t.pipeline, t.fence
FROM unnest($2::bigint[], $3::smallint[], $4::int[]) WITH ORDINALITY AS t(entry, pipeline, fence, n)

-- name: taken
-- Of these, what another plan that is not at its end is going to release.
SELECT d.entry, d.redrive FROM headgate.redriven d JOIN headgate.redrive r ON r.id = d.redrive
WHERE d.entry = ANY ($1::bigint[]) AND d.state = 'planned' AND r.ended_at IS NULL
ORDER BY d.redrive, d.entry LIMIT 1

-- name: open
-- Plans that have something to do: to release, or to see what became of what they released.
SELECT r.id FROM headgate.redrive r
WHERE r.state IN ('planned', 'canary', 'running') OR r.released > r.passed + r.failed ORDER BY r.id

-- name: lock
SELECT r.*, extract(epoch FROM clock_timestamp() - r.moved_at)::float8 AS since
FROM headgate.redrive r WHERE r.id = $1 FOR UPDATE SKIP LOCKED

-- name: settle
-- What became of released entries: the first line that ended one after the failure that the plan saw.
WITH ended AS (
    SELECT d.n, x.outcome FROM headgate.redriven d
    CROSS JOIN LATERAL (
        SELECT j.outcome FROM headgate.journal j
        WHERE j.entry = d.entry AND j.fence > d.fence
          AND j.outcome IN ('finalized', 'skipped', 'quarantined')
        ORDER BY j.fence, j.batch, j.n LIMIT 1) x
    WHERE d.redrive = $1 AND d.state = 'released')
UPDATE headgate.redriven d
SET state = CASE e.outcome WHEN 'quarantined' THEN 'failed' ELSE 'passed' END,
    ended_at = clock_timestamp()
FROM ended e WHERE d.redrive = $1 AND d.n = e.n
RETURNING d.state

-- name: recent
-- The last that were released and tried: how many, how many failed for good, and how many so far.
SELECT count(*) AS tried, count(*) FILTER (WHERE e.state = 'failed') AS failed,
       count(*) FILTER (WHERE e.state = 'released') AS failing
FROM (SELECT d.state FROM headgate.redriven d
      WHERE d.redrive = $1 AND d.state IN ('released', 'passed', 'failed')
        AND (d.state <> 'released' OR EXISTS (
            SELECT FROM headgate.journal j
            WHERE j.entry = d.entry AND j.fence > d.fence AND j.outcome = 'waiting'))
      ORDER BY d.n DESC LIMIT $2) e

-- name: next
-- The next that are to be released, of pipelines that are not held back.
SELECT d.n, d.entry, d.fence FROM headgate.redriven d
WHERE d.redrive = $1 AND d.state = 'planned' AND d.pipeline <> ALL ($3::smallint[])
ORDER BY d.n LIMIT $2

-- name: mark
UPDATE headgate.redriven d
SET state = CASE WHEN t.taken THEN 'released' ELSE 'gone' END,
    released_at = CASE WHEN t.taken THEN clock_timestamp() END
FROM unnest($2::int[], $3::boolean[]) AS t(n, taken)
WHERE d.redrive = $1 AND d.n = t.n

-- name: move
UPDATE headgate.redrive r
SET state = $2, held = $3, tokens = $4, moved_at = clock_timestamp(),
    began_at = coalesce(r.began_at, CASE WHEN $5 > 0 THEN clock_timestamp() END),
    ended_at = CASE WHEN $2 IN ('stopped', 'done') THEN coalesce(r.ended_at, clock_timestamp()) END,
    ended_why = coalesce(r.ended_why, $9),
    released = r.released + $5, gone = r.gone + $6, passed = r.passed + $7, failed = r.failed + $8
WHERE r.id = $1

-- name: turn
-- A person pauses, resumes or stops it.
UPDATE headgate.redrive r
SET state = $2, held = NULL, moved_at = clock_timestamp(), tokens = 0,
    ended_at = CASE WHEN $2 = 'stopped' THEN clock_timestamp() END,
    ended_why = CASE WHEN $2 = 'stopped' THEN $3 END
WHERE r.id = $1

-- name: wait
SELECT r.state, r.released, r.canary FROM headgate.redrive r WHERE r.id = $1 FOR UPDATE

-- name: act
INSERT INTO headgate.action (actor, verb, because) VALUES ($1, $2, $3)

-- name: seen
-- Plans as they are shown, the latest first.
SELECT r.id, r.made_at, r.actor, r.because, r.asked::text AS asked, r.state, r.held, r.ended_why,
       r.began_at, r.ended_at, r.canary, r.batch, r.per_second, r.stop_share, r.backlog,
       r.total, r.released, r.passed, r.failed, r.gone,
       ARRAY(SELECT p.name FROM headgate.pipeline p WHERE p.id = ANY (r.pipelines) ORDER BY 1) AS pipelines,
       extract(epoch FROM coalesce(r.ended_at, clock_timestamp()) - r.began_at)::float8 AS seconds
FROM headgate.redrive r WHERE ($1::int IS NULL OR r.id = $1) ORDER BY r.id DESC LIMIT $2

-- name: back
-- Why what a plan let run again is in quarantine now.
SELECT q.class, q.reason, count(*) AS entries, min(q.entry) AS example
FROM headgate.redriven d JOIN headgate.quarantine q ON q.entry = d.entry
WHERE d.redrive = $1 AND d.state = 'failed' GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2

-- name: decided
SELECT a.at, a.actor, a.verb, a.because FROM headgate.action a
WHERE a.entry IS NULL AND a.verb LIKE '% redrive ' || $1::text ORDER BY a.id

-- name: busy
-- Will a plan of these pipelines do something soon: release more, or see that what it waits for ended?
SELECT EXISTS (
    SELECT FROM headgate.redrive r, LATERAL (
        SELECT array_agg(p.id) AS ids FROM headgate.pipeline p WHERE p.name = ANY ($1::text[])) o
    WHERE r.state IN ('planned', 'canary', 'running') AND r.pipelines && o.ids
      AND (r.held IS NULL OR r.held = 'rate' OR (r.held = 'backlog' AND r.pipelines <@ o.ids)
           OR (r.held = 'budget' AND NOT EXISTS (
               SELECT FROM headgate.pipeline p
               WHERE p.id = ANY (r.pipelines) AND p.spent_at IS NOT NULL
                 AND coalesce(p.overridden_until, '-infinity') < clock_timestamp()))
           OR EXISTS (
          SELECT FROM headgate.redriven d
          WHERE d.redrive = r.id AND d.state = 'released' AND NOT EXISTS (
              SELECT FROM headgate.work w WHERE w.pipeline = d.pipeline AND w.id = d.entry))))

-- name: enter
-- Set entries aside, with the failures that led there: enough to decide, and to run again.
INSERT INTO headgate.quarantine
    (entry, pipeline, subject, fence, attempts, class, reason, error, preview, content, deployment,
     failures, first_at, last_at, part)
SELECT t.entry, $1, t.subject, t.fence, t.attempts, t.class, t.reason, t.error, t.preview, t.content,
       $2,
       (SELECT coalesce(jsonb_agg(f.one ORDER BY f.fence), '[]') FROM (
            SELECT j.fence, jsonb_build_object('at', j.at, 'attempt', j.attempt, 'reason', j.reason,
                       'error', convert_from(j.doc, 'UTF8')::jsonb ->> 'error') AS one
            FROM headgate.journal j
            WHERE j.entry = t.entry AND j.outcome IN ('waiting', 'quarantined') AND j.attempt > 0
            ORDER BY j.fence DESC LIMIT 9) f)
       || jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'attempt', t.attempts,
                            'reason', t.reason, 'error', t.error)),
       coalesce((SELECT j.at FROM headgate.journal j
                 WHERE j.entry = t.entry AND j.outcome IN ('waiting', 'quarantined') AND j.attempt > 0
                 ORDER BY j.fence LIMIT 1), t.first_at, clock_timestamp()), clock_timestamp(), t.part
FROM unnest($3::bigint[], $4::bigint[], $5::int[], $6::smallint[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::bytea[], $12::timestamptz[], $13::bigint[])
    AS t(entry, subject, fence, attempts, class, reason, error, preview, content, first_at, part)

-- name: take
-- The rows somebody decided about, locked in their order; whoever comes second finds none. Where fences
-- are given, what has another one by now is left alone: it failed again since it was looked at.
DELETE FROM headgate.quarantine q USING (
    SELECT x.entry FROM headgate.quarantine x
    JOIN unnest($1::bigint[], $2::int[]) AS t(entry, fence) ON t.entry = x.entry
    WHERE t.fence IS NULL OR t.fence = x.fence ORDER BY x.entry FOR UPDATE OF x) AS l
WHERE q.entry = l.entry
RETURNING q.entry, q.pipeline, q.subject, q.fence, q.attempts, q.class, q.reason, q.part

-- name: remember
-- What is about to be discarded, as it is, so that the decision can be taken back.
INSERT INTO headgate.discarded (entry, pipeline, content, aside)
SELECT q.entry, q.pipeline, q.content, to_jsonb(q)
FROM headgate.quarantine q WHERE q.entry = ANY ($1::bigint[]) ORDER BY q.entry FOR UPDATE

-- name: recall
-- Back into quarantine, as it was.
WITH back AS (
    DELETE FROM headgate.discarded d USING (
        SELECT x.entry FROM headgate.discarded x
        WHERE x.entry = ANY ($1::bigint[]) ORDER BY x.entry FOR UPDATE) AS l
    WHERE d.entry = l.entry RETURNING d.aside),
entered AS (
    INSERT INTO headgate.quarantine
    SELECT q.* FROM back b, jsonb_populate_record(NULL::headgate.quarantine, b.aside) AS q
    RETURNING entry, pipeline, fence, content)
SELECT n.entry, n.pipeline, n.fence, n.content, p.store, n.content IS NOT NULL AND e.data IS NULL AS kept
FROM entered n JOIN headgate.pipeline p ON p.id = n.pipeline JOIN headgate.entry e ON e.id = n.entry
ORDER BY n.entry

-- name: forget_discarded
DELETE FROM headgate.discarded WHERE at < clock_timestamp() - make_interval(secs => 86400 * $1::float8)

-- name: discarded
-- What was discarded and can still be brought back, the latest first.
SELECT d.entry, p.name AS pipeline, d.aside ->> 'class' AS class, d.aside ->> 'reason' AS reason,
       d.aside ->> 'error' AS error, d.at, a.actor, a.because, e.uri
FROM headgate.discarded d
JOIN headgate.pipeline p ON p.id = d.pipeline
JOIN headgate.entry e ON e.id = d.entry
LEFT JOIN LATERAL (
    SELECT a.actor, a.because FROM headgate.action a WHERE a.entry = d.entry AND a.verb = 'discard'
    ORDER BY a.id DESC LIMIT 1) a ON true
WHERE ($1::text IS NULL OR p.name = $1) AND ($2::text IS NULL OR d.aside ->> 'class' = $2)
  AND ($3::text IS NULL OR d.aside ->> 'reason' = $3) AND ($4::timestamptz IS NULL OR d.at >= $4)
ORDER BY d.at DESC, d.entry DESC LIMIT $5

-- name: act
INSERT INTO headgate.action (actor, verb, entry, because)
SELECT $1, $2, e, $3 FROM unnest($4::bigint[]) AS t(e)

-- name: list
SELECT q.entry, p.name AS pipeline, q.class, q.reason, q.error, q.attempts, q.first_at, q.last_at,
       e.uri
FROM headgate.quarantine q
JOIN headgate.pipeline p ON p.id = q.pipeline
JOIN headgate.entry e ON e.id = q.entry
WHERE ($1::text IS NULL OR p.name = $1) AND ($2::text IS NULL OR q.class = $2)
  AND ($3::text IS NULL OR q.reason = $3) AND ($4::timestamptz IS NULL OR q.last_at >= $4)
ORDER BY q.last_at DESC, q.entry DESC LIMIT $5

-- name: show
SELECT q.*, p.name AS pipeline_name, e.uri, e.event_time, e.received_at, d.version, d.code,
       now_.code AS code_now,
       (SELECT count(*) FROM headgate.action a WHERE a.entry = q.entry AND a.verb = 'release') AS released,
       ARRAY(SELECT d.redrive FROM headgate.redriven d
             WHERE d.entry = q.entry AND d.state <> 'gone' ORDER BY 1) AS redrives
FROM headgate.quarantine q
JOIN headgate.pipeline p ON p.id = q.pipeline
JOIN headgate.entry e ON e.id = q.entry
JOIN headgate.deployment d ON d.id = q.deployment
JOIN LATERAL (
    SELECT n.code FROM headgate.deployment n WHERE n.pipeline = q.pipeline
    ORDER BY n.registered_at DESC, n.id DESC LIMIT 1) now_ ON true
WHERE q.entry = $1

-- name: summary
-- What waits for a decision, counted: of each class and reason how many, since when, by which code.
SELECT p.name AS pipeline, q.class, q.reason, count(*) AS entries,
       min(q.first_at) AS first_at, max(q.last_at) AS last_at,
       count(*) FILTER (WHERE d.code <> n.code) AS other_code, max(q.entry) AS example
FROM headgate.quarantine q
JOIN headgate.pipeline p ON p.id = q.pipeline
JOIN headgate.deployment d ON d.id = q.deployment
JOIN LATERAL (
    SELECT n.code FROM headgate.deployment n WHERE n.pipeline = q.pipeline
    ORDER BY n.registered_at DESC, n.id DESC LIMIT 1) n ON true
WHERE ($1::text IS NULL OR p.name = $1) AND ($2::text IS NULL OR q.class = $2)
  AND ($3::text IS NULL OR q.reason = $3) AND ($4::timestamptz IS NULL OR q.last_at >= $4)
GROUP BY 1, 2, 3 ORDER BY entries DESC, 1, 2, 3

-- name: counts
SELECT p.name AS pipeline, q.class, q.reason, count(*) AS entries
FROM headgate.quarantine q JOIN headgate.pipeline p ON p.id = q.pipeline
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3

-- name: totals
SELECT p.name AS pipeline, q.class, count(q.entry) AS entries
FROM headgate.pipeline p LEFT JOIN headgate.quarantine q ON q.pipeline = p.id GROUP BY p.name, q.class

-- name: sources
-- Who has told each pipeline anything. The tally is small: a few rows for each source.
SELECT p.name AS pipeline, array_agg(DISTINCT t.source ORDER BY t.source) AS sources
FROM headgate.tally t JOIN headgate.pipeline p ON p.id = t.pipeline
WHERE t.source NOT IN ('replay', 'revert') GROUP BY p.name

-- name: by_source
-- Entries of a pipeline that has several sources say which one told them (`Envelope.document`).
SELECT coalesce(convert_from(e.envelope, 'UTF8')::json -> 'metadata' ->> 'queue', p.name) AS source,
       count(*) AS entries
FROM headgate.quarantine q
JOIN headgate.pipeline p ON p.id = q.pipeline
JOIN headgate.entry e ON e.id = q.entry
WHERE p.name = $1 GROUP BY 1

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

-- name: act
INSERT INTO headgate.action (actor, verb, entry, because)
SELECT $1, $2, e, $3 FROM unnest($4::bigint[]) AS t(e)

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

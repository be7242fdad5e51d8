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
            FROM headgate.journal j WHERE j.entry = t.entry AND j.outcome = 'waiting'
            ORDER BY j.fence DESC LIMIT 9) f)
       || jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'attempt', t.attempts,
                            'reason', t.reason, 'error', t.error)),
       coalesce(t.first_at, clock_timestamp()), clock_timestamp(), t.part
FROM unnest($3::bigint[], $4::bigint[], $5::int[], $6::smallint[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::bytea[], $12::timestamptz[], $13::bigint[])
    AS t(entry, subject, fence, attempts, class, reason, error, preview, content, first_at, part)

-- name: take
-- The rows an operator decided about, locked; whoever comes second finds none.
DELETE FROM headgate.quarantine q WHERE q.entry = ANY ($1::bigint[])
RETURNING q.entry, q.pipeline, q.subject, q.fence, q.attempts, q.class, q.reason, q.part

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
  AND ($3::text IS NULL OR q.reason = $3)
ORDER BY q.last_at DESC, q.entry DESC LIMIT $4

-- name: show
SELECT q.*, p.name AS pipeline_name, e.uri, e.event_time, e.received_at, d.version, d.code
FROM headgate.quarantine q
JOIN headgate.pipeline p ON p.id = q.pipeline
JOIN headgate.entry e ON e.id = q.entry
JOIN headgate.deployment d ON d.id = q.deployment
WHERE q.entry = $1

-- name: counts
SELECT p.name AS pipeline, q.class, q.reason, count(*) AS entries
FROM headgate.quarantine q JOIN headgate.pipeline p ON p.id = q.pipeline
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3

-- name: totals
SELECT p.name AS pipeline, count(q.entry) AS entries
FROM headgate.pipeline p LEFT JOIN headgate.quarantine q ON q.pipeline = p.id GROUP BY p.name

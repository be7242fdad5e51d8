-- name: summary
-- What waits for a decision, counted: of each class and reason how many, since when, by which code.
-- It is counted by deployment first, so that there are few rows to be joined with anything.
SELECT p.name AS pipeline, g.class, g.reason, sum(g.entries)::bigint AS entries,
       min(g.first_at) AS first_at, max(g.last_at) AS last_at,
       coalesce(sum(g.entries) FILTER (WHERE d.code <> n.code), 0)::bigint AS other_code,
       max(g.example) AS example
FROM (SELECT q.pipeline, q.class, q.reason, q.deployment, count(*) AS entries,
             min(q.first_at) AS first_at, max(q.last_at) AS last_at, max(q.entry) AS example
      FROM headgate.quarantine q
      WHERE ($1::text IS NULL OR q.pipeline = (SELECT x.id FROM headgate.pipeline x WHERE x.name = $1))
        AND ($2::text IS NULL OR q.class = $2)
        AND ($3::text IS NULL OR q.reason = $3) AND ($4::timestamptz IS NULL OR q.last_at >= $4)
      GROUP BY 1, 2, 3, 4) g
JOIN headgate.pipeline p ON p.id = g.pipeline
JOIN headgate.deployment d ON d.id = g.deployment
JOIN LATERAL (
    SELECT n.code FROM headgate.deployment n WHERE n.pipeline = g.pipeline
    ORDER BY n.registered_at DESC, n.id DESC LIMIT 1) n ON true
GROUP BY 1, 2, 3 ORDER BY entries DESC, 1, 2, 3

-- name: listed
-- The page first, then what belongs to each of its lines.
SELECT q.entry, p.name AS pipeline, q.class, q.reason, q.error, q.attempts, q.first_at, q.last_at, e.uri
FROM (SELECT * FROM headgate.quarantine q
      WHERE ($1::text IS NULL OR q.pipeline = (SELECT x.id FROM headgate.pipeline x WHERE x.name = $1))
        AND ($2::text IS NULL OR q.class = $2)
        AND ($3::text IS NULL OR q.reason = $3) AND ($4::timestamptz IS NULL OR q.last_at >= $4)
        AND q.entry < $5
      ORDER BY q.entry DESC LIMIT $6) q
JOIN headgate.pipeline p ON p.id = q.pipeline
CROSS JOIN LATERAL (SELECT e.uri FROM headgate.entry e WHERE e.id = q.entry OFFSET 0) e
ORDER BY q.entry DESC

-- name: discards
-- What was discarded and can still be brought back, with the decision.
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
  AND d.entry < $5
ORDER BY d.entry DESC LIMIT $6

-- name: case
SELECT q.entry, p.name AS pipeline, e.uri, q.class, q.reason, q.error, q.attempts, q.fence, q.first_at,
       q.last_at, e.event_time, e.received_at, q.preview, encode(q.content, 'hex') AS content, d.version,
       encode(d.code, 'hex') AS code, encode(n.code, 'hex') AS code_now,
       (SELECT count(*) FROM headgate.action a WHERE a.entry = q.entry AND a.verb = 'release') AS released,
       ARRAY(SELECT d.redrive FROM headgate.redriven d
             WHERE d.entry = q.entry AND d.state <> 'gone' ORDER BY 1) AS redrives,
       q.failures::text AS failures
FROM headgate.quarantine q
JOIN headgate.pipeline p ON p.id = q.pipeline
JOIN headgate.entry e ON e.id = q.entry
JOIN headgate.deployment d ON d.id = q.deployment
JOIN LATERAL (
    SELECT n.code FROM headgate.deployment n WHERE n.pipeline = q.pipeline
    ORDER BY n.registered_at DESC, n.id DESC LIMIT 1) n ON true
WHERE q.entry = $1

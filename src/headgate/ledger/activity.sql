-- name: page
-- Decisions, newest first: those of a stretch of ids, however few fit. Those about one entry have its
-- pipeline.
SELECT a.id, a.at, a.actor, a.verb, a.entry, a.because, e.uri, p.name AS pipeline
FROM headgate.action a
LEFT JOIN LATERAL (
    SELECT e.uri, e.pipeline FROM headgate.entry e WHERE e.id = a.entry LIMIT 1) e ON true
LEFT JOIN headgate.pipeline p ON p.id = e.pipeline
WHERE a.id < $1 AND a.id >= $2 AND ($3::text IS NULL OR a.actor = $3)
  AND ($4::text IS NULL OR p.name = $4) AND ($5::timestamptz IS NULL OR a.at >= $5)
ORDER BY a.id DESC LIMIT $6

-- name: newest
SELECT coalesce(max(id), 0) FROM headgate.action

-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: received
SELECT p.id, p.name, coalesce(sum(t.received), 0)::bigint AS received,
       coalesce(sum(t.admitted), 0)::bigint AS entries,
       coalesce(sum(t.duplicate), 0)::bigint AS duplicates,
       coalesce(sum(t.conflict), 0)::bigint AS conflicts
FROM headgate.pipeline p LEFT JOIN headgate.tally t ON t.pipeline = p.id
GROUP BY p.id, p.name ORDER BY p.name

-- name: workers_alive
SELECT count(*) FROM headgate.worker WHERE buried_at IS NULL AND alive_until > clock_timestamp()

-- name: entries
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM headgate.entry_state s
WHERE s.entry < $1 AND ($2::text IS NULL OR s.pipeline = $2) AND ($3::text IS NULL OR s.uri LIKE $3)
ORDER BY s.entry DESC LIMIT $4

-- name: entries_live
-- The rare ones are looked up from the table they are in, not looked for among all.
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM (SELECT w.id FROM headgate.work w
      WHERE w.id < $1 AND CASE $5::text WHEN 'claimed' THEN w.worker IS NOT NULL
                                  WHEN 'waiting' THEN w.worker IS NULL AND w.due_at IS NOT NULL
                                  ELSE w.worker IS NULL AND w.due_at IS NULL END
      ORDER BY w.id DESC) c
JOIN headgate.entry_state s ON s.entry = c.id
WHERE ($2::text IS NULL OR s.pipeline = $2) AND ($3::text IS NULL OR s.uri LIKE $3)
ORDER BY c.id DESC LIMIT $4

-- name: entries_aside
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM (SELECT q.entry FROM headgate.quarantine q
      WHERE q.entry < $1 AND $5::text = 'quarantined' ORDER BY q.entry DESC) c
JOIN headgate.entry_state s ON s.entry = c.entry
WHERE ($2::text IS NULL OR s.pipeline = $2) AND ($3::text IS NULL OR s.uri LIKE $3)
ORDER BY c.entry DESC LIMIT $4

-- name: entries_ended
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM (SELECT DISTINCT j.entry FROM headgate.journal j
      WHERE j.entry < $1 AND j.outcome = $5::text::headgate.status ORDER BY j.entry DESC) c
JOIN headgate.entry_state s ON s.entry = c.entry
WHERE s.status = $5 AND ($2::text IS NULL OR s.pipeline = $2) AND ($3::text IS NULL OR s.uri LIKE $3)
ORDER BY c.entry DESC LIMIT $4

-- name: by_ids
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM unnest($1::bigint[]) AS c(id) JOIN headgate.entry_state s ON s.entry = c.id
ORDER BY s.entry DESC

-- name: ids_by_key
-- Keys between two bounds, in every pipeline: the index begins with the pipeline.
SELECT e.id, e.key FROM headgate.pipeline p
CROSS JOIN LATERAL (
    SELECT e.id, e.key FROM headgate.entry e
    WHERE e.pipeline = p.id AND e.key >= $1 AND e.key <= $2 ORDER BY e.key LIMIT 20) e

-- name: ids_by_uri
SELECT e.id FROM headgate.entry e WHERE e.uri = ANY ($1::text[]) ORDER BY e.id DESC LIMIT $2


-- name: at_pointer
SELECT j.entry, j.outcome::text AS outcome FROM headgate.journal j WHERE j.batch = $1 AND j.n = $2

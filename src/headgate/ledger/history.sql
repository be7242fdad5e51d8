-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: received
SELECT p.id, p.name, coalesce(sum(t.received), 0)::bigint AS received,
       coalesce(sum(t.admitted), 0)::bigint AS entries,
       coalesce(sum(t.duplicate), 0)::bigint AS duplicates,
       coalesce(sum(t.conflict), 0)::bigint AS conflicts
FROM headgate.pipeline p LEFT JOIN headgate.tally t ON t.pipeline = p.id
GROUP BY p.id, p.name ORDER BY p.name

-- name: pipelines
SELECT p.name FROM headgate.pipeline p ORDER BY p.name

-- name: live
SELECT w.pipeline,
       count(*) FILTER (WHERE w.worker IS NULL AND coalesce(w.due_at, '-infinity') <= clock_timestamp()) AS ready,
       count(*) FILTER (WHERE w.worker IS NOT NULL) AS claimed,
       count(*) FILTER (WHERE w.worker IS NULL AND w.due_at > clock_timestamp()) AS waiting
FROM headgate.work w GROUP BY w.pipeline

-- name: aside
SELECT pipeline, count(*) AS entries FROM headgate.quarantine GROUP BY pipeline

-- name: heads
SELECT pipeline, count(*) FILTER (WHERE NOT removed) AS uris
FROM headgate.publication WHERE successor IS NULL GROUP BY pipeline

-- name: settled
-- How entries ended. All lines of a batch are of one pipeline, so one entry of each tells which:
-- the journal is read once, and `entry` once per batch. An end that somebody took back counts no more.
WITH ended AS (
    SELECT j.batch,
           CASE j.steps WHEN 'rolled_back quarantined' THEN 'rolled_back' WHEN 'skipped received' THEN 'skipped'
                        ELSE j.outcome::text END AS outcome,
           CASE j.steps WHEN 'rolled_back quarantined' THEN 'discard'
                        WHEN 'skipped received' THEN convert_from(j.doc, 'UTF8')::json ->> 'skipped'
                        ELSE j.reason END AS reason,
           sum(CASE WHEN j.steps IN ('rolled_back quarantined', 'skipped received') THEN -1 ELSE 1 END) AS lines,
           min(j.entry) AS one, max(j.at) AS at
    FROM headgate.journal j
    WHERE j.outcome IN ('finalized', 'skipped', 'rolled_back')
       OR j.steps IN ('rolled_back quarantined', 'skipped received')
    GROUP BY 1, 2, 3)
SELECT e.pipeline, x.outcome, x.reason, sum(x.lines)::bigint AS entries, max(x.at) AS at
FROM ended x JOIN headgate.entry e ON e.id = x.one
GROUP BY e.pipeline, x.outcome, x.reason

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

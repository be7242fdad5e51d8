-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: received
SELECT p.id, p.name, coalesce(sum(t.received), 0)::bigint AS received,
       coalesce(sum(t.admitted), 0)::bigint AS entries,
       coalesce(sum(t.duplicate), 0)::bigint AS duplicates,
       coalesce(sum(t.conflict), 0)::bigint AS conflicts
FROM headgate.pipeline p LEFT JOIN headgate.tally t ON t.pipeline = p.id
GROUP BY p.id, p.name ORDER BY p.name

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

-- name: ids_by_uri_quick
-- Without a walk through all entries: what readers see of a uri, the versions before it, and what of it
-- is among the newest that wait for a decision.
WITH RECURSIVE back AS (
    SELECT u.entry, u.predecessor FROM headgate.pipeline p
    CROSS JOIN LATERAL (
        SELECT u.entry, u.predecessor FROM headgate.publication u
        WHERE u.pipeline = p.id AND u.uri = ANY ($1::text[]) AND u.successor IS NULL OFFSET 0) u
    UNION ALL
    SELECT u.entry, u.predecessor FROM back b
    CROSS JOIN LATERAL (
        SELECT u.entry, u.predecessor FROM headgate.publication u WHERE u.entry = b.predecessor OFFSET 0) u)
SELECT x.id FROM (
    (SELECT b.entry AS id FROM back b LIMIT $2)
    UNION
    (SELECT q.entry FROM (SELECT q.entry FROM headgate.quarantine q ORDER BY q.entry DESC LIMIT 5000) q
     CROSS JOIN LATERAL (SELECT e.uri FROM headgate.entry e WHERE e.id = q.entry OFFSET 0) e
     WHERE e.uri = ANY ($1::text[]) LIMIT $2)) x
ORDER BY x.id DESC LIMIT $2

-- name: at_pointer
SELECT j.entry, j.outcome::text AS outcome FROM headgate.journal j WHERE j.batch = $1 AND j.n = $2

-- name: newest
SELECT coalesce(max(u.entry), 0) FROM headgate.publication u

-- name: listed
-- What readers see, the latest first; with $5, every version. Only publications from $2 up to, and without,
-- $1 are looked at: what is asked for may be rare.
SELECT u.entry, p.name AS pipeline, u.uri, u.version, u.removed, encode(u.content, 'hex') AS content,
       e.reverts, e.replays, e.received_at, u.predecessor, u.successor
FROM headgate.publication u
JOIN headgate.pipeline p ON p.id = u.pipeline
CROSS JOIN LATERAL (SELECT * FROM headgate.entry e WHERE e.id = u.entry OFFSET 0) e
WHERE u.entry < $1 AND u.entry >= $2 AND ($3::text[] IS NULL OR p.name = ANY ($3::text[]))
  AND ($4::text IS NULL OR u.uri LIKE $4) AND ($5 OR u.successor IS NULL)
ORDER BY u.entry DESC LIMIT $6

-- name: versions
-- All versions of the uri that a publication is of, the newest first. Each is looked up (OFFSET 0): left
-- to itself, the planner would rather join all publications.
WITH RECURSIVE back AS (
    SELECT x.entry, x.predecessor FROM headgate.publication u
    CROSS JOIN LATERAL (
        SELECT x.entry, x.predecessor FROM headgate.publication x
        WHERE x.pipeline = u.pipeline AND x.uri = u.uri AND x.successor IS NULL OFFSET 0) x
    WHERE u.entry = $1
    UNION ALL
    SELECT x.entry, x.predecessor FROM back b
    CROSS JOIN LATERAL (
        SELECT x.entry, x.predecessor FROM headgate.publication x WHERE x.entry = b.predecessor OFFSET 0) x)
SELECT b.entry FROM back b LIMIT $2

-- name: head_of
-- What readers see of a uri; of several pipelines the one that published last.
SELECT u.entry FROM headgate.publication u
WHERE u.uri = ANY ($1::text[]) AND u.successor IS NULL ORDER BY u.entry DESC LIMIT 1

-- name: lock
-- The head stays the head while somebody decides about it. Whoever publishes waits for us.
SELECT u.entry FROM headgate.publication u WHERE u.entry = $1 FOR UPDATE

-- name: version
-- The entry that published a version of the same uri, looked for from this one backwards.
WITH RECURSIVE back AS (
    SELECT u.entry, u.version, u.predecessor FROM headgate.publication u WHERE u.entry = $1
    UNION ALL
    SELECT u.entry, u.version, u.predecessor
    FROM back b JOIN headgate.publication u ON u.entry = b.predecessor WHERE b.version > $2)
SELECT b.entry FROM back b WHERE b.version = $2

-- name: head
SELECT x.entry, x.version FROM headgate.publication u
JOIN headgate.publication x ON x.pipeline = u.pipeline AND x.uri = u.uri AND x.successor IS NULL
WHERE u.entry = $1

-- name: asked
-- Reverts of this publication that were asked for before: how many, and one that has not ended.
SELECT count(*) AS times,
       min(e.id) FILTER (WHERE EXISTS (
           SELECT FROM headgate.work w WHERE w.pipeline = e.pipeline AND w.id = e.id)
           OR EXISTS (SELECT FROM headgate.quarantine q WHERE q.entry = e.id)) AS pending
FROM headgate.entry e WHERE e.reverts = $1

-- name: where
-- The pipeline as it is deployed now.
SELECT p.id AS pipeline, d.id AS deployment, p.store, d.code, d.declared::text AS declared,
       clock_timestamp() AS now
FROM headgate.entry e JOIN headgate.pipeline p ON p.id = e.pipeline
JOIN LATERAL (
    SELECT * FROM headgate.deployment d WHERE d.pipeline = p.id
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) d ON true
WHERE e.id = $1

-- name: data
SELECT e.data FROM headgate.entry e WHERE e.id = $1

-- name: mark
-- Still inside the transaction that admitted it, so nobody has seen it without.
UPDATE headgate.entry e SET reverts = $2, restores = $3 WHERE e.pipeline = $4 AND e.key = $1 RETURNING e.id

-- name: act
INSERT INTO headgate.action (actor, verb, entry, because) VALUES ($1, $2, $3, $4)

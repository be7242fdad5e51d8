-- Calls to `/hooks`, each of which counts once.

-- name: enter
-- Use up the id. Somebody who is using it at this moment is waited for: one of the two is second.
INSERT INTO headgate.request (pipeline, id, scheme, key_id, verdict, payload, envelope, proof, signed, actor, because, key, preview, answer)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT DO NOTHING
RETURNING pg_current_xact_id()::text::bigint AS xid

-- name: first
-- The call that used the id, or the same signed bytes, before; and what has become of it since.
SELECT r.id, r.at, r.scheme, r.key_id, r.verdict, r.payload, r.answer, r.preview, r.actor, r.because,
       s.entry, s.status, s.reason, s.version
FROM headgate.request r
LEFT JOIN LATERAL (
    SELECT s.entry, s.status, s.reason, s.version FROM headgate.entry e
    JOIN headgate.entry_state s ON s.entry = e.id
    WHERE e.pipeline = r.pipeline AND e.key = r.key LIMIT 1) s ON true
WHERE r.pipeline = $1 AND (r.id = $2 OR r.signed = $3)
ORDER BY r.id = $2 DESC LIMIT 1

-- name: again
UPDATE headgate.request SET reuses = reuses + 1, last_at = clock_timestamp()
WHERE pipeline = $1 AND id = $2

-- name: differs
WITH counted AS (
    UPDATE headgate.request SET conflicts = conflicts + 1, last_at = clock_timestamp()
    WHERE pipeline = $1 AND id = $2)
INSERT INTO headgate.request_conflict AS c (pipeline, id, payload) VALUES ($1, $2, $3)
ON CONFLICT (pipeline, id, payload) DO UPDATE SET times = c.times + 1, at = clock_timestamp()

-- name: head
-- What readers see at this uri now.
SELECT p.entry, p.version, p.content, e.data
FROM headgate.publication p JOIN headgate.entry e ON e.id = p.entry
WHERE p.pipeline = $1 AND p.uri = $2 AND p.successor IS NULL AND NOT p.removed

-- name: remember
-- Shown again, a preview may be cited again from now on, unless it was.
INSERT INTO headgate.preview AS p (pipeline, digest, payload, uri, head) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (pipeline, digest) DO UPDATE SET at = clock_timestamp()

-- name: cited
SELECT p.payload, p.used_by, p.at < clock_timestamp() - make_interval(secs => $3) AS old,
       p.head IS DISTINCT FROM (
           SELECT o.entry FROM headgate.publication o
           WHERE o.pipeline = p.pipeline AND o.uri = p.uri AND o.successor IS NULL AND NOT o.removed) AS stale
FROM headgate.preview p WHERE p.pipeline = $1 AND p.digest = $2 FOR UPDATE OF p

-- name: cite
UPDATE headgate.preview SET used_by = $3 WHERE pipeline = $1 AND digest = $2

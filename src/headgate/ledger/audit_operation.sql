-- name: operations
-- A page of operations. The bytes of a result stay where they are: only whether they are what was recorded.
SELECT o.id, o.task, o.key, o.status, o.fence, o.lines, o.reason, o.codec IS NOT NULL AS coded, o.store,
       o.result IS NOT NULL AS stored, sha256(o.result) IS NOT DISTINCT FROM o.result_hash AS same
FROM headgate.operation o WHERE o.id > $1 ORDER BY o.id LIMIT $2

-- name: lines
-- A page of their lines, each held against the line before it as it is stored, so that one change is one
-- violation. Null: the line before is not there. The hash is the one of operation_line.
SELECT j.operation, j.n, j.fence, j.event,
       CASE WHEN j.n = 1 OR b.n IS NOT NULL THEN j.hash = sha256(coalesce(b.hash, ''::bytea) || convert_to(
           concat_ws(E'\n', j.operation, j.n, extract(epoch FROM j.at), j.fence, j.event, j.holder, j.reason, j.doc),
           'UTF8')) END AS sound
FROM (SELECT * FROM headgate.operation_journal l
      WHERE (l.operation, l.n) > ($1, $2) AND l.operation <= $3 ORDER BY l.operation, l.n LIMIT $4) j
LEFT JOIN headgate.operation_journal b ON b.operation = j.operation AND b.n = j.n - 1
ORDER BY j.operation, j.n

-- name: stuck
-- Begun, and left by a caller that is gone, after it had called somebody outside. Without such a call nothing
-- is left of it, and the next caller begins anew. A quarter of an hour is the longest that any retry policy
-- pauses: who was to come has come by then.
SELECT o.id, o.task, o.key, o.lease_until, array_agg(c.name ORDER BY c.begun, c.name) AS calls
FROM headgate.operation o JOIN headgate.operation_call c ON c.operation = o.id AND c.undone IS NULL
WHERE o.status = 'running' AND o.lease_until < now() - interval '15 minutes'
GROUP BY o.id, o.task, o.key, o.lease_until ORDER BY o.id LIMIT 1001

-- name: locks
-- Locks that no attempt holds: of an operation that is finished, is held by another attempt, or is not there.
-- Once its lease ran out, the next caller takes it.
SELECT l.lock_key, l.operation, l.holder, l.lease_until, o.status, l.lease_until > now() AS live
FROM headgate.operation_lock l LEFT JOIN headgate.operation o ON o.id = l.operation
WHERE o.id IS NULL OR o.status <> 'running' OR o.token <> l.token
ORDER BY l.lock_key LIMIT 1001

-- name: calls
-- Calls of operations that are not there, and calls with another key than their operation gives them.
SELECT c.operation, c.name, o.id IS NULL AS dangling
FROM headgate.operation_call c LEFT JOIN headgate.operation o ON o.id = c.operation
WHERE o.id IS NULL
   OR c.key <> sha256('headgate:call:1\000'::bytea || o.key || convert_to(c.name, 'UTF8'))
ORDER BY c.operation, c.name LIMIT 1001

-- name: dangling
SELECT j.operation, count(*) AS lines FROM headgate.operation_journal j
WHERE NOT EXISTS (SELECT FROM headgate.operation o WHERE o.id = j.operation)
GROUP BY j.operation ORDER BY j.operation LIMIT 1001

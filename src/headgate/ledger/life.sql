-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: entry
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker,
       e.pipeline AS pipeline_id, e.removed, e.sequence, e.envelope, e.data, e.key AS change_key,
       r.times, r.conflicts, r.last_at, e.reverts, e.restores, e.late,
       e.replay, e.replays, a.actor AS replay_actor, a.because AS replay_because, a.asked_at AS replay_asked_at
FROM headgate.entry_state s
JOIN headgate.entry e ON e.id = s.entry
LEFT JOIN headgate.redelivery r ON r.entry = s.entry
LEFT JOIN headgate.replay a ON a.id = e.replay
WHERE s.entry = $1

-- name: lines
SELECT j.batch, j.n, c.pos, j.at, j.fence, j.outcome::text AS outcome, j.attempt, k.name AS worker,
       j.reason, j.steps, j.doc
FROM headgate.journal j
LEFT JOIN headgate.commit c ON c.batch = j.batch
LEFT JOIN headgate.worker k ON k.id = j.worker
WHERE j.entry = $1 ORDER BY c.pos, j.batch, j.n

-- name: publication
SELECT p.entry, p.version, p.removed, encode(p.content, 'hex') AS content, encode(p.effect, 'hex') AS effect,
       p.predecessor, p.successor, p.artifacts::text AS artifacts, p.deployment
FROM headgate.publication p WHERE p.entry = $1

-- name: current_then
-- The publication of this uri that was current when commit $3 was made: from the head backwards.
WITH RECURSIVE back AS (
    SELECT p.entry, p.version, p.content, p.predecessor FROM headgate.publication p
    WHERE p.pipeline = $1 AND p.uri = $2 AND p.successor IS NULL
    UNION ALL
    SELECT p.entry, p.version, p.content, p.predecessor
    FROM back b JOIN headgate.publication p ON p.entry = b.predecessor
    WHERE NOT EXISTS (SELECT FROM headgate.journal j JOIN headgate.commit c ON c.batch = j.batch
                      WHERE j.entry = b.entry AND j.outcome = 'finalized' AND c.pos < $3))
SELECT b.entry, b.version, encode(b.content, 'hex') AS content, e.event_time, e.sequence
FROM back b JOIN headgate.entry e ON e.id = b.entry
WHERE EXISTS (SELECT FROM headgate.journal j JOIN headgate.commit c ON c.batch = j.batch
              WHERE j.entry = b.entry AND j.outcome = 'finalized' AND c.pos < $3)
ORDER BY b.version DESC LIMIT 1

-- name: quarantine
SELECT q.class, q.reason, q.error, q.preview, encode(q.content, 'hex') AS content, q.attempts,
       q.failures::text AS failures, q.first_at, q.last_at, q.deployment
FROM headgate.quarantine q WHERE q.entry = $1

-- name: deployment
SELECT d.id, d.version, encode(d.code, 'hex') AS code, d.first_seen FROM headgate.deployment d WHERE d.id = $1

-- name: actions
SELECT id, at, actor, verb, because FROM headgate.action WHERE entry = $1 ORDER BY id

-- name: calls
SELECT name, encode(key, 'hex') AS key, begun, done, undone FROM headgate.call WHERE entry = $1 ORDER BY begun

-- name: conflicts
SELECT id, at FROM headgate.conflict WHERE entry = $1 ORDER BY id

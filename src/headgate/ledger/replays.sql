-- name: list
SELECT r.id, p.name AS pipeline, r.mode, r.state, r.asked_at, r.ended_at, r.inputs, r.done, r.moved_at,
       r.actor, r.because, r.per_second, r.manifest::text AS manifest, r.report::text AS report, r.pins
FROM headgate.replay r JOIN headgate.pipeline p ON p.id = r.pipeline
WHERE r.id < $1 ORDER BY r.id DESC LIMIT $2

-- name: one
SELECT r.id, p.name AS pipeline, r.mode, r.state, r.asked_at, r.ended_at, r.inputs, r.done, r.moved_at,
       r.actor, r.because, r.per_second, r.manifest::text AS manifest, r.report::text AS report, r.pins
FROM headgate.replay r JOIN headgate.pipeline p ON p.id = r.pipeline
WHERE r.id = $1

-- name: fates
-- What became of the entries of a replay.
SELECT s.status, s.reason, count(*) AS entries FROM headgate.entry e
JOIN headgate.entry_state s ON s.entry = e.id
WHERE e.replay = $1 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2

-- name: listed
SELECT i.uri, i.original AS publication, encode(i.content, 'hex') AS content FROM headgate.replay_input i
WHERE i.replay = $1 ORDER BY i.n

-- name: deployed
SELECT d.version, d.code, d.params, d.declared::text AS declared FROM headgate.deployment d
JOIN headgate.pipeline p ON p.id = d.pipeline WHERE p.name = $1
ORDER BY d.registered_at DESC, d.id DESC LIMIT 1


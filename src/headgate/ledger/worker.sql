-- name: register
INSERT INTO headgate.worker (name, host, pid, alive_until)
VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
RETURNING id

-- name: beat
-- Renew the lease of workers that are alive. One that was buried meanwhile stays buried: its work
-- has been given to others, and it has to register anew.
UPDATE headgate.worker SET alive_until = clock_timestamp() + make_interval(secs => $2)
WHERE id = ANY ($1::int[]) AND buried_at IS NULL
RETURNING id

-- name: expired
SELECT id FROM headgate.worker
WHERE buried_at IS NULL AND alive_until <= clock_timestamp()
ORDER BY id

-- name: unburied
SELECT id, pid FROM headgate.worker WHERE buried_at IS NULL AND host = $1 ORDER BY id

-- name: bury
-- Only one of several undertakers gets the row.
UPDATE headgate.worker SET buried_at = clock_timestamp(), buried_why = $2
WHERE id = $1 AND buried_at IS NULL AND ($3 OR alive_until <= clock_timestamp())
RETURNING id, name, clock_timestamp() AS now

-- name: plans
-- How each pipeline wants to be retried, as its latest deployment declared it.
SELECT DISTINCT ON (d.pipeline) d.pipeline, p.name, d.id AS deployment, d.declared ->> 'retry' AS retry
FROM headgate.deployment d JOIN headgate.pipeline p ON p.id = d.pipeline
WHERE d.pipeline = ANY ($1::smallint[])
ORDER BY d.pipeline, d.registered_at DESC, d.id DESC

-- name: alive
SELECT count(*) FROM headgate.worker WHERE buried_at IS NULL AND alive_until > clock_timestamp()

-- name: living
SELECT k.id, k.name, k.host, k.pid, k.started_at, k.alive_until, clock_timestamp() AS now
FROM headgate.worker k WHERE k.buried_at IS NULL AND k.alive_until > clock_timestamp() ORDER BY k.id LIMIT $1

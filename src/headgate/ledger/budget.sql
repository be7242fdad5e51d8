-- name: failed
-- Attempts of a pipeline that failed in this transaction.
INSERT INTO headgate.failure AS f (pipeline, minute, n)
VALUES ($1, date_trunc('minute', clock_timestamp()), $2)
ON CONFLICT (pipeline, minute) DO UPDATE SET n = f.n + excluded.n

-- name: weigh
-- Hold the failures of the last $1 seconds against all attempts of that time. Fewer than $3 failures
-- spend nobody's budget. Answers the pipelines whose state changed.
WITH bad AS (
    SELECT f.pipeline, sum(f.n)::bigint AS n FROM headgate.failure f
    WHERE f.minute > clock_timestamp() - make_interval(secs => $1) GROUP BY f.pipeline),
attempts AS (
    SELECT c.pipeline, sum(c.n)::bigint AS n FROM headgate.commit c
    WHERE c.at > clock_timestamp() - make_interval(secs => $1)
      AND c.pipeline IN (SELECT b.pipeline FROM bad b) GROUP BY c.pipeline),
now_spent AS (
    SELECT b.pipeline, b.n AS failed, coalesce(a.n, b.n) AS attempts
    FROM bad b LEFT JOIN attempts a ON a.pipeline = b.pipeline
    WHERE b.n >= $3 AND b.n > $2 * coalesce(a.n, b.n))
UPDATE headgate.pipeline p
SET spent_at = CASE WHEN n.pipeline IS NULL THEN NULL ELSE clock_timestamp() END,
    overridden_until = CASE WHEN n.pipeline IS NULL THEN NULL ELSE p.overridden_until END
FROM headgate.pipeline o LEFT JOIN now_spent n ON n.pipeline = o.id
WHERE p.id = o.id AND (p.spent_at IS NULL) <> (n.pipeline IS NULL)
RETURNING p.id, p.name, p.spent_at, n.failed, n.attempts

-- name: forget
DELETE FROM headgate.failure WHERE minute < clock_timestamp() - make_interval(secs => $1)

-- name: spent
SELECT p.id, p.name, p.spent_at FROM headgate.pipeline p
WHERE p.spent_at IS NOT NULL AND coalesce(p.overridden_until, '-infinity') < clock_timestamp()
ORDER BY p.id

-- name: budgets
SELECT p.name AS pipeline, p.spent_at,
       CASE WHEN p.overridden_until > clock_timestamp() THEN p.overridden_until END AS overridden_until,
       coalesce(b.n, 0) AS failed, coalesce(a.n, 0) AS attempts
FROM headgate.pipeline p
LEFT JOIN LATERAL (
    SELECT sum(f.n)::bigint AS n FROM headgate.failure f
    WHERE f.pipeline = p.id AND f.minute > clock_timestamp() - make_interval(secs => $1)) b ON true
LEFT JOIN LATERAL (
    SELECT sum(c.n)::bigint AS n FROM headgate.commit c
    WHERE c.pipeline = p.id AND c.at > clock_timestamp() - make_interval(secs => $1)) a ON true
ORDER BY p.name

-- name: override
UPDATE headgate.pipeline SET overridden_until = clock_timestamp() + make_interval(secs => $2)
WHERE name = $1 AND spent_at IS NOT NULL
RETURNING overridden_until

-- name: known
SELECT EXISTS (SELECT FROM headgate.pipeline WHERE name = $1)

-- name: act
INSERT INTO headgate.action (actor, verb, because) VALUES ($1, $2, $3)

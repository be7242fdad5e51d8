-- name: ready
-- Counted no further than asked for, so that a long queue does not cost more than a short one.
SELECT count(*) FROM (
    SELECT FROM headgate.work o
    WHERE o.pipeline = $1 AND o.worker IS NULL AND coalesce(o.due_at, '-infinity') <= clock_timestamp()
    LIMIT $2) AS counted

-- name: unfinished
-- Live work has a row; what is finalized, skipped, rolled back or in quarantine has none.
SELECT e.key, o.worker IS NULL AND o.due_at > clock_timestamp() + make_interval(secs => $3) IS TRUE AS waits
FROM unnest($2::bytea[]) AS t(key)
CROSS JOIN LATERAL (
    SELECT x.id, x.key FROM headgate.entry x WHERE x.pipeline = $1 AND x.key = t.key OFFSET 0) AS e
CROSS JOIN LATERAL (
    SELECT w.worker, w.due_at FROM headgate.work w WHERE w.pipeline = $1 AND w.id = e.id OFFSET 0) AS o

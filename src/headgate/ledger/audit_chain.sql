-- name: commits
SELECT pos, batch, n, chain FROM headgate.commit WHERE pos > $1 ORDER BY pos LIMIT $2

-- name: lines
-- The lines of some batches, each finalized one with what it published.
SELECT j.batch, j.n, j.entry, j.fence, j.outcome::text AS outcome, j.attempt, j.worker, j.reason,
       j.steps, j.doc, j.hash, p.content, p.effect, p.removed, p.artifacts::text AS artifacts
FROM headgate.journal j
LEFT JOIN headgate.publication p ON p.entry = j.entry AND j.outcome = 'finalized'
WHERE j.batch = ANY ($1::bigint[])
ORDER BY j.batch, j.n

-- name: uncommitted
SELECT j.batch, count(*) AS lines, min(j.entry) AS entry
FROM headgate.journal j
WHERE NOT EXISTS (SELECT FROM headgate.commit c WHERE c.batch = j.batch)
GROUP BY j.batch ORDER BY j.batch LIMIT 1001

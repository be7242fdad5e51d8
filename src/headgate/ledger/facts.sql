-- Facts are read line by line (OFFSET 0): a page of them costs what its lines cost. Left to itself, the
-- planner would rather join the whole journal first.

-- name: of_entry
-- Every attempt at one entry, oldest first, with the rows its line points to. A line of an operator is
-- nobody's attempt.
SELECT f.* FROM headgate.journal j
CROSS JOIN LATERAL (
    SELECT * FROM headgate.facts x WHERE x.batch = j.batch AND x.n = j.n OFFSET 0) f
WHERE j.entry = $1 AND j.attempt > 0 ORDER BY j.fence, j.batch, j.n

-- name: of_publications
-- The lines that published these entries.
SELECT f.* FROM unnest($1::bigint[]) AS t(entry)
JOIN headgate.journal j ON j.entry = t.entry AND j.outcome = 'finalized'
CROSS JOIN LATERAL (
    SELECT * FROM headgate.facts x WHERE x.batch = j.batch AND x.n = j.n OFFSET 0) f
ORDER BY f.pos, f.n

-- name: page
-- The change feed of one store's catalogued pipelines: the lines of whole commits after a position.
-- `upto` bounds the commits, so that a page stays small; the next one begins after the last of them.
-- A discard that was taken back is nobody's attempt.
SELECT f.* FROM headgate.commit c
JOIN headgate.journal j ON j.batch = c.batch
CROSS JOIN LATERAL (
    SELECT * FROM headgate.facts x WHERE x.batch = j.batch AND x.n = j.n OFFSET 0) f
WHERE c.pos > $1 AND c.pos <= $2 AND c.pipeline = ANY ($3::smallint[])
  AND j.outcome IN ('finalized', 'quarantined') AND j.steps <> 'rolled_back quarantined'
ORDER BY c.pos, j.n

-- name: heads
-- What readers see now of one pipeline, by entry: a page of publications without a successor.
SELECT f.* FROM (
    SELECT u.entry FROM headgate.publication u
    WHERE u.pipeline = $1 AND u.successor IS NULL AND u.entry > $2 ORDER BY u.entry LIMIT $3) h
JOIN headgate.journal j ON j.entry = h.entry AND j.outcome = 'finalized'
CROSS JOIN LATERAL (
    SELECT * FROM headgate.facts x WHERE x.batch = j.batch AND x.n = j.n OFFSET 0) f
ORDER BY h.entry

-- name: status
SELECT s.status FROM headgate.entry_state s WHERE s.entry = $1

-- name: retry
-- Only what nobody holds. It still waits, as its journal says; but not for long.
UPDATE headgate.work w SET attempts = 0, deaths = 0, first_at = NULL, upstream = NULL, due_at = clock_timestamp()
FROM headgate.entry e
WHERE e.id = $1 AND w.pipeline = e.pipeline AND w.id = e.id AND w.worker IS NULL AND w.due_at IS NOT NULL
RETURNING w.id

-- name: lock
-- Two who reset the same entry come one after the other. Its subject is what it was when it was admitted.
SELECT e.pipeline, j.fence, j.reason,
       hashtextextended(coalesce(convert_from(e.envelope, 'UTF8')::json ->> 'subject', e.uri), e.pipeline) AS subject
FROM headgate.entry e
JOIN LATERAL (
    SELECT j.fence, j.reason FROM headgate.journal j WHERE j.entry = e.id AND j.outcome = 'skipped'
    ORDER BY j.fence DESC LIMIT 1) j ON true
WHERE e.id = $1 FOR UPDATE OF e

-- name: act
INSERT INTO headgate.action (actor, verb, entry, because) VALUES ($1, 'reset', $2, $3)

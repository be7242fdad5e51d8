-- name: take
-- What ran out of attempts since it was last told, by pipeline and reason, at most every $1 seconds.
-- Whoever gets a row tells it; the others get none.
WITH news AS (
    SELECT q.pipeline, q.class, q.reason, count(*) AS entries, max(q.last_at) AS last_at,
           min(q.last_at) AS first_at, max(q.entry) AS entry
    FROM headgate.quarantine q
    LEFT JOIN headgate.incident i
        ON i.pipeline = q.pipeline AND i.class = q.class AND i.reason = q.reason
    WHERE q.class = 'exhausted' AND q.last_at > coalesce(i.upto, '-infinity')
      AND coalesce(i.told_at, '-infinity') < clock_timestamp() - make_interval(secs => $1)
    GROUP BY q.pipeline, q.class, q.reason),
taken AS (
    INSERT INTO headgate.incident AS i (pipeline, class, reason, told_at, upto)
    SELECT n.pipeline, n.class, n.reason, clock_timestamp(), n.last_at FROM news n
    ORDER BY n.pipeline, n.class, n.reason
    ON CONFLICT (pipeline, class, reason) DO UPDATE
        SET told_at = excluded.told_at, upto = excluded.upto
        WHERE coalesce(i.told_at, '-infinity') < clock_timestamp() - make_interval(secs => $1)
    RETURNING i.pipeline, i.class, i.reason)
SELECT p.name AS pipeline, n.class, n.reason, n.entries, n.first_at, n.last_at, n.entry,
       (SELECT q.error FROM headgate.quarantine q WHERE q.entry = n.entry) AS error
FROM news n JOIN taken t USING (pipeline, class, reason)
JOIN headgate.pipeline p ON p.id = n.pipeline
ORDER BY p.name, n.reason

-- name: untold
-- The hook did not take it: the next round tells it again.
UPDATE headgate.incident i SET told_at = NULL, upto = '-infinity' FROM headgate.pipeline p
WHERE p.id = i.pipeline AND p.name = $1 AND i.class = $2 AND i.reason = $3

-- name: escalated
-- A caller of an operation calls for a person: how often that was, and whether this one is to be told.
-- Of all callers, in whatever process, one tells it every $3 seconds.
INSERT INTO headgate.operation_escalation AS i (pipeline, task, times, told_at)
VALUES ($1, $2, 1, statement_timestamp())
ON CONFLICT (pipeline, task) DO UPDATE SET times = i.times + 1, told_at =
    CASE WHEN i.told_at < statement_timestamp() - make_interval(secs => $3)
         THEN statement_timestamp() ELSE i.told_at END
RETURNING i.times, i.told_at = statement_timestamp() AS ours

-- name: escalation_untold
UPDATE headgate.operation_escalation SET told_at = '-infinity' WHERE pipeline = $1 AND task = $2

-- name: unearned
-- Marked late by no watermark that the pipeline had: none above the event, or one that none of its
-- streams has reached. And what is held for being late without being marked.
SELECT e.id, e.event_time, e.late FROM headgate.entry e
LEFT JOIN (SELECT w.pipeline, max(w.watermark) AS highest FROM headgate.watermark w GROUP BY w.pipeline) w
    ON w.pipeline = e.pipeline
WHERE e.late IS NOT NULL AND (e.late <= e.event_time OR e.late > w.highest OR w.highest IS NULL)
UNION ALL
SELECT e.id, e.event_time, e.late FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry
WHERE q.class = 'late' AND e.late IS NULL
ORDER BY 1 LIMIT 1001

-- name: streams
-- Streams that have seen more than was admitted, and pipelines that counted other than is marked.
SELECT p.name AS pipeline, max(w.seen) AS seen, e.latest, sum(w.late)::bigint AS counted, e.late AS marked
FROM headgate.watermark w JOIN headgate.pipeline p ON p.id = w.pipeline
CROSS JOIN LATERAL (
    SELECT max(e.event_time) AS latest, count(e.late) AS late FROM headgate.entry e WHERE e.pipeline = p.id) e
GROUP BY p.name, e.latest, e.late
HAVING max(w.seen) > coalesce(e.latest, '-infinity') OR sum(w.late) <> e.late

-- name: rests
-- Where entries rest by the journal, up to the mark, beside what was added up. Another way than the
-- roll-up's: all lines at once, by what they say alone.
WITH said AS (
    SELECT coalesce(c.pipeline, (SELECT e.pipeline FROM headgate.entry e WHERE e.id = j.entry)) AS pipeline,
           j.outcome, CASE j.outcome WHEN 'skipped' THEN j.reason END AS reason,
           CASE WHEN j.steps IN ('skipped received', 'rolled_back quarantined', 'quarantined received',
                                 'quarantined rolled_back') THEN j.steps END AS steps,
           CASE j.steps WHEN 'skipped received' THEN convert_from(j.doc, 'UTF8')::json ->> 'skipped' END AS undone,
           count(*) AS n
    FROM headgate.flow_mark m
    JOIN headgate.commit c ON c.pos <= m.pos
    JOIN headgate.journal j ON j.batch = c.batch
    GROUP BY 1, 2, 3, 4, 5),
moved AS (
    SELECT s.pipeline, k.kind, k.reason, sum(k.sign * s.n) AS n
    FROM said s CROSS JOIN LATERAL (
        SELECT 'finalized' AS kind, '' AS reason, 1 AS sign WHERE s.outcome = 'finalized'
        UNION ALL SELECT 'skipped', s.reason, 1 WHERE s.outcome = 'skipped'
        UNION ALL SELECT 'skipped', s.undone, -1 WHERE s.steps = 'skipped received'
        UNION ALL SELECT 'discarded', '', 1 WHERE s.outcome = 'rolled_back'
        UNION ALL SELECT 'discarded', '', -1 WHERE s.steps = 'rolled_back quarantined'
        UNION ALL SELECT 'quarantined', '', 1 WHERE s.outcome = 'quarantined'
        UNION ALL SELECT 'quarantined', '', -1
                  WHERE s.steps IN ('quarantined received', 'quarantined rolled_back')) k
    GROUP BY 1, 2, 3)
SELECT coalesce(p.name, 'pipeline ' || coalesce(m.pipeline, t.pipeline)) AS pipeline,
       concat_ws(' ', coalesce(m.kind, t.kind), nullif(coalesce(m.reason, t.reason), '')) AS what,
       coalesce(t.n, 0) AS told, coalesce(m.n, 0) AS counted
FROM moved m FULL JOIN headgate.flow_total t
    ON t.pipeline = m.pipeline AND t.kind = m.kind AND t.reason = m.reason
LEFT JOIN headgate.pipeline p ON p.id = coalesce(m.pipeline, t.pipeline)
WHERE coalesce(t.n, 0) <> coalesce(m.n, 0) ORDER BY 1, 2 LIMIT 1001

-- name: lines
-- Hours that do not add up to the lines that were written in them.
SELECT coalesce(p.name, 'pipeline ' || coalesce(j.pipeline, f.pipeline)) AS pipeline,
       coalesce(j.at, f.at) AS at, coalesce(f.n, 0) AS told, coalesce(j.n, 0) AS counted
FROM (
    SELECT coalesce(c.pipeline, e.pipeline) AS pipeline, date_bin('1 hour', c.at, '2000-01-01Z') AS at, sum(c.n) AS n
    FROM headgate.flow_mark m JOIN headgate.commit c ON c.pos <= m.pos
    JOIN headgate.journal l ON l.batch = c.batch AND l.n = 1
    LEFT JOIN headgate.entry e ON e.id = l.entry GROUP BY 1, 2) j
FULL JOIN (
    SELECT f.pipeline, f.at, f.finalized + f.skipped + f.quarantined + f.waiting + f.fenced + f.other AS n
    FROM headgate.flow f WHERE f.minutes = 60) f ON f.pipeline = j.pipeline AND f.at = j.at
LEFT JOIN headgate.pipeline p ON p.id = coalesce(j.pipeline, f.pipeline)
WHERE coalesce(f.n, 0) <> coalesce(j.n, 0) ORDER BY 1, 2 LIMIT 1001

-- name: deliveries
-- Deliveries that were added up and not told, or are in no hour.
SELECT coalesce(p.name, 'pipeline ' || s.pipeline) AS pipeline, s.source, s.received AS seen,
       coalesce(t.received, 0) AS told, coalesce(d.received, 0) AS counted
FROM headgate.flow_seen s
LEFT JOIN (SELECT y.pipeline, y.source, sum(y.received) AS received, sum(y.admitted) AS admitted,
                  sum(y.duplicate) AS duplicate, sum(y.conflict) AS conflict
           FROM headgate.tally y GROUP BY 1, 2) t ON t.pipeline = s.pipeline AND t.source = s.source
LEFT JOIN (SELECT d.pipeline, d.source, sum(d.received) AS received, sum(d.admitted) AS admitted,
                  sum(d.duplicate) AS duplicate, sum(d.conflict) AS conflict
           FROM headgate.flow_delivery d WHERE d.minutes = 60 GROUP BY 1, 2) d
    ON d.pipeline = s.pipeline AND d.source = s.source
LEFT JOIN headgate.pipeline p ON p.id = s.pipeline
WHERE s.received > coalesce(t.received, 0) OR s.admitted > coalesce(t.admitted, 0)
   OR s.duplicate > coalesce(t.duplicate, 0) OR s.conflict > coalesce(t.conflict, 0)
   OR (s.received, s.admitted, s.duplicate, s.conflict)
      IS DISTINCT FROM (d.received, d.admitted, d.duplicate, d.conflict)
ORDER BY 1, 2 LIMIT 1001

-- name: mark
SELECT m.pos, coalesce((SELECT max(c.pos) FROM headgate.commit c), 0) AS last FROM headgate.flow_mark m

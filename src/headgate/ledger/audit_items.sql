-- name: catalogued
-- Pipelines that have, or once had, something to show in a catalog.
SELECT d.pipeline FROM headgate.deployment d WHERE d.declared ->> 'dataset' IS NOT NULL
UNION
SELECT i.pipeline FROM headgate.item i
ORDER BY 1

-- name: heads
-- A page of what readers see of one pipeline: what was said when it was published, and its row.
SELECT u.entry, u.uri, u.removed, j.doc, i.entry IS NOT NULL AS there, i.pipeline = u.pipeline AS ours,
       i.collection, i.item, i.starts, i.ends, i.bbox, i.retired
FROM (
    SELECT p.entry, p.uri, p.removed, p.pipeline FROM headgate.publication p
    WHERE p.pipeline = $1 AND p.successor IS NULL AND p.entry > $2 ORDER BY p.entry LIMIT $3) u
LEFT JOIN LATERAL (
    SELECT l.doc FROM headgate.journal l
    WHERE l.entry = u.entry AND l.outcome = 'finalized' ORDER BY l.fence LIMIT 1) j ON true
LEFT JOIN headgate.item i ON i.entry = u.entry
ORDER BY u.entry

-- name: left_behind
-- Items of what is no head.
SELECT i.entry, u.uri, u.successor FROM headgate.item i
LEFT JOIN headgate.publication u ON u.entry = i.entry
WHERE u.entry IS NULL OR u.successor IS NOT NULL ORDER BY i.entry LIMIT 1001

-- name: dangling
-- Rows of entries that are not there. Hot tables have no foreign keys: this is what they would keep.
(SELECT 'work' AS what, w.id AS entry FROM headgate.work w
 LEFT JOIN headgate.entry e ON e.id = w.id AND e.pipeline = w.pipeline
 WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT 'quarantine', q.entry FROM headgate.quarantine q
 LEFT JOIN headgate.entry e ON e.id = q.entry AND e.pipeline = q.pipeline
 WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT 'publication', p.entry FROM headgate.publication p
 LEFT JOIN headgate.entry e ON e.id = p.entry WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT DISTINCT 'journal', j.entry FROM headgate.journal j
 LEFT JOIN headgate.entry e ON e.id = j.entry WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT 'redelivery', r.entry FROM headgate.redelivery r
 LEFT JOIN headgate.entry e ON e.id = r.entry WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT DISTINCT 'conflict', c.entry FROM headgate.conflict c
 LEFT JOIN headgate.entry e ON e.id = c.entry WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT DISTINCT 'call', c.entry FROM headgate.call c
 LEFT JOIN headgate.entry e ON e.id = c.entry WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT 'discarded', d.entry FROM headgate.discarded d
 LEFT JOIN headgate.entry e ON e.id = d.entry AND e.pipeline = d.pipeline
 WHERE e.id IS NULL LIMIT 1001)
UNION ALL
(SELECT DISTINCT 'redriven', d.entry FROM headgate.redriven d
 LEFT JOIN headgate.entry e ON e.id = d.entry AND e.pipeline = d.pipeline
 WHERE e.id IS NULL LIMIT 1001)

-- name: undeployed
SELECT p.entry, p.deployment FROM headgate.publication p
LEFT JOIN headgate.deployment d ON d.id = p.deployment AND d.pipeline = p.pipeline
WHERE d.id IS NULL
UNION ALL
SELECT q.entry, q.deployment FROM headgate.quarantine q
LEFT JOIN headgate.deployment d ON d.id = q.deployment AND d.pipeline = q.pipeline
WHERE d.id IS NULL LIMIT 1001

-- name: heads
-- Uris with more than one head, and uris that were published and have none.
SELECT p.uri, min(p.entry) AS entry, count(*) AS heads FROM headgate.publication p
WHERE p.successor IS NULL GROUP BY p.pipeline, p.uri HAVING count(*) > 1
UNION ALL
SELECT p.uri, max(p.entry), 0 FROM headgate.publication p
WHERE p.successor IS NOT NULL AND NOT EXISTS (
    SELECT FROM headgate.publication h
    WHERE h.pipeline = p.pipeline AND h.uri = p.uri AND h.successor IS NULL)
GROUP BY p.pipeline, p.uri LIMIT 1001

-- name: leases
-- Claimed work whose worker is not there, is buried, or has no lease any more. While another worker
-- is alive somebody sweeps, and a minute is more than that takes; otherwise nobody will come.
-- now() is the time of the snapshot: a lease that was renewed since then is none of its business.
SELECT w.id AS entry, w.worker, k.id IS NULL AS unknown, k.name, k.buried_at, k.alive_until
FROM headgate.work w LEFT JOIN headgate.worker k ON k.id = w.worker
WHERE w.worker IS NOT NULL AND (
    k.id IS NULL OR k.buried_at IS NOT NULL OR k.alive_until <= now() - CASE WHEN EXISTS (
        SELECT FROM headgate.worker o WHERE o.buried_at IS NULL AND o.alive_until > now())
        THEN interval '60 seconds' ELSE interval '0' END)
ORDER BY w.id LIMIT 1001

-- name: crowded
SELECT w.subject, min(w.id) AS entry, array_agg(w.id ORDER BY w.id) AS entries FROM headgate.work w
WHERE w.worker IS NOT NULL GROUP BY w.pipeline, w.subject HAVING count(*) > 1 LIMIT 1001

-- name: partitions
-- Partitions whose count of claimed entries is not what is claimed.
SELECT coalesce(b.pipeline, w.pipeline) AS pipeline, coalesce(b.part, w.part) AS part,
       coalesce(b.busy, 0) AS busy, coalesce(w.n, 0) AS claimed
FROM headgate.part b FULL JOIN (
    SELECT o.pipeline, o.part, count(*) AS n FROM headgate.work o
    WHERE o.part IS NOT NULL AND o.worker IS NOT NULL GROUP BY o.pipeline, o.part) w
    ON w.pipeline = b.pipeline AND w.part = b.part
JOIN headgate.pipeline p ON p.id = coalesce(b.pipeline, w.pipeline) AND p.per_partition IS NOT NULL
WHERE coalesce(b.busy, 0) <> coalesce(w.n, 0) LIMIT 1001

-- name: counters
-- What was counted on the way in, beside what is there. Repeats inside one batch are counted as
-- duplicates and have no redelivery row, so those may be fewer, never more.
WITH entries AS (SELECT pipeline, count(*) AS n, min(id) AS one FROM headgate.entry GROUP BY pipeline),
tallies AS (
    SELECT pipeline, sum(received)::bigint AS received, sum(admitted)::bigint AS admitted,
           sum(duplicate)::bigint AS duplicate, sum(conflict)::bigint AS conflict
    FROM headgate.tally GROUP BY pipeline),
again AS (
    SELECT e.pipeline, sum(r.times)::bigint AS times, sum(r.conflicts)::bigint AS conflicts
    FROM headgate.redelivery r JOIN headgate.entry e ON e.id = r.entry GROUP BY e.pipeline),
refused AS (
    SELECT e.pipeline, count(*) AS n
    FROM headgate.conflict c JOIN headgate.entry e ON e.id = c.entry GROUP BY e.pipeline)
SELECT coalesce(e.pipeline, t.pipeline) AS id, p.name, e.one, coalesce(e.n, 0) AS entries,
       coalesce(t.received, 0) AS received, coalesce(t.admitted, 0) AS admitted,
       coalesce(t.duplicate, 0) AS duplicate, coalesce(t.conflict, 0) AS conflict,
       coalesce(a.times, 0) AS times, coalesce(a.conflicts, 0) AS conflicts, coalesce(f.n, 0) AS refused
FROM entries e
FULL JOIN tallies t ON t.pipeline = e.pipeline
LEFT JOIN headgate.pipeline p ON p.id = coalesce(e.pipeline, t.pipeline)
LEFT JOIN again a ON a.pipeline = coalesce(e.pipeline, t.pipeline)
LEFT JOIN refused f ON f.pipeline = coalesce(e.pipeline, t.pipeline)
ORDER BY 1

-- name: redrives
-- Plans whose counts are not those of their rows, or that are done with rows that are not.
SELECT r.id, r.state,
       concat_ws('/', r.total, r.released, r.passed, r.failed, r.gone) AS told, d.counted
FROM headgate.redrive r CROSS JOIN LATERAL (
    SELECT concat_ws('/', count(*), count(*) FILTER (WHERE d.state IN ('released', 'passed', 'failed')),
                     count(*) FILTER (WHERE d.state = 'passed'), count(*) FILTER (WHERE d.state = 'failed'),
                     count(*) FILTER (WHERE d.state = 'gone')) AS counted,
           count(*) FILTER (WHERE d.state IN ('planned', 'released')) AS unfinished
    FROM headgate.redriven d WHERE d.redrive = r.id) d
WHERE d.counted <> concat_ws('/', r.total, r.released, r.passed, r.failed, r.gone)
   OR (r.state = 'done' AND d.unfinished > 0)
ORDER BY r.id LIMIT 1001

-- name: discards
-- Entries that are kept as discarded and were not, or not any more.
SELECT d.entry, s.status FROM headgate.discarded d
JOIN headgate.entry_state s ON s.entry = d.entry
WHERE s.status IS DISTINCT FROM 'rolled_back' ORDER BY d.entry LIMIT 1001

-- name: sizes
SELECT (SELECT count(*) FROM headgate.work) AS work,
       (SELECT count(*) FROM headgate.quarantine) AS quarantine,
       (SELECT count(*) FROM headgate.publication) AS publications,
       (SELECT count(*) FROM headgate.worker) AS workers,
       (SELECT count(*) FROM headgate.redrive) AS redrives

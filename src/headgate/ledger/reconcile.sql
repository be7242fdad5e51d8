-- name: pipeline
SELECT p.id, p.store, (SELECT d.id FROM headgate.deployment d WHERE d.pipeline = p.id
                       ORDER BY d.registered_at DESC LIMIT 1) AS deployment
FROM headgate.pipeline p WHERE p.name = $1

-- name: since
SELECT coalesce(max(id), 0) FROM headgate.entry

-- name: shown
-- Gone with the transaction. Sorting and joining a million rows is the server's work: it spills to
-- its own disk, and we hold a page at a time.
CREATE TEMPORARY TABLE shown (
    uri text NOT NULL, source int NOT NULL, hint text NOT NULL, strength text NOT NULL, at timestamptz NOT NULL,
    size bigint, content_type text, clock text NOT NULL, settled boolean NOT NULL) ON COMMIT DROP

-- name: analyze
ANALYZE shown

-- name: memory
SELECT set_config('work_mem', '48MB', true), set_config('jit', 'off', true)

-- name: told_otherwise
-- Was anything admitted that no listing has shown?
SELECT EXISTS (SELECT FROM headgate.tally t WHERE t.pipeline = $1 AND t.admitted > 0 AND NOT EXISTS (
    SELECT FROM headgate.listing l WHERE l.pipeline = $1 AND l.source = t.source))

-- name: differences
-- All uris about which the three accounts say anything but the same, by uri. What agrees is most of
-- it, stays there, and is counted by what is left out. Of several sources that show an object the one
-- declared first counts ($2 names them in that order), and of what is known, what is still there.
-- Entries have no index on their uri, so they are read as a whole, and only where it is needed ($3).
DECLARE difference NO SCROLL CURSOR FOR
WITH seen AS (
    SELECT DISTINCT ON (uri) * FROM shown ORDER BY uri, source),
known AS (
    SELECT DISTINCT ON (l.uri) l.uri, l.source, l.hint, l.removed FROM headgate.listing l WHERE l.pipeline = $1
    ORDER BY l.uri, l.removed, array_position($2::text[], l.source), l.generation DESC),
head AS (
    SELECT p.uri, p.entry, p.seen, p.version, p.removed, e.id IS NOT NULL AS reverted
    FROM headgate.publication p
    LEFT JOIN (SELECT id FROM headgate.entry WHERE reverts IS NOT NULL AND pipeline = $1) e ON e.id = p.entry
    WHERE p.pipeline = $1 AND p.successor IS NULL),
doing AS (
    SELECT e.uri, max(e.id) AS id, (array_agg(t.held ORDER BY t.id DESC))[1] AS held
    FROM (SELECT id, false AS held FROM headgate.work WHERE pipeline = $1 UNION ALL
          SELECT entry, true FROM headgate.quarantine WHERE pipeline = $1) t
    JOIN headgate.entry e ON e.id = t.id GROUP BY e.uri),
ended AS (
    SELECT DISTINCT e.uri FROM headgate.entry e WHERE $3::boolean AND e.pipeline = $1)
SELECT uri, s.source, s.hint, s.strength, s.at, s.size, s.content_type, s.clock, s.settled,
       (SELECT o.generation FROM headgate.listing o
        WHERE o.pipeline = $1 AND o.uri = s.uri AND o.source = ($2::text[])[s.source + 1]) AS expected,
       k.source AS known_by, k.hint AS known, coalesce(k.removed, false) AS removed,
       h.entry AS published, h.version, coalesce(h.removed, false) AS retired, coalesce(h.reverted, false) AS reverted,
       d.id AS doing, coalesce(d.held, false) AS held, n.uri IS NOT NULL AS ended, e.envelope, e.event_time
FROM seen s FULL JOIN known k USING (uri) FULL JOIN head h USING (uri) FULL JOIN doing d USING (uri)
LEFT JOIN ended n USING (uri)
LEFT JOIN (SELECT id, envelope, event_time FROM headgate.entry) e ON e.id = coalesce(h.seen, h.entry) AND s.uri IS NOT NULL
                          AND (k.uri IS NULL OR k.source <> ($2::text[])[s.source + 1])
WHERE (s.hint = k.hint AND s.settled AND NOT k.removed AND NOT h.removed AND NOT h.reverted AND d.id IS NULL)
      IS NOT TRUE
ORDER BY uri COLLATE "C"

-- name: next
FETCH FORWARD 5000 FROM difference

-- name: distinct
SELECT count(DISTINCT uri) FROM shown

-- name: act
INSERT INTO headgate.action (actor, verb, entry, because)
SELECT $1, 'reconcile', e.id, $2 FROM headgate.entry e
WHERE e.pipeline = $3 AND e.key = ANY ($4::bytea[]) ORDER BY e.id

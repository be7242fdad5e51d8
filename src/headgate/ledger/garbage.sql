-- name: due
UPDATE headgate.collecting SET looked_at = clock_timestamp()
WHERE looked_at < clock_timestamp() - make_interval(secs => $1) RETURNING true

-- name: by_hash
-- Tables that grew since they were analysed look small: compared row by row they would take hours.
SELECT set_config('enable_nestloop', 'off', true), set_config('work_mem', '64MB', true),
       set_config('jit', 'off', true)

-- name: look
-- Kept, not announced for longer than the retention, and nothing needs it. Needed are what readers
-- see, what is in quarantine or was discarded less than the retention ago, what was replaced in that
-- time, what a revert that is under way brings back, and the results of operations. The past is asked, by look-ups, only about what no head refers to.
-- `seen` is the transaction that wrote the row: who refers to the object from now on writes it anew.
WITH loose AS MATERIALIZED (
    SELECT o.store, o.digest, o.size, o.touched_at, o.xmin::text::bigint AS seen
    FROM headgate.object o
    WHERE o.state = 'kept' AND o.touched_at < now() - make_interval(secs => greatest($1::float8, $2::float8))
      AND NOT EXISTS (SELECT FROM headgate.reference r WHERE r.successor IS NULL AND r.digest = o.digest)
      AND NOT EXISTS (SELECT FROM headgate.quarantine q WHERE q.content = o.digest)
      AND NOT EXISTS (SELECT FROM headgate.discarded d
                      WHERE d.content = o.digest AND d.at >= now() - make_interval(secs => $1))
      AND NOT EXISTS (SELECT FROM headgate.operation p
                      WHERE p.store IS NOT NULL AND p.result_hash = o.digest)),
past AS MATERIALIZED (
    SELECT r.entry, r.successor, r.digest FROM loose l JOIN headgate.reference r ON r.digest = l.digest
    WHERE r.successor IS NOT NULL),
needed AS MATERIALIZED (
    SELECT DISTINCT r.digest FROM past r
    WHERE coalesce((SELECT j.at >= now() - make_interval(secs => $1) FROM headgate.journal j
                    WHERE j.entry = r.successor AND j.outcome = 'finalized' LIMIT 1), true)
       OR (SELECT true FROM headgate.restoring x WHERE x.entry = r.entry LIMIT 1))
SELECT l.store, l.digest, l.size, l.touched_at, l.seen FROM loose l
WHERE NOT EXISTS (SELECT FROM needed n WHERE n.digest = l.digest)
ORDER BY l.touched_at LIMIT $3

-- name: condemn_staged
-- Staged by someone who never finished, longer ago than the grace period.
UPDATE headgate.object o SET state = 'condemned'
FROM (SELECT store, digest FROM headgate.object
      WHERE state = 'staged' AND touched_at < clock_timestamp() - make_interval(secs => $1)
      ORDER BY touched_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS t
WHERE o.store = t.store AND o.digest = t.digest
RETURNING o.digest

-- name: lock_kept
-- What was found by `look`, as it is now. Whoever is about to refer to one of them holds its row, and
-- keeps it.
SELECT o.store, o.digest, o.xmin::text::bigint AS seen
FROM unnest($1::smallint[], $2::bytea[]) AS t(store, digest)
JOIN headgate.object o ON o.store = t.store AND o.digest = t.digest
WHERE o.state = 'kept' ORDER BY o.store, o.digest FOR UPDATE OF o SKIP LOCKED

-- name: condemn_kept
WITH gone AS (
    UPDATE headgate.object o SET state = 'condemned'
    FROM unnest($1::smallint[], $2::bytea[]) AS t(store, digest)
    WHERE o.store = t.store AND o.digest = t.digest AND o.state = 'kept'
    RETURNING o.store, o.digest, o.size)
INSERT INTO headgate.collected AS c (store, digest, size, at, retention)
SELECT g.store, g.digest, g.size, clock_timestamp(), make_interval(secs => $3) FROM gone g
ORDER BY g.store, g.digest
ON CONFLICT (store, digest) DO UPDATE
SET size = excluded.size, at = excluded.at, retention = excluded.retention

-- name: condemned
-- Locked while their bytes are deleted: whoever touches one of them waits, then writes anew.
SELECT o.store, o.digest, o.size, s.uri
FROM headgate.object o JOIN headgate.store s ON s.id = o.store
WHERE o.state = 'condemned' AND s.uri <> ALL ($2::text[])
ORDER BY o.store, o.digest LIMIT $1 FOR UPDATE OF o SKIP LOCKED

-- name: forget
DELETE FROM headgate.object o USING unnest($1::smallint[], $2::bytea[]) AS t(store, digest)
WHERE o.store = t.store AND o.digest = t.digest AND o.state = 'condemned'

-- name: stores
-- What each store holds, by what it is held for.
SELECT s.id, s.uri AS store,
       count(o.digest) FILTER (WHERE o.state = 'kept') AS kept,
       coalesce(sum(o.size) FILTER (WHERE o.state = 'kept'), 0)::bigint AS kept_bytes,
       count(o.digest) FILTER (WHERE o.state = 'staged') AS staged,
       coalesce(sum(o.size) FILTER (WHERE o.state = 'staged'), 0)::bigint AS staged_bytes,
       (SELECT count(*) FROM headgate.collected c WHERE c.store = s.id) AS collected
FROM headgate.store s LEFT JOIN headgate.object o ON o.store = s.id
GROUP BY s.id, s.uri ORDER BY s.uri

-- name: on_its_way
-- What is on its way out already: staged longer ago than the grace period, or condemned.
SELECT o.store, o.digest, o.size, o.touched_at, 0::bigint AS seen FROM headgate.object o
WHERE o.state = 'condemned'
   OR (o.state = 'staged' AND o.touched_at < now() - make_interval(secs => $1))
ORDER BY o.touched_at LIMIT $2

-- function: touch
-- Announce that these bytes are about to be used, before looking whether they are there.
-- Answers each object's generation and whether its bytes can be trusted to be in the store.
-- A condemned object comes back under a new generation, and its bytes have to be written again.
CREATE OR REPLACE FUNCTION headgate.touch(at_store smallint, digests bytea[], sizes bigint[])
RETURNS TABLE (digest bytea, generation bigint, present boolean)
LANGUAGE sql AS $$
    INSERT INTO headgate.object AS o (store, digest, generation, state, size, touched_at)
    SELECT at_store, t.digest, nextval('headgate.object_generation'), 'staged', t.size, clock_timestamp()
    FROM (SELECT * FROM unnest(digests, sizes) AS u(digest, size) ORDER BY 1) AS t
    ON CONFLICT (store, digest) DO UPDATE SET
        touched_at = clock_timestamp(),
        generation = CASE WHEN o.state = 'condemned' THEN excluded.generation ELSE o.generation END,
        state = CASE WHEN o.state = 'condemned' THEN 'staged' ELSE o.state END
    RETURNING o.digest, o.generation, o.state = 'kept'
$$;

-- name: keep
-- The finalize transaction refers to these objects: they stay. Fewer rows than asked for means that
-- one was condemned since it was staged.
UPDATE headgate.object o SET state = 'kept'
WHERE o.ctid = ANY (ARRAY(
    SELECT x.ctid FROM unnest($2::bytea[], $3::bigint[]) AS t(digest, generation)
    CROSS JOIN LATERAL (
        SELECT y.ctid FROM headgate.object y
        WHERE y.store = $1 AND y.digest = t.digest AND y.generation = t.generation
          AND y.state <> 'condemned'
        OFFSET 0) AS x))
RETURNING o.digest

-- name: condemn
-- Staged by someone who never finished, longer ago than the grace period.
UPDATE headgate.object o SET state = 'condemned'
FROM (SELECT store, digest FROM headgate.object
      WHERE state = 'staged' AND touched_at < clock_timestamp() - make_interval(secs => $1)
      ORDER BY touched_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS t
WHERE o.store = t.store AND o.digest = t.digest
RETURNING o.digest

-- name: condemned
-- Locked while their bytes are deleted: whoever touches one of them waits, then writes anew.
SELECT o.store, o.digest, s.uri
FROM headgate.object o JOIN headgate.store s ON s.id = o.store
WHERE o.state = 'condemned' ORDER BY o.store, o.digest LIMIT $1 FOR UPDATE OF o SKIP LOCKED

-- name: forget
DELETE FROM headgate.object o USING unnest($1::smallint[], $2::bytea[]) AS t(store, digest)
WHERE o.store = t.store AND o.digest = t.digest AND o.state = 'condemned'

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

-- function: keep_result
-- The same as `keep` for the result of an operation, in the transaction that records it.
CREATE OR REPLACE FUNCTION headgate.keep_result(at_store smallint, of bytea, g bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE headgate.object o SET state = 'kept'
    WHERE o.store = at_store AND o.digest = of AND o.generation = g AND o.state <> 'condemned';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the result sha256:% was collected before it could be recorded', encode(of, 'hex')
            USING ERRCODE = 'HG003', HINT = 'Nothing was kept: call the operation again.';
    END IF;
END $$;

-- name: store
-- The number of a store. Looked for first: each INSERT that conflicts would use up one of 32,767.
WITH made AS (
    INSERT INTO headgate.store (uri) SELECT $1
    WHERE NOT EXISTS (SELECT FROM headgate.store s WHERE s.uri = $1)
    ON CONFLICT (uri) DO NOTHING RETURNING id)
SELECT id FROM made UNION ALL SELECT s.id FROM headgate.store s WHERE s.uri = $1

-- name: keep
-- The finalize transaction refers to these objects: they stay. Fewer rows than asked for means that
-- one was condemned since it was staged: its state and generation are asked of the row as it is once
-- it is locked. Several commits may refer to the same bytes, and others announce them meanwhile: all
-- lock them in the order of their digests, and nobody asks for a row by its place, where it no longer
-- is when whoever came first has written it.
UPDATE headgate.object o SET state = 'kept'
WHERE o.store = $1 AND o.digest = ANY (ARRAY(
    SELECT x.digest FROM unnest($2::bytea[], $3::bigint[]) AS t(digest, generation)
    CROSS JOIN LATERAL (
        SELECT y.digest FROM headgate.object y
        WHERE y.store = $1 AND y.digest = t.digest AND y.generation = t.generation
          AND y.state <> 'condemned'
        OFFSET 0 FOR UPDATE) AS x))
RETURNING o.digest

-- name: available
SELECT digest FROM headgate.object
WHERE store = $1 AND digest = ANY ($2::bytea[]) AND state = 'kept'

-- name: hold
-- Announced again, and by that not collected for as long as the retention.
UPDATE headgate.object o SET touched_at = clock_timestamp()
FROM (SELECT store, digest FROM headgate.object
      WHERE store = $1 AND digest = ANY ($2::bytea[]) AND state = 'kept'
      ORDER BY digest FOR UPDATE) AS t
WHERE o.store = t.store AND o.digest = t.digest AND o.state = 'kept'
RETURNING o.digest

-- name: kept
SELECT o.digest FROM headgate.object o
WHERE o.store = $1 AND o.digest = ANY ($2::bytea[]) AND o.state = 'kept'

-- name: collected
-- Of these digests, those that are not in the store because they were collected.
SELECT c.digest, c.at, c.retention FROM headgate.collected c
WHERE c.store = $1 AND c.digest = ANY ($2::bytea[])
  AND NOT EXISTS (SELECT FROM headgate.object o
                  WHERE o.store = c.store AND o.digest = c.digest AND o.state = 'kept')
ORDER BY c.at DESC

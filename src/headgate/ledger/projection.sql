-- name: stores
-- The stores of these pipelines (null: of all) that hold something of a catalogue, with everyone who
-- keeps bytes there and how far the files are. Whoever was catalogued once has left files behind.
SELECT s.id, s.uri, coalesce(x.pos, 0) AS pos, x.moved_at, array_agg(DISTINCT o.id) AS pipelines,
       (SELECT i.layout FROM headgate.identity i) AS layout
FROM headgate.store s
JOIN headgate.pipeline o ON o.store = s.id
LEFT JOIN headgate.projection x ON x.store = s.id
WHERE EXISTS (
    SELECT FROM headgate.pipeline p JOIN headgate.deployment d ON d.pipeline = p.id
    WHERE p.store = s.id AND ($1::text[] IS NULL OR p.name = ANY ($1::text[]))
      AND jsonb_typeof(d.declared -> 'dataset') = 'object')
GROUP BY s.id, s.uri, x.pos, x.moved_at ORDER BY s.id

-- name: layout
SELECT i.layout FROM headgate.identity i

-- name: lay_out
UPDATE headgate.identity SET layout = $1::text[]

-- name: begin_anew
DELETE FROM headgate.projection RETURNING store

-- name: alone
-- Nobody writes or compares files of any store until the transaction ends. No store has the number 0.
SELECT pg_advisory_xact_lock(1751606892, 0)

-- name: hold
-- One projector at a time per store. The lock is all that its transaction has while files are
-- written: no snapshot and no number, so it keeps nobody's dead rows from being tidied away. Where the
-- files of all stores are does not change meanwhile.
SELECT pg_try_advisory_xact_lock_shared(1751606892, 0) AND pg_try_advisory_xact_lock(1751606892, $1)

-- name: wait
SELECT pg_advisory_xact_lock_shared(1751606892, 0), pg_advisory_xact_lock(1751606892, $1)

-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: position
SELECT coalesce((SELECT x.pos FROM headgate.projection x WHERE x.store = $1), 0)

-- name: windows
-- The next commits of these pipelines, and how many lines each has.
SELECT c.pos, c.n FROM headgate.commit c
WHERE c.pos > $1 AND c.pipeline = ANY ($2::smallint[]) AND c.pos <= $3 ORDER BY c.pos LIMIT $4

-- name: last
SELECT coalesce(max(c.pos), 0) FROM headgate.commit c

-- name: move
-- Only forward. The files up to there are durable.
INSERT INTO headgate.projection AS x (store, pos) VALUES ($1, $2)
ON CONFLICT (store) DO UPDATE SET pos = excluded.pos, moved_at = clock_timestamp()
WHERE x.pos < excluded.pos

-- name: behind
-- What is not in the files yet: lines of the journal, and since when the first of them waits.
SELECT coalesce(sum(c.n), 0)::bigint AS lines,
       coalesce(extract(epoch FROM clock_timestamp() - min(c.at)), 0)::float8 AS seconds
FROM headgate.commit c WHERE c.pos > $1 AND c.pipeline = ANY ($2::smallint[])

-- name: heads
-- The publications that form these items now, among what is in one store. The sum keeps the index on
-- pipelines out of it: on a table that was never analyzed the planner takes it for as good as the
-- names, and walks all items of a pipeline for each one.
SELECT i.collection, i.item, i.entry
FROM unnest($1::text[], $2::text[]) AS t(collection, item)
CROSS JOIN LATERAL (
    SELECT i.collection, i.item, i.entry FROM headgate.item i
    WHERE i.collection = t.collection AND i.item = t.item AND i.pipeline + 0 = ANY ($3::int[])
    OFFSET 0) i

-- name: chain
-- What these publications replaced, all the way back or so many steps; the newest first.
WITH RECURSIVE back AS (
    SELECT u.entry AS head, u.predecessor AS entry, 1 AS step FROM headgate.publication u
    WHERE u.entry = ANY ($1::bigint[]) AND u.predecessor IS NOT NULL
    UNION ALL
    SELECT b.head, u.predecessor, b.step + 1 FROM back b JOIN headgate.publication u ON u.entry = b.entry
    WHERE u.predecessor IS NOT NULL AND b.step < coalesce($2, 2147483647))
SELECT head, entry FROM back ORDER BY head, step

-- name: datasets
-- What the pipelines of a store say about their datasets, each as it was declared last.
SELECT DISTINCT ON (d.pipeline) d.id, d.declared ->> 'collection' AS collection,
       (d.declared -> 'dataset')::text AS dataset
FROM headgate.deployment d
WHERE d.pipeline = ANY ($1::smallint[]) AND jsonb_typeof(d.declared -> 'dataset') = 'object'
ORDER BY d.pipeline, d.registered_at DESC, d.id DESC

-- name: collections
-- Which collections have items in a store, and of whom: a look into the index for each of them.
WITH RECURSIVE named AS (
    (SELECT i.collection FROM headgate.item i ORDER BY i.collection LIMIT 1)
    UNION ALL
    SELECT (SELECT i.collection FROM headgate.item i WHERE i.collection > n.collection
            ORDER BY i.collection LIMIT 1)
    FROM named n WHERE n.collection IS NOT NULL)
SELECT n.collection, x.deployment FROM named n
CROSS JOIN LATERAL (
    SELECT max(d.id) AS deployment FROM headgate.item i JOIN headgate.deployment d ON d.pipeline = i.pipeline
    WHERE i.collection = n.collection AND i.entry = (
        SELECT o.entry FROM headgate.item o
        WHERE o.collection = n.collection AND o.pipeline = ANY ($1::smallint[])
        ORDER BY o.item, o.entry LIMIT 1)) x
WHERE n.collection IS NOT NULL AND x.deployment IS NOT NULL

-- name: extent
-- Where and when the items of a collection are, and how many objects form them.
SELECT min(i.starts) AS starts, max(i.ends) AS ends,
       min((i.bbox[1])[0]) AS west, min((i.bbox[1])[1]) AS south,
       max((i.bbox[0])[0]) AS east, max((i.bbox[0])[1]) AS north, count(*) AS objects
FROM headgate.item i WHERE i.collection = $1 AND i.pipeline = ANY ($2::smallint[])

-- name: shards
-- Which shards of a collection have items: 256 looks into the index.
SELECT s.shard FROM generate_series(0, 255) AS s(shard)
WHERE EXISTS (
    SELECT FROM headgate.item i
    WHERE i.collection = $1 AND headgate.shard(i.item) = s.shard AND i.pipeline = ANY ($2::smallint[]))

-- name: members
-- The items in some shards of a collection.
SELECT DISTINCT headgate.shard(i.item) AS shard, i.item FROM headgate.item i
WHERE i.collection = $1 AND headgate.shard(i.item) = ANY ($2::int[]) AND i.pipeline = ANY ($3::smallint[])

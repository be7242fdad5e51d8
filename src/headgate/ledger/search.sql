-- Search over items. Everything a response says is read in one snapshot: `snapshot` comes first.
--
-- Pages follow the order of (collection, item), which no new version changes: what has been passed
-- is never shown again, and what is added later has a place of its own. There are two ways to a page.
-- `search_few` gathers what matches, by place or by time, and sorts it; it gives up when there is too
-- much. Then what matches is dense, and `search_walk` finds it soon by walking in order. Whose items a
-- reader may see is asked of each row (array_position): no index of that would narrow a search.

-- name: snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: pipelines
-- Every pipeline with what it declared last. An older deployment that was brought back counts anew.
SELECT p.id, p.name, d.declared ->> 'dataset' AS dataset
FROM headgate.pipeline p
CROSS JOIN LATERAL (
    SELECT d.declared FROM headgate.deployment d WHERE d.pipeline = p.id
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) d
ORDER BY p.id

-- name: collections
SELECT collection, pipeline FROM headgate.collections_of($1::smallint[])

-- name: extents
-- Where and when the items of these collections are.
SELECT i.collection, min(i.starts) AS starts, max(i.ends) AS ends,
       min((i.bbox[1])[0]) AS west, min((i.bbox[1])[1]) AS south,
       max((i.bbox[0])[0]) AS east, max((i.bbox[0])[1]) AS north
FROM headgate.item i
WHERE i.collection = ANY ($1::text[]) AND i.pipeline = ANY ($2::smallint[])
GROUP BY i.collection

-- name: parts
-- The publications that form an item now.
SELECT i.entry FROM headgate.item i
WHERE i.collection = $1 AND i.item = $2 AND array_position($3::smallint[], i.pipeline) IS NOT NULL
ORDER BY i.entry

-- name: older
-- The publication that was version $2 of what entry $1 is the head of, and which one readers saw next.
WITH RECURSIVE back AS (
    SELECT u.entry, u.predecessor, u.version, u.removed
    FROM headgate.publication u WHERE u.entry = $1
    UNION ALL
    SELECT u.entry, u.predecessor, u.version, u.removed
    FROM back b JOIN headgate.publication u ON u.entry = b.predecessor WHERE b.version > $2)
SELECT o.entry, (
    SELECT min(b.version) FROM back b
    WHERE b.version > $2 AND NOT b.removed AND b.entry <> $1) AS successor
FROM back o WHERE o.version = $2 AND o.entry <> $1

-- name: owner
-- Whose publication it is.
SELECT u.pipeline FROM headgate.publication u WHERE u.entry = $1

-- name: few
SELECT collection, item, entries, many FROM headgate.search_few(
    $1::smallint[], $2::text[], $3::text[], $4::timestamptz, $5::timestamptz, $6::box, $7::box,
    $8::text, $9::text, $10::int, $11::int)

-- name: walk
SELECT collection, item, entries FROM headgate.search_walk(
    $1::smallint[], $2::text[], $3::text[], $4::timestamptz, $5::timestamptz, $6::box, $7::box,
    $8::text, $9::text, $10::int)

-- function: collections_of
-- Which collections have items of these pipelines: a look into the index for each, however many items.
CREATE OR REPLACE FUNCTION headgate.collections_of(whose smallint[])
RETURNS TABLE (collection text, pipeline smallint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY WITH RECURSIVE named AS (
        SELECT w.pipeline, (
            SELECT i.collection FROM headgate.item i WHERE i.pipeline = w.pipeline
            ORDER BY i.collection LIMIT 1) AS collection
        FROM unnest(whose) AS w(pipeline)
        UNION ALL
        SELECT n.pipeline, (
            SELECT i.collection FROM headgate.item i
            WHERE i.pipeline = n.pipeline AND i.collection > n.collection
            ORDER BY i.collection LIMIT 1)
        FROM named n WHERE n.collection IS NOT NULL)
    SELECT n.collection, min(n.pipeline) FROM named n
    WHERE n.collection IS NOT NULL GROUP BY n.collection;
END $$ SET enable_seqscan = off SET enable_bitmapscan = off;

-- function: search_few
-- The first `most` items that match, if `enough` rows at most do. Each question is planned for itself:
-- what is not asked for falls away, and the planner picks the index of what is rare. A bitmap would
-- first gather all that an index has; a plain scan stops when there is enough.
CREATE OR REPLACE FUNCTION headgate.search_few(
    whose smallint[], within text[], named text[], since timestamptz, until timestamptz, here box,
    there box, after_collection text, after_item text, most int, enough int)
RETURNS TABLE (collection text, item text, entries bigint[], many boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    span tstzrange := CASE WHEN coalesce(since, until) IS NOT NULL THEN tstzrange(since, until, '[]') END;
BEGIN
    RETURN QUERY WITH found AS MATERIALIZED (
        SELECT i.collection, i.item FROM headgate.item i
        WHERE array_position(whose, i.pipeline) IS NOT NULL
          AND (within IS NULL OR i.collection = ANY (within))
          AND (named IS NULL OR i.item = ANY (named))
          AND (span IS NULL OR tstzrange(i.starts, i.ends, '[]') && span)
          AND (here IS NULL OR i.bbox && here)
          AND (after_collection IS NULL OR (i.collection, i.item) > (after_collection, after_item))
        UNION ALL
        SELECT i.collection, i.item FROM headgate.item i
        WHERE here IS NOT NULL AND i.bbox && there
          AND array_position(whose, i.pipeline) IS NOT NULL
          AND (within IS NULL OR i.collection = ANY (within))
          AND (named IS NULL OR i.item = ANY (named))
          AND (span IS NULL OR tstzrange(i.starts, i.ends, '[]') && span)
          AND (after_collection IS NULL OR (i.collection, i.item) > (after_collection, after_item))
        LIMIT enough + 1),
    first AS (
        SELECT DISTINCT f.collection, f.item FROM found f ORDER BY f.collection, f.item LIMIT most)
    SELECT f.collection, f.item, ARRAY(
               SELECT p.entry FROM headgate.item p
               WHERE p.collection = f.collection AND p.item = f.item AND array_position(whose, p.pipeline) IS NOT NULL
               ORDER BY p.entry),
           (SELECT count(*) > enough FROM found)
    FROM first f ORDER BY f.collection, f.item;
END $$ SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off;

-- function: search_walk
-- The same by walking from one item to the next, which needs no end to begin with.
CREATE OR REPLACE FUNCTION headgate.search_walk(
    whose smallint[], within text[], named text[], since timestamptz, until timestamptz, here box,
    there box, after_collection text, after_item text, most int)
RETURNS TABLE (collection text, item text, entries bigint[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    span tstzrange := CASE WHEN coalesce(since, until) IS NOT NULL THEN tstzrange(since, until, '[]') END;
BEGIN
    RETURN QUERY WITH first AS MATERIALIZED (
        SELECT i.collection, i.item FROM headgate.item i
        WHERE array_position(whose, i.pipeline) IS NOT NULL
          AND (within IS NULL OR i.collection = ANY (within))
          AND (named IS NULL OR i.item = ANY (named))
          AND (span IS NULL OR tstzrange(i.starts, i.ends, '[]') && span)
          AND (here IS NULL OR i.bbox && here OR i.bbox && there)
          AND (after_collection IS NULL OR (i.collection, i.item) > (after_collection, after_item))
        GROUP BY i.collection, i.item ORDER BY i.collection, i.item LIMIT most)
    SELECT f.collection, f.item, ARRAY(
               SELECT p.entry FROM headgate.item p
               WHERE p.collection = f.collection AND p.item = f.item AND array_position(whose, p.pipeline) IS NOT NULL
               ORDER BY p.entry)
    FROM first f;
END $$ SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off
   SET enable_sort = off SET enable_incremental_sort = off SET enable_hashagg = off;

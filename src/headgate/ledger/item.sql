-- name: publish
-- The items that a search will find: one row per head. `publish` in publication.sql takes away those
-- of their predecessors, under the lock on the head.
INSERT INTO headgate.item (entry, pipeline, collection, item, starts, ends, bbox, retired)
SELECT t.entry, $1, t.collection, t.item, t.starts, t.ends, t.bbox, t.retired
FROM unnest(
    $2::bigint[], headgate.spread($3::text[], cardinality($2::bigint[])), $4::text[],
    $5::timestamptz[], $6::timestamptz[], $7::box[],
    headgate.spread($8::bool[], cardinality($2::bigint[])))
    AS t(entry, collection, item, starts, ends, bbox, retired)

-- name: said
-- What was said when these entries were published.
SELECT j.entry, j.doc FROM headgate.journal j
WHERE j.entry = ANY ($1::bigint[]) AND j.outcome = 'finalized'

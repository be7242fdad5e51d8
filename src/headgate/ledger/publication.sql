-- function: publish
-- Make N publications the heads of their uris, each only if the head is still the one it was
-- derived from. Answers those that could not move their predecessor: they lost a race and have to
-- be derived again. A first version that finds a head after all fails on the unique index
-- `publication_head`; that is rare, and looking first would cost every insert.
-- Uris arrive sorted: two committers lock heads in the same order. `contents` and `effects` are
-- digests of 32 bytes each, one after the other.
CREATE OR REPLACE FUNCTION headgate.publish(
    p smallint, deployed int, entries bigint[], uris text[], versions int[], predecessors bigint[],
    gone boolean[], contents bytea, effects bytea, named text[], moves boolean) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    many int := cardinality(entries);
    lost bigint[] := '{}';
BEGIN
    predecessors := headgate.spread(predecessors, many);
    IF moves THEN
        PERFORM FROM headgate.publication o
        WHERE o.entry = ANY (predecessors) ORDER BY o.uri FOR UPDATE;
        WITH found AS MATERIALIZED (
            SELECT t.entry, o.ctid AS place FROM unnest(entries, predecessors) AS t(entry, predecessor)
            CROSS JOIN LATERAL (
                SELECT x.ctid FROM headgate.publication x
                WHERE x.entry = t.predecessor AND x.successor IS NULL OFFSET 0) AS o),
        moved AS (
            UPDATE headgate.publication o SET successor = f.entry
            FROM found f WHERE o.ctid = f.place
            RETURNING o.entry)
        SELECT coalesce(array_agg(t.entry), '{}') INTO lost
        FROM unnest(entries, predecessors) AS t(entry, predecessor)
        WHERE t.predecessor IS NOT NULL AND NOT EXISTS (SELECT FROM moved m WHERE m.entry = t.predecessor);
        IF cardinality(lost) > 0 THEN
            RETURN lost;
        END IF;
        -- Items are of heads only, also where the pipeline has stopped being catalogued since.
        DELETE FROM headgate.item i WHERE i.entry = ANY (predecessors);
    END IF;
    INSERT INTO headgate.publication
        (entry, pipeline, deployment, uri, version, predecessor, removed, content, effect, artifacts)
    SELECT t.entry, p, deployed, t.uri, t.version, t.predecessor, t.removed,
           substring(contents, 32 * t.n - 31, 32), substring(effects, 32 * t.n - 31, 32), t.artifacts::jsonb
    FROM (SELECT generate_series(1, many) AS n, unnest(entries) AS entry, unnest(uris) AS uri,
                 unnest(headgate.spread(versions, many)) AS version,
                 unnest(predecessors) AS predecessor, unnest(headgate.spread(gone, many)) AS removed,
                 unnest(headgate.spread(named, many)) AS artifacts) AS t;
    RETURN lost;
END $$ SET enable_seqscan = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan;

-- name: see
-- These changes brought the same bytes: the head has seen them.
UPDATE headgate.publication o SET seen = $2 WHERE o.entry = $1 AND o.successor IS NULL

-- name: stand
-- A replay is no newer than what it replays: what came between them is not stale by it.
UPDATE headgate.publication n SET seen = coalesce(o.seen, o.entry)
FROM unnest($1::bigint[]) AS t(entry)
CROSS JOIN LATERAL (SELECT x.predecessor FROM headgate.publication x WHERE x.entry = t.entry OFFSET 0) AS x
CROSS JOIN LATERAL (
    SELECT y.entry, y.seen FROM headgate.publication y WHERE y.entry = x.predecessor OFFSET 0) AS o
WHERE n.entry = t.entry

-- name: taken
-- Which of these uris have a head, whatever a claim saw.
SELECT uri FROM headgate.publication
WHERE pipeline = $1 AND uri = ANY ($2::text[]) AND successor IS NULL

-- name: object
-- The change that brought a publication's object, as it was received.
SELECT e.envelope AS document, e.uri, e.event_time, e.received_at, e.sequence, e.key, e.data
FROM headgate.entry e WHERE e.id = $1

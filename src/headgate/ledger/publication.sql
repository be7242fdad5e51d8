-- function: publish
-- Make N publications the heads of their uris, each only if the head is still the one it was
-- derived from. Answers those that made it; the others lost a race and have to be derived again.
-- Uris arrive sorted: two committers lock heads in the same order.
CREATE OR REPLACE FUNCTION headgate.publish(
    p smallint, deployed int, entries bigint[], uris text[], versions int[], predecessors bigint[],
    gone boolean[], times timestamptz[], sequences text[], contents bytea[], effects bytea[],
    named text[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    made bigint[];
BEGIN
    IF EXISTS (SELECT FROM unnest(predecessors) AS t(id) WHERE t.id IS NOT NULL) THEN
        PERFORM FROM headgate.publication o
        WHERE o.entry = ANY (predecessors) ORDER BY o.uri FOR UPDATE;
        UPDATE headgate.publication o SET successor = t.entry
        FROM unnest(entries, predecessors) AS t(entry, predecessor)
        WHERE o.entry = t.predecessor AND o.successor IS NULL;
    END IF;
    WITH made_now AS (
        INSERT INTO headgate.publication
            (entry, pipeline, deployment, uri, version, predecessor, removed, event_time, sequence,
             content, effect, artifacts)
        SELECT t.entry, p, deployed, t.uri, t.version, t.predecessor, t.removed, t.event_time,
               t.sequence, t.content, t.effect, t.artifacts::jsonb
        FROM unnest(entries, uris, versions, predecessors, gone, times, sequences, contents, effects, named)
            AS t(entry, uri, version, predecessor, removed, event_time, sequence, content, effect, artifacts)
        WHERE t.predecessor IS NULL OR EXISTS (
            SELECT FROM headgate.publication o WHERE o.entry = t.predecessor AND o.successor = t.entry)
        ON CONFLICT (pipeline, uri) WHERE successor IS NULL DO NOTHING
        RETURNING entry)
    SELECT coalesce(array_agg(m.entry), '{}') INTO made FROM made_now m;
    RETURN made;
END $$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off;

-- name: head_of
SELECT * FROM headgate.publication WHERE pipeline = $1 AND uri = $2 AND successor IS NULL

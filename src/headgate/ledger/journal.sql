-- function: seal
-- Write the attempts of one transaction and give it its place in the order of all of them.
-- It is the last thing before COMMIT: the lock is held for that long and no longer. Under it no
-- other batch can get a position, so positions have no gaps and rise in the order of commits:
-- a reader who follows `pos` never has to wait for anyone's snapshot.
-- `raced` is what `publish` answered: when somebody lost a race, nothing is written.
-- `hashes` are those of the lines, 16 bytes each; together they make the digest of the batch.
CREATE OR REPLACE FUNCTION headgate.seal(
    entries bigint[], fences int[], outcomes text[], tries smallint[], w int[],
    reasons text[], paths text[], docs bytea[], hashes bytea, raced bigint[],
    p smallint, OUT batch bigint, OUT pos bigint, OUT xid bigint)
LANGUAGE plpgsql AS $$
DECLARE
    many       int := cardinality(entries);
    last_pos   bigint;
    last_chain bytea;
BEGIN
    IF cardinality(raced) > 0 THEN
        RETURN;
    END IF;
    batch := nextval('headgate.batch');
    INSERT INTO headgate.journal (batch, n, entry, fence, outcome, attempt, worker, at, reason, steps, doc, hash)
    SELECT seal.batch, t.n, t.entry, t.fence, t.outcome::headgate.status, t.attempt, t.worker,
           clock_timestamp(), t.reason, t.steps, t.doc, substring(hashes, 16 * t.n - 15, 16)
    FROM (SELECT generate_series(1, many) AS n, unnest(entries) AS entry,
                 unnest(headgate.spread(fences, many)) AS fence,
                 unnest(headgate.spread(outcomes, many)) AS outcome,
                 unnest(headgate.spread(tries, many)) AS attempt,
                 unnest(headgate.spread(w, many)) AS worker,
                 unnest(headgate.spread(reasons, many)) AS reason,
                 unnest(headgate.spread(paths, many)) AS steps,
                 unnest(headgate.spread(docs, many)) AS doc) AS t;

    PERFORM pg_advisory_xact_lock(1751606888, 0);
    SELECT c.pos, c.chain INTO last_pos, last_chain FROM headgate.commit c ORDER BY c.pos DESC LIMIT 1;
    pos := coalesce(last_pos, 0) + 1;
    xid := pg_current_xact_id()::text::bigint;
    INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)
    VALUES (seal.pos, seal.batch, cardinality(entries), clock_timestamp(),
            sha256(coalesce(last_chain, ''::bytea) || sha256(hashes)), p);
END $$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;

-- function: seal_lone
-- The fence check, the publication, the journal line and the commit row of a lone entry: what `leave`,
-- `publish` and `seal` do for many. Most changes of a quiet hour come alone, and what is made for sets
-- takes longer than all the writing. It has no partition with a limit.
-- The fence is checked after the rows: whoever lost it wrote rows that nobody will see. It could wait for
-- one who settles the same entry in a batch and waits for its rows; Postgres ends that, and the one it
-- chose runs again.
CREATE OR REPLACE FUNCTION headgate.seal_lone(
    p smallint, told bigint, held int, outcome text, try smallint, w int, why text, path text, said bytea,
    line bytea, deployed int, shown text, v int, before bigint, gone boolean, bytes bytea, done bytea, named text,
    OUT raced bigint[], OUT batch bigint, OUT xid bigint)
LANGUAGE plpgsql AS $$
DECLARE
    last_pos   bigint;
    last_chain bytea;
BEGIN
    DELETE FROM headgate.work g WHERE g.pipeline = p AND g.id = told AND g.worker = w AND g.fence = held;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % has lost entries', w USING ERRCODE = 'HG002', DETAIL = told::text;
    END IF;
    IF before IS NULL THEN
        raced := '{}';
        INSERT INTO headgate.publication (entry, pipeline, deployment, uri, version, removed, content, effect, artifacts)
        VALUES (told, p, deployed, shown, v, gone, bytes, done, named::jsonb);
    ELSE
        raced := headgate.publish(p, deployed, ARRAY[told], ARRAY[shown], ARRAY[v], ARRAY[before], ARRAY[gone],
                                  bytes, done, ARRAY[named], true);
        IF cardinality(raced) > 0 THEN
            RETURN;
        END IF;
    END IF;
    batch := nextval('headgate.batch');
    INSERT INTO headgate.journal (batch, n, entry, fence, outcome, attempt, worker, at, reason, steps, doc, hash)
    VALUES (seal_lone.batch, 1, told, held, outcome::headgate.status, try, w, clock_timestamp(), why, path, said, line);
    PERFORM pg_advisory_xact_lock(1751606888, 0);
    SELECT c.pos, c.chain INTO last_pos, last_chain FROM headgate.commit c ORDER BY c.pos DESC LIMIT 1;
    xid := pg_current_xact_id()::text::bigint;
    INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)
    VALUES (coalesce(last_pos, 0) + 1, seal_lone.batch, 1, clock_timestamp(),
            sha256(coalesce(last_chain, ''::bytea) || sha256(line)), p);
END $$ SET enable_seqscan = off SET plan_cache_mode = force_generic_plan;

-- name: head
SELECT pos, chain FROM headgate.commit ORDER BY pos DESC LIMIT 1

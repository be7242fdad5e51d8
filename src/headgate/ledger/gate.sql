-- The planner believes what the last ANALYZE saw, and here a table that was empty then may hold a
-- million rows now. LATERAL with OFFSET 0 leaves it one way to join: look up, row by row.

-- function: claim
-- Take work that is ready: never started, or its retry is due. Oldest first, one claimed entry per
-- subject, never more than asked for.
--
-- Claims of one pipeline pass one after the other. Without that, two claimers could each take an
-- entry of the same subject, neither seeing the other's uncommitted claim; and a claim is one short
-- statement for up to a thousand entries, so the queue in front of the lock is short too.
-- Statements in here see what was committed before the lock was granted.
--
-- A subject is a hash that the pipeline seeds, so rows of another pipeline never match; naming the
-- pipeline as well would make the primary key look useful to the planner, and it would walk the
-- whole queue for each candidate.
--
-- Rows of work that were never started are changed by nobody but a claim, so they need no lock of
-- their own; one that changed all the same has another place by then, and is not taken.
--
-- `first_at` is null for what is claimed for the first time, `claimed` is the time of this claim.
-- The times of the entry are answered as they are sent (pg/instant.py): few are ever looked at.
-- `floor_id` is a hint that saves walking over rows already finished but not yet vacuumed away.
-- `idle` says that the worker holds nothing: only then may it take an entry that must run alone,
-- and then it takes nothing else.
CREATE OR REPLACE FUNCTION headgate.claim(
    p smallint, w int, n int, floor_id bigint, idle boolean)
RETURNS TABLE (
    id bigint, fence int, attempts smallint, deaths smallint, alone boolean, subject bigint,
    first_at timestamptz, claimed float8, waited boolean, upstream bigint,
    key bytea, uri text, event_at bytea, received bytea, removed boolean,
    sequence text, envelope bytea, data bytea, reverts bigint, replays bigint, part bigint, superseded boolean,
    head bigint, head_version int, head_removed boolean, head_content bytea, head_effect bytea,
    head_sequence text, head_event_time timestamptz, head_seen bigint, head_artifacts text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_at timestamptz;
    due    tid[] := '{}';
    fresh  tid[];
    single boolean := false;
    waits  boolean;
    held   record;
    tokens float8;
    epoch  float8;
BEGIN
    PERFORM pg_advisory_xact_lock(1751606887, p);
    -- A claim need not survive a crash of the server by itself: settling flushes it along, and
    -- until then a lost claim is one that nobody made. Whoever held it finds no row to delete.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- now() is the start of the transaction, before we waited for the lock. A lease decided by it
    -- could be granted on a row that another worker released meanwhile.
    now_at := clock_timestamp();
    epoch := extract(epoch FROM now_at);
    -- Shared, so that whoever buries this worker waits for us and then finds what we took.
    PERFORM FROM headgate.worker k
    WHERE k.id = w AND k.buried_at IS NULL AND k.alive_until > now_at FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % holds no lease', w USING ERRCODE = 'HG001';
    END IF;

    SELECT l.per_partition, l.coalesce_seconds, l.retries_per_second INTO held
    FROM headgate.pipeline l WHERE l.id = p;
    -- Most claims find nothing that waited: one look instead of four.
    waits := EXISTS (SELECT FROM headgate.work o
                     WHERE o.pipeline = p AND o.due_at <= now_at AND o.upstream IS NULL)
          OR EXISTS (SELECT FROM headgate.work o WHERE o.upstream IS NOT NULL);

    IF waits AND idle THEN
        due := ARRAY(
            SELECT o.ctid FROM headgate.work o
            WHERE o.pipeline = p AND o.due_at <= now_at AND o.worker IS NULL AND o.alone
              AND o.upstream IS NULL
              AND (held.per_partition IS NULL OR o.part IS NULL OR held.per_partition > coalesce((
                SELECT x.busy FROM headgate.part x WHERE x.pipeline = p AND x.part = o.part), 0))
              AND NOT EXISTS (
                SELECT FROM headgate.work b
                WHERE b.subject = o.subject AND b.id <> o.id
                  AND (b.worker IS NOT NULL OR (b.id < o.id AND coalesce(b.due_at, now_at) <= now_at)))
            ORDER BY o.due_at LIMIT 1 FOR UPDATE SKIP LOCKED);
        single := cardinality(due) > 0;
    END IF;
    IF waits AND NOT single THEN
        tokens := headgate.retry_tokens(p, held.retries_per_second, now_at);
        -- Retries take at most half, so that they cannot starve what is new, and no more than
        -- their rate allows, so that ten thousand failures do not come back all at once.
        due := ARRAY(
            SELECT o.ctid FROM headgate.work o
            WHERE o.pipeline = p AND o.due_at <= now_at AND o.worker IS NULL AND NOT o.alone
              AND o.upstream IS NULL
              AND NOT EXISTS (
                SELECT FROM headgate.work b
                WHERE b.subject = o.subject AND b.id <> o.id
                  AND (b.worker IS NOT NULL OR (b.id < o.id AND coalesce(b.due_at, now_at) <= now_at)))
            ORDER BY o.due_at LIMIT least(greatest(n / 2, 1), floor(tokens)::int)
            FOR UPDATE SKIP LOCKED);
        IF cardinality(due) > 0 THEN
            PERFORM headgate.spend_retries(p, tokens - cardinality(due), now_at);
        END IF;
        -- While something is down, one entry at a time goes and looks. From upstream to upstream:
        -- thousands may wait for each.
        due := due || ARRAY(
            WITH RECURSIVE walk AS (
                (SELECT u.upstream FROM headgate.work u WHERE u.upstream IS NOT NULL
                 ORDER BY u.upstream LIMIT 1)
                UNION ALL
                SELECT (SELECT u.upstream FROM headgate.work u WHERE u.upstream > w.upstream
                        ORDER BY u.upstream LIMIT 1)
                FROM walk w WHERE w.upstream IS NOT NULL)
            SELECT c.at FROM walk w CROSS JOIN LATERAL (
                SELECT o.ctid AS at FROM headgate.work o
                WHERE o.upstream = w.upstream AND o.due_at <= now_at AND o.pipeline = p
                  AND o.worker IS NULL AND headgate.is_first(o.subject, o.id, now_at)
                ORDER BY o.due_at LIMIT 1 FOR UPDATE SKIP LOCKED) c
            WHERE NOT EXISTS (
                SELECT FROM headgate.work c
                WHERE c.upstream = w.upstream AND c.due_at <= now_at AND c.worker IS NOT NULL)
            LIMIT greatest(n - cardinality(due), 0));
    END IF;
    IF NOT single THEN
        IF held.per_partition IS NULL AND held.coalesce_seconds IS NULL THEN
          fresh := ARRAY(
            SELECT o.ctid FROM headgate.work o
            WHERE o.pipeline = p AND o.id >= floor_id AND o.worker IS NULL AND o.due_at IS NULL
              AND NOT EXISTS (
                SELECT FROM headgate.work b
                WHERE b.subject = o.subject AND b.id <> o.id
                  AND (b.worker IS NOT NULL OR (b.id < o.id AND coalesce(b.due_at, now_at) <= now_at)))
            ORDER BY o.pipeline, o.id LIMIT greatest(n - cardinality(due), 0));
        ELSE
          fresh := headgate.held_back(
            p, greatest(n - cardinality(due), 0), held.per_partition, held.coalesce_seconds, now_at);
        END IF;
    END IF;
    -- Where a limit was lifted, what is still counted is counted on.
    IF held.per_partition IS NOT NULL
       OR EXISTS (SELECT FROM headgate.part x WHERE x.pipeline = p) THEN
        due := headgate.within_partitions(p, due || fresh, coalesce(held.per_partition, 2147483647));
        fresh := '{}';
    END IF;

    RETURN QUERY
    WITH taken AS (
        UPDATE headgate.work o SET
            worker = w, fence = o.fence + 1, attempts = o.attempts + 1,
            first_at = coalesce(o.first_at, now_at)
        WHERE o.ctid = ANY (due || fresh) AND o.worker IS NULL
        RETURNING o.*)
    SELECT t.id, t.fence, t.attempts, t.deaths, t.alone, t.subject,
           nullif(t.first_at, now_at), epoch, t.due_at IS NOT NULL, t.upstream,
           e.key, e.uri, timestamptz_send(e.event_time), timestamptz_send(e.received_at), e.removed,
           e.sequence, e.envelope, e.data, e.reverts, e.replays, t.part,
           held.coalesce_seconds IS NOT NULL AND t.attempts = 1 AND t.due_at IS NULL
               AND headgate.superseded(t.subject, e.id, e.uri, e.sequence,
                   headgate.stood_at(e.sequence, e.event_time, e.received_at)),
           h.entry, h.version, h.removed, h.content, h.effect, h.sequence, h.event_time, h.id,
           -- Only who takes an object away has to say what stays readable of it.
           CASE WHEN e.removed THEN h.artifacts::text END
    FROM taken t
    CROSS JOIN LATERAL (
        SELECT * FROM headgate.entry o WHERE o.id = t.id OFFSET 0) AS e
    LEFT JOIN LATERAL (
        SELECT o.entry, o.version, o.removed, o.content, o.effect, o.artifacts, x.sequence, x.event_time, x.id
        FROM headgate.publication o CROSS JOIN LATERAL (
            SELECT y.id, y.sequence, headgate.stood_at(y.sequence, y.event_time, y.received_at) AS event_time
            FROM headgate.entry y WHERE y.id = coalesce(o.seen, o.entry) OFFSET 0) AS x
        WHERE o.pipeline = p AND o.uri = e.uri AND o.successor IS NULL OFFSET 0) AS h ON true
    ORDER BY t.id;
END $$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
       SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan;

-- function: leave
-- The fence check. What is deleted here was still held by this worker under this fence. If any of it
-- was taken over by someone else, nothing may be kept: it raises, and the detail names what is lost.
-- So nobody has to wait for its answer, and it can travel with BEGIN.
-- IS TRUE keeps the fences in a hash table; as a join they would be looked through row by row.
CREATE OR REPLACE FUNCTION headgate.leave(
    p smallint, w int, ids bigint[], fences int[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    held  bigint[];
    parts bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM headgate.work g
        WHERE g.pipeline = p AND g.id = ANY (ids) AND g.worker = w AND ((g.id, g.fence) IN (
            SELECT unnest(ids), unnest(headgate.spread(fences, cardinality(ids))))) IS TRUE
        RETURNING g.id, g.part)
    SELECT array_agg(g.id), array_agg(g.part) FILTER (WHERE g.part IS NOT NULL)
    INTO held, parts FROM gone g;
    IF cardinality(held) IS DISTINCT FROM cardinality(ids) THEN
        RAISE EXCEPTION 'worker % has lost entries', w USING ERRCODE = 'HG002', DETAIL =
            array_to_string(ARRAY(SELECT unnest(ids) EXCEPT SELECT unnest(held)), ' ');
    END IF;
    IF parts IS NOT NULL THEN
        PERFORM FROM headgate.part b WHERE b.pipeline = p AND b.part = ANY (parts)
        ORDER BY b.part FOR UPDATE;
        -- Not below zero: what was claimed while there was no limit was never counted in.
        UPDATE headgate.part b SET busy = greatest(b.busy - c.n, 0)
        FROM (SELECT t.part, count(*) AS n FROM unnest(parts) AS t(part) GROUP BY t.part) c
        WHERE b.pipeline = p AND b.part = c.part;
    END IF;
END $$ SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
       SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan;

-- function: stay
-- Live work again, after a failed or returned attempt. `due` is null for what never waited.
CREATE OR REPLACE FUNCTION headgate.stay(
    p smallint, ids bigint[], subjects bigint[], fences int[], tries smallint[], died smallint[],
    solo boolean[], due timestamptz[], firsts timestamptz[], ups bigint[], parts bigint[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO headgate.work (pipeline, id, subject, fence, attempts, deaths, alone, due_at, first_at, upstream, part)
    SELECT p, t.* FROM unnest(ids, subjects, fences, tries, died, solo, due, firsts, ups, parts) AS t
$$;

-- name: held
-- Everything a worker holds, locked. Work is small, so no index is kept for this rare question.
SELECT o.pipeline, o.id, o.subject, o.fence, o.attempts, o.deaths, o.alone, o.due_at, o.first_at,
       o.upstream, o.part, (
           SELECT coalesce(convert_from(e.envelope, 'UTF8')::jsonb ->> 'detector', 'event')
           FROM headgate.entry e WHERE e.id = o.id) AS detector
FROM headgate.work o WHERE o.worker = $1 ORDER BY o.pipeline, o.id FOR UPDATE

-- name: alone_is_due
SELECT EXISTS (
    SELECT FROM headgate.work o
    WHERE o.pipeline = $1 AND o.due_at <= clock_timestamp() AND o.worker IS NULL AND o.alone
      AND o.upstream IS NULL)

-- name: upstream_is_back
UPDATE headgate.work SET upstream = NULL, due_at = least(due_at, clock_timestamp())
WHERE upstream = $1 AND pipeline = $2 AND worker IS NULL

-- name: resting
-- What is left to do: ready now, held by someone, due within $1 seconds, due later.
SELECT p.name AS pipeline,
       count(*) FILTER (WHERE o.worker IS NULL AND coalesce(o.due_at, '-infinity') <= clock_timestamp()) AS ready,
       count(*) FILTER (WHERE o.worker IS NOT NULL) AS leased,
       count(*) FILTER (WHERE o.worker IS NULL AND o.due_at > clock_timestamp()
                          AND o.due_at <= clock_timestamp() + make_interval(secs => $1)) AS soon,
       count(*) FILTER (WHERE o.worker IS NULL AND o.due_at > clock_timestamp() + make_interval(secs => $1)) AS later,
       min(o.due_at) FILTER (WHERE o.worker IS NULL) AS next_due
FROM headgate.work o JOIN headgate.pipeline p ON p.id = o.pipeline
GROUP BY p.name ORDER BY p.name

-- Operations: one caller at a time works on a key, and a finished one never runs again.
--
-- A caller takes the key, works, and ends it. What it is allowed to change is decided by its token: each
-- take writes a new one and raises the fence, so a caller that slept through its lease changes nothing.
-- The numbers alone would not do: a lease is committed without waiting for the disk, and after a crash of
-- the server the same number can be given out again.

-- function: operation_line
-- Append one line to the journal of an operation, chained to the one before.
CREATE OR REPLACE FUNCTION headgate.operation_line(
    of bigint, number int, f int, what text, who text, why text, said text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before bytea;
    moment timestamptz := clock_timestamp();
BEGIN
    IF number > 1 THEN
        SELECT j.hash INTO before FROM headgate.operation_journal j WHERE j.operation = of AND j.n = number - 1;
    END IF;
    INSERT INTO headgate.operation_journal (operation, n, at, fence, event, holder, reason, doc, hash)
    VALUES (of, number, moment, f, what, who, why, said, sha256(coalesce(before, ''::bytea) || convert_to(
        concat_ws(E'\n', of, number, extract(epoch FROM moment), f, what, who, why, said), 'UTF8')));
END $$;

-- function: operation_take
-- Look at a key and take it, if it is free. One round trip, and no write at all where it is done or held.
--   done: the stored result · held: somebody is at it · conflict: done or begun with another payload
--   taken: it is ours; `was` says how it stood before
-- The lease is not waited for on its way to the disk. If the server loses it, nobody had it, and what the
-- caller does with it is refused by its token. Before anything is done outside Postgres, a step is
-- recorded by a commit that does wait, and that brings the lease to the disk with it.
-- `dead` is the token of a holder that the caller knows to be dead; `lenient`: another payload is no matter.
CREATE OR REPLACE FUNCTION headgate.operation_take(
    k bytea, lk bigint, alone boolean, told bytea, tok bytea, who text, seconds float8, dead bytea,
    lenient boolean, names text[], ph bytea, b bytea, doc text,
    OUT verdict text, OUT id bigint, OUT fence int, OUT attempts int, OUT was text, OUT result bytea,
    OUT codec text, OUT result_hash bytea, OUT store text, OUT holder text, OUT token bytea,
    OUT left_seconds float8, OUT lines int)
LANGUAGE plpgsql AS $$
DECLARE
    o    headgate.operation;
    l    headgate.operation_lock;
    due  timestamptz;
BEGIN
    SELECT * INTO o FROM headgate.operation x WHERE x.key = k;
    IF FOUND THEN
        verdict := headgate.operation_look(o, CASE WHEN lenient THEN o.payload ELSE told END, dead);
    END IF;
    IF verdict IS NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        due := clock_timestamp() + make_interval(secs => seconds);
        IF alone THEN
            INSERT INTO headgate.operation_lock AS x (lock_key, operation, token, holder, taken_at, lease_until)
            VALUES (lk, 0, tok, who, clock_timestamp(), due)
            ON CONFLICT (lock_key) DO UPDATE SET
                operation = 0, token = tok, holder = who, taken_at = excluded.taken_at, lease_until = due
            WHERE x.lease_until < clock_timestamp() OR x.token = dead;
            IF NOT FOUND THEN
                SELECT * INTO l FROM headgate.operation_lock x WHERE x.lock_key = lk;
                verdict := 'held'; holder := l.holder; token := l.token; id := l.operation;
                left_seconds := greatest(0, extract(epoch FROM l.lease_until - clock_timestamp()));
                RETURN;
            END IF;
        END IF;
        IF o.id IS NULL THEN
            INSERT INTO headgate.operation AS x (
                created_at, begun_at, updated_at, lease_until, lock_key, fence, attempts, exclusive, status,
                key, token, holder, pipeline, task, dataset, operation, version, checksum_in, params,
                period, base, payload, parts)
            VALUES (clock_timestamp(), clock_timestamp(), clock_timestamp(), due, lk, 1, 1, alone, 'running',
                k, tok, who, names[1], names[2], names[3], names[4], names[5], names[6], ph,
                names[7], b, told, doc)
            ON CONFLICT (key) DO NOTHING
            RETURNING * INTO o;
            IF FOUND THEN
                verdict := 'taken'; was := 'new';
            END IF;
        END IF;
        IF verdict IS NULL THEN
            SELECT * INTO o FROM headgate.operation x WHERE x.key = k FOR UPDATE;
            verdict := headgate.operation_look(o, CASE WHEN lenient THEN o.payload ELSE told END, dead);
        END IF;
        IF verdict IS NULL THEN
            IF o.status = 'running' THEN
                o.lines := o.lines + 1;
                PERFORM headgate.operation_line(o.id, o.lines, o.fence, 'lost', o.holder, 'lease',
                    json_build_object('begun_at', o.begun_at, 'by', who)::text);
            END IF;
            was := o.status;
            UPDATE headgate.operation x SET
                status = 'running', fence = x.fence + 1, attempts = x.attempts + 1, token = tok,
                holder = who, begun_at = clock_timestamp(), updated_at = clock_timestamp(),
                lease_until = due, lines = o.lines, payload = told, reason = NULL, parts = doc,
                lock_key = lk, exclusive = alone
            WHERE x.id = o.id RETURNING * INTO o;
            verdict := 'taken';
        END IF;
        IF alone THEN
            IF verdict = 'taken' THEN
                UPDATE headgate.operation_lock x SET operation = o.id WHERE x.lock_key = lk AND x.token = tok;
            ELSE
                DELETE FROM headgate.operation_lock x WHERE x.lock_key = lk AND x.token = tok;
            END IF;
        END IF;
    END IF;
    id := o.id; fence := o.fence; attempts := o.attempts; holder := o.holder; token := o.token; lines := o.lines;
    IF verdict = 'done' THEN
        result := o.result; codec := o.codec; result_hash := o.result_hash; store := o.store;
    ELSIF verdict = 'held' THEN
        left_seconds := greatest(0, extract(epoch FROM o.lease_until - clock_timestamp()));
    END IF;
END $$;

-- function: operation_take_many
-- The same for many callers of one process, each for a key of its own and none for a dataset. Keys that
-- nobody has seen are inserted together; the others are looked at one by one. They come sorted, so that two
-- processes never wait for each other. Each is of a kind: names, digest of the parameters, length of the
-- lease. Null for an array means null for all (and the first kind). `asked` is the token of who asked.
CREATE OR REPLACE FUNCTION headgate.operation_take_many(
    who text, names text[], phs bytea[], secs float8[], kinds int[], ks bytea[], lks bigint[], toks bytea[],
    docs text[], tolds bytea[], bs bytea[], deads bytea[], lenients boolean[])
RETURNS TABLE (asked bytea, verdict text, id bigint, fence int, attempts int, was text, result bytea, codec text,
               result_hash bytea, store text, holder text, token bytea, left_seconds float8, lines int)
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    many   int;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    WITH kind AS MATERIALIZED (
        SELECT g.n, string_to_array(g.named, E'\x1f', '') AS a, g.ph, moment + make_interval(secs => g.s) AS due
        FROM unnest(names, phs, secs) WITH ORDINALITY AS g(named, ph, s, n))
    , made AS (
        INSERT INTO headgate.operation AS x (
            created_at, begun_at, updated_at, lease_until, lock_key, fence, attempts, exclusive, status,
            key, token, holder, pipeline, task, dataset, operation, version, checksum_in, params,
            period, base, payload, parts)
        SELECT moment, moment, moment, g.due, t.lk, 1, 1, false, 'running', t.k, t.tok, who, g.a[1], g.a[2], g.a[3],
               g.a[4], g.a[5], g.a[6], g.ph, g.a[7], t.b, t.told, t.doc
        FROM unnest(ks, lks, toks, docs, tolds, bs, kinds) AS t(k, lk, tok, doc, told, b, kind)
        JOIN kind g ON g.n = coalesce(t.kind, 1)
        WHERE NOT EXISTS (SELECT FROM headgate.operation x WHERE x.key = t.k)
        ON CONFLICT (key) DO NOTHING
        RETURNING x.token, x.id)
    SELECT made.token, 'taken', made.id, 1, 1, 'new', NULL::bytea, NULL::text, NULL::bytea, NULL::text, NULL::text,
           NULL::bytea, NULL::float8, 0
    FROM made;
    GET DIAGNOSTICS many = ROW_COUNT;
    IF many < cardinality(ks) THEN
        RETURN QUERY
        SELECT t.tok, r.*
        FROM unnest(ks, lks, toks, docs, tolds, bs, deads, lenients, kinds)
                 WITH ORDINALITY AS t(k, lk, tok, doc, told, b, dead, lenient, kind, n),
            LATERAL headgate.operation_take(t.k, t.lk, false, t.told, t.tok, who, secs[coalesce(t.kind, 1)], t.dead,
                coalesce(t.lenient, false), string_to_array(names[coalesce(t.kind, 1)], E'\x1f', ''),
                phs[coalesce(t.kind, 1)], t.b, t.doc) r
        WHERE NOT EXISTS (SELECT FROM headgate.operation x WHERE x.key = t.k AND x.token = t.tok);
    END IF;
END $$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan;

-- function: operation_look
-- What a key's row means to a caller; null: it can be taken. A failed attempt left nothing behind, so it
-- may be tried again with another payload.
CREATE OR REPLACE FUNCTION headgate.operation_look(o headgate.operation, told bytea, dead bytea)
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN o.status <> 'failure' AND o.payload IS DISTINCT FROM told THEN 'conflict'
        WHEN o.status = 'success' THEN 'done'
        WHEN o.status = 'running' AND o.lease_until > clock_timestamp()
             AND o.token IS DISTINCT FROM dead THEN 'held' END
$$;

-- function: operation_enter
-- The advisory lock of the commit: tried, then waited for in the lock's own queue, which is fair. It goes
-- with the transaction, so none is held at rest, and a pooler cannot strand one.
CREATE OR REPLACE FUNCTION headgate.operation_enter(lk bigint, milliseconds int)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    IF NOT pg_try_advisory_xact_lock(lk) THEN
        PERFORM set_config('lock_timeout', milliseconds || 'ms', true);
        PERFORM pg_advisory_xact_lock(lk);
        PERFORM set_config('lock_timeout', before, true);
    END IF;
END $$;

-- function: operation_end
-- Record how an attempt ended, and give the key and its lock back. Raises HG001 when the lease was lost:
-- then nothing of the transaction it stands in can be committed. With `again`, what was recorded before is
-- no error; never where SQL of the caller stands beside it, which would then be committed twice.
CREATE OR REPLACE FUNCTION headgate.operation_end(
    of bigint, tok bytea, f int, how text, why text, res bytea, cod text, digest bytea, place text, said text,
    again boolean, OUT pointer text, OUT xid bigint)
LANGUAGE plpgsql AS $$
DECLARE
    o headgate.operation;
BEGIN
    UPDATE headgate.operation x SET
        status = how, lease_until = NULL, updated_at = clock_timestamp(), lines = x.lines + 1,
        result = res, codec = cod, result_hash = digest, store = place, reason = why
    WHERE x.id = of AND x.token = tok AND x.fence = f AND x.status = 'running'
    RETURNING * INTO o;
    IF NOT FOUND THEN
        SELECT * INTO o FROM headgate.operation x
        WHERE again AND x.id = of AND x.token = tok AND x.fence = f AND x.status = how;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the lease of operation % was lost', of USING ERRCODE = 'HG001';
        END IF;
    ELSE
        IF o.exclusive THEN
            DELETE FROM headgate.operation_lock x WHERE x.lock_key = o.lock_key AND x.token = tok;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the lock of operation % was lost', of USING ERRCODE = 'HG001';
            END IF;
        END IF;
        PERFORM headgate.operation_line(of, o.lines, f,
            CASE how WHEN 'success' THEN 'done' ELSE 'failed' END, o.holder, why, said);
    END IF;
    pointer := 'operation/' || of || '/' || o.lines;
    xid := pg_current_xact_id()::text::bigint;
END $$;

-- function: operation_end_many
-- Successes of many callers of one process, none of which holds a dataset. One that lost its lease fails all,
-- and so does a lock that is taken: each then commits alone, waits for its own lock, and learns which it was.
CREATE OR REPLACE FUNCTION headgate.operation_end_many(
    ofs bigint[], toks bytea[], fs int[], ress bytea[], cods text[], digests bytea[], places text[], saids text[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    stamp  text := extract(epoch FROM moment)::text;
    many   int;
BEGIN
    WITH ended AS (
        UPDATE headgate.operation x SET
            status = 'success', lease_until = NULL, updated_at = moment, lines = x.lines + 1,
            result = t.res, codec = t.cod, result_hash = t.digest, store = t.place, reason = NULL
        FROM unnest(ofs, toks, fs, ress, cods, digests, places, saids)
            AS t(id, tok, f, res, cod, digest, place, said)
        WHERE x.id = t.id AND x.token = t.tok AND x.fence = t.f AND x.status = 'running' AND NOT x.exclusive
          AND pg_try_advisory_xact_lock(x.lock_key)
        RETURNING x.id, x.lines, x.fence, x.holder, t.said)
    INSERT INTO headgate.operation_journal (operation, n, at, fence, event, holder, reason, doc, hash)
    SELECT e.id, e.lines, moment, e.fence, 'done', e.holder, NULL, e.said, sha256(
        CASE WHEN e.lines > 1 THEN coalesce((SELECT j.hash FROM headgate.operation_journal j
                                             WHERE j.operation = e.id AND j.n = e.lines - 1), ''::bytea)
             ELSE ''::bytea END
        || convert_to(concat_ws(E'\n', e.id, e.lines, stamp, e.fence, 'done', e.holder, e.said), 'UTF8'))
    FROM ended e;
    GET DIAGNOSTICS many = ROW_COUNT;
    IF many <> cardinality(ofs) THEN
        RAISE EXCEPTION 'the lease of an operation was lost, or its lock is taken' USING ERRCODE = 'HG001';
    END IF;
    RETURN pg_current_xact_id()::text::bigint;
END $$ SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan;

-- function: operation_note
-- A line about somebody who did not get to work: denied, escalated, or a conflict.
CREATE OR REPLACE FUNCTION headgate.operation_note(of bigint, what text, who text, why text, said text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number int;
    f      int;
BEGIN
    UPDATE headgate.operation x SET lines = x.lines + 1 WHERE x.id = of RETURNING x.lines, x.fence INTO number, f;
    IF FOUND THEN
        PERFORM headgate.operation_line(of, number, f, what, who, why, said);
    END IF;
END $$;

-- function: operation_reset
-- An operator's decision: the next call runs again. Whoever is at it is fenced out.
CREATE OR REPLACE FUNCTION headgate.operation_reset(k bytea, who text, why text, forget boolean, OUT pointer text)
LANGUAGE plpgsql AS $$
DECLARE
    o headgate.operation;
BEGIN
    -- The bytes of a large result stay for as long as the retention from now, as those of a replaced version.
    UPDATE headgate.object b SET touched_at = clock_timestamp()
    FROM headgate.operation x JOIN headgate.store s ON s.uri = x.store
    WHERE x.key = k AND b.store = s.id AND b.digest = x.result_hash AND b.state = 'kept';
    UPDATE headgate.operation x SET
        status = 'failure', fence = x.fence + 1, token = substring(sha256(x.token) FOR 16), lease_until = NULL, attempts = 0,
        updated_at = clock_timestamp(), lines = x.lines + 1, result = NULL, codec = NULL, result_hash = NULL,
        store = NULL, reason = 'reset'
    WHERE x.key = k RETURNING * INTO o;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM headgate.operation_lock x WHERE x.operation = o.id;
    IF forget THEN
        UPDATE headgate.operation_call c SET done = NULL, result = NULL, undone = clock_timestamp()
        WHERE c.operation = o.id AND c.done IS NOT NULL;
    END IF;
    INSERT INTO headgate.action (actor, verb, because) VALUES (who, 'operation.reset', why);
    PERFORM headgate.operation_line(o.id, o.lines, o.fence, 'reset', who, 'reset',
        json_build_object('actor', who, 'because', why, 'forget_calls', forget)::text);
    pointer := 'operation/' || o.id || '/' || o.lines;
END $$;

-- name: take
SELECT 1::bigint AS n, r.* FROM headgate.operation_take($1, $2, $3, $4, $5, $6, $7, $8, $9,
    string_to_array($10, E'\x1f', ''), $11, $12, $13) r

-- name: take_many
SELECT * FROM headgate.operation_take_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: end
-- In a transaction that holds the lock already.
SELECT pointer, xid FROM headgate.operation_end($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, false)

-- name: end_many
SELECT headgate.operation_end_many($1, $2, $3, $4, $5, $6, $7, $8) AS xid

-- name: end_alone
-- All there is to commit, lock and end, in one statement.
SELECT e.pointer, e.xid FROM headgate.operation_enter($11, $12) l,
    LATERAL headgate.operation_end($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, true) e

-- name: give_back
-- A caller that was interrupted while it asked, and may have been given the key.
WITH ours AS (
    UPDATE headgate.operation SET status = 'failure', lease_until = NULL, reason = 'interrupted'
    WHERE key = $1 AND token = $2 AND status = 'running')
DELETE FROM headgate.operation_lock WHERE lock_key = $3 AND token = $2

-- name: end_in_passing
-- The same for a failure: the disk is not waited for. If it is lost, the lease runs out instead.
SELECT e.pointer, e.xid FROM (SELECT set_config('synchronous_commit', 'off', true)) s,
    LATERAL headgate.operation_end($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, true) e

-- name: ended
SELECT EXISTS (SELECT FROM headgate.operation
               WHERE id = $1 AND token = $2 AND fence = $3 AND status = 'success')

-- name: renew
-- Those that are still held by who says so; the locks go with them.
WITH ours AS (
    UPDATE headgate.operation o SET lease_until = clock_timestamp() + make_interval(secs => t.seconds)
    FROM (SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::float8[]) AS u(id, token, seconds) ORDER BY 1) t
    WHERE o.id = t.id AND o.token = t.token AND o.status = 'running'
    RETURNING o.id, o.token, o.lease_until, o.exclusive, o.lock_key)
, locks AS (
    UPDATE headgate.operation_lock l SET lease_until = ours.lease_until
    FROM ours WHERE ours.exclusive AND l.lock_key = ours.lock_key AND l.token = ours.token)
SELECT id FROM ours

-- name: note
SELECT headgate.operation_note($1, $2, $3, $4, $5)

-- name: period
-- The period that an unfinished operation was begun in, while it may still be retried.
SELECT period FROM headgate.operation
WHERE base = $1 AND status <> 'success' AND created_at > clock_timestamp() - make_interval(secs => $2)
ORDER BY id DESC LIMIT 1

-- name: call_begin
-- Durable before the call is made, and only by who holds the lease.
INSERT INTO headgate.operation_call AS c (operation, name, key, fence, begun)
SELECT o.id, $4, $5, o.fence, clock_timestamp() FROM headgate.operation o
WHERE o.id = $1 AND o.token = $2 AND o.fence = $3 AND o.status = 'running'
ON CONFLICT (operation, name) DO UPDATE SET fence = excluded.fence
RETURNING c.key, c.done, c.result

-- name: call_done
UPDATE headgate.operation_call SET done = clock_timestamp(), result = $3, undone = NULL
WHERE operation = $1 AND name = $2

-- name: call_undone
UPDATE headgate.operation_call SET undone = clock_timestamp(), done = NULL, result = NULL
WHERE operation = $1 AND name = $2

-- name: calls
SELECT name, key, begun, done, undone, result FROM headgate.operation_call
WHERE operation = $1 ORDER BY begun, name

-- name: reset
SELECT headgate.operation_reset($1, $2, $3, $4)

-- name: found
SELECT * FROM headgate.operation WHERE key = $1

-- name: found_by_id
SELECT * FROM headgate.operation WHERE id = $1

-- name: found_by_prefix
-- By the first digits of a key, as lists show it.
SELECT * FROM headgate.operation WHERE key >= $1 AND key < $2 ORDER BY key LIMIT 2

-- name: listed
SELECT id, key, pipeline, task, dataset, operation, version, period, status, attempts, fence, holder, reason,
       created_at, begun_at, updated_at, lease_until, lease_until < clock_timestamp() AS overdue
FROM headgate.operation
WHERE ($1::text IS NULL OR task = $1) AND ($2::text IS NULL OR dataset = $2)
  AND ($3::text IS NULL OR status = $3) AND ($4::bigint IS NULL OR id < $4)
ORDER BY id DESC LIMIT $5

-- name: lines
SELECT n, at, fence, event, holder, reason, doc, hash FROM headgate.operation_journal
WHERE operation = $1 ORDER BY n

-- name: ledger
SELECT id FROM headgate.identity

-- name: decisions
SELECT coalesce(max(id), 0) AS last, clock_timestamp() AS now FROM headgate.action

-- name: reset_after
-- Has anybody reset an operation? The range is short: it is asked every few seconds.
SELECT EXISTS (SELECT FROM headgate.action WHERE id > $1 AND verb = 'operation.reset')

-- name: rewritten
-- Which ones. It looks at the whole journal, and is asked only when somebody did.
SELECT o.pipeline, o.task, o.dataset, o.operation, count(*) AS times,
       bool_or(EXISTS (SELECT FROM headgate.operation_journal s
                       WHERE s.operation = o.id AND (s.doc::json ->> 'sovereignty_event') = 'true')) AS sovereign
FROM headgate.operation_journal j JOIN headgate.operation o ON o.id = j.operation
WHERE j.event = 'reset' AND j.at >= $1
GROUP BY o.pipeline, o.task, o.dataset, o.operation

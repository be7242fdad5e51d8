-- name: pipeline
SELECT p.id FROM headgate.pipeline p WHERE p.name = $1

-- name: stuck
-- Free SQL that was declared without an undo, as the pipeline is deployed now.
SELECT a ->> 'handler' AS handler FROM (
    SELECT d.declared FROM headgate.deployment d WHERE d.pipeline = $1
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) d, jsonb_array_elements(d.declared -> 'applies') AS a
WHERE a ->> 'undo' IS NULL

-- name: make
INSERT INTO headgate.replay (pipeline, mode, manifest, pins, actor, because, per_second, inputs)
VALUES ($1, $2, '{}', $3, $4, $5, $6, 0) RETURNING id

-- name: publications
-- What was published in a window of event time [start, end), in the order of changes: what readers see,
-- or every version, but for reverts, which made nothing of their own. Nothing from beyond the watermark:
-- there more may come, and the same window would be another one tomorrow.
INSERT INTO headgate.replay_input (replay, n, original, content, uri)
SELECT $1, row_number() OVER (ORDER BY e.event_time, u.entry), u.entry, u.content, u.uri
FROM headgate.publication u JOIN headgate.entry e ON e.id = u.entry
WHERE u.pipeline = $2 AND NOT u.removed
  AND e.event_time >= coalesce($3, '-infinity'::timestamptz)
  AND e.event_time < coalesce($4, 'infinity'::timestamptz)
  AND CASE WHEN $5 THEN e.reverts IS NULL ELSE u.successor IS NULL END
  AND (e.reverts IS NULL OR $7 = 'publish')
  AND ($6::bigint[] IS NULL OR u.entry = ANY ($6))
  AND ($8::timestamptz IS NULL OR e.event_time <= $8)

-- name: unseen
-- Objects that a source lists and nobody has published, after what is there already.
INSERT INTO headgate.replay_input (replay, n, uri, source, noticed)
SELECT $1, (SELECT count(*) FROM headgate.replay_input i WHERE i.replay = $1)
           + row_number() OVER (ORDER BY t.n), t.uri, t.source, t.noticed::jsonb
FROM unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS t(uri, source, noticed, n)
WHERE NOT EXISTS (SELECT FROM headgate.publication u
                  WHERE u.pipeline = $2 AND u.uri = t.uri AND u.successor IS NULL AND NOT u.removed)

-- name: counted
-- How many inputs, the digest of their list, and what in the window is not among them.
SELECT count(*) AS inputs,
       sha256(convert_to(coalesce(string_agg(i.uri || ' ' || coalesce(encode(i.content, 'hex'), i.noticed ->> 'hint'),
                                             E'\n' ORDER BY i.n), ''), 'UTF8')) AS digest
FROM headgate.replay_input i WHERE i.replay = $1

-- name: deployments
-- What the inputs were made by, and how many of them by each.
SELECT d.version, d.code, d.params, d.declared::text AS declared, count(*) AS publications
FROM headgate.replay_input i
JOIN headgate.publication u ON u.entry = i.original
JOIN headgate.deployment d ON d.id = u.deployment
WHERE i.replay = $1 GROUP BY d.id ORDER BY d.id

-- name: freeze
-- What has no inputs is done.
UPDATE headgate.replay SET manifest = $2::text::jsonb, inputs = $3,
       state = CASE WHEN $3 = 0 THEN 'done' ELSE state END,
       ended_at = CASE WHEN $3 = 0 THEN clock_timestamp() END
WHERE id = $1

-- name: unfinished
-- A verification of the very same that was not brought to its end.
SELECT r.id FROM headgate.replay r
WHERE r.pipeline = $1 AND r.mode = 'verify' AND r.state = 'running' AND r.id <> $2 AND r.pins = $3
  AND r.manifest -> 'window' = $4::text::jsonb -> 'window' AND r.manifest -> 'inputs' = $4::text::jsonb -> 'inputs'
  AND r.manifest -> 'accepted' = $4::text::jsonb -> 'accepted'
ORDER BY r.id DESC LIMIT 1

-- name: act
INSERT INTO headgate.action (actor, verb, because) VALUES ($1, $2, $3)

-- name: next
-- The next portion of a running replay of this pipeline, for a worker that runs what is pinned. Whoever
-- gets the row may admit it; others pass on. `live` counts what came from anywhere else.
SELECT r.id, r.done,
       least(r.inputs - r.done, $3::int, CASE WHEN r.per_second IS NULL THEN $3::int ELSE t.tokens::int END) AS most,
       t.tokens, (SELECT coalesce(sum(y.admitted), 0)::bigint FROM headgate.tally y
                  WHERE y.pipeline = $1 AND y.source <> 'replay') AS live
FROM headgate.replay r
JOIN headgate.pipeline p ON p.id = r.pipeline
CROSS JOIN LATERAL (
    SELECT least(greatest(r.per_second, 1), r.tokens
                 + r.per_second * extract(epoch FROM clock_timestamp() - r.moved_at)::float8) AS tokens) t
WHERE r.pipeline = $1 AND r.state = 'running' AND r.mode = 'publish' AND r.pins = $2 AND r.done < r.inputs
  AND (p.spent_at IS NULL OR p.overridden_until > clock_timestamp())
ORDER BY r.id LIMIT 1 FOR UPDATE OF r SKIP LOCKED

-- name: seen
SELECT count(i.original) FROM headgate.replay_input i WHERE i.replay = $1 AND i.n > $2 AND i.n <= $2 + $3

-- name: page
SELECT i.n, i.original, i.uri, i.source, i.noticed::text AS noticed FROM headgate.replay_input i
WHERE i.replay = $1 AND i.n > $2 AND i.n <= $2 + $3 ORDER BY i.n

-- name: envelopes
-- The changes of a page, for whoever tells partitions apart.
SELECT e.envelope AS document, e.uri, e.event_time, e.received_at, e.sequence, e.key, e.data
FROM headgate.replay_input i JOIN headgate.entry e ON e.id = i.original
WHERE i.replay = $1 AND i.n > $2 AND i.n <= $2 + $3 ORDER BY i.n

-- name: admit
-- Admit originals once more: the same change under a key of this replay. What the original's handlers
-- called outside is known to have been done, and is not done again.
SELECT headgate.replay_admit($1, $2, $3, $4::smallint, $5::text[])

-- function: replay_admit
CREATE OR REPLACE FUNCTION headgate.replay_admit(r bigint, after int, many int, p smallint, parts text[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE entered bigint;
BEGIN
    WITH page AS MATERIALIZED (
        SELECT i.n, i.original FROM headgate.replay_input i
        WHERE i.replay = r AND i.n > after AND i.n <= after + many),
    again AS (
        INSERT INTO headgate.entry (pipeline, key, uri, event_time, received_at, fingerprint, removed, sequence,
                                    envelope, data, replay, replays)
        SELECT p, sha256(convert_to('headgate:replay:1', 'UTF8') || '\x00'::bytea || int8send(r) || o.key),
               o.uri, o.event_time, o.received_at, o.fingerprint, false, o.sequence, o.envelope, o.data, r, o.id
        FROM page CROSS JOIN LATERAL (
            SELECT * FROM headgate.entry x WHERE x.id = page.original OFFSET 0) AS o
        ORDER BY page.n
        RETURNING id, uri, envelope, replays),
    enqueue AS (
        INSERT INTO headgate.work (pipeline, id, subject, part)
        SELECT p, a.id, hashtextextended(coalesce(convert_from(a.envelope, 'UTF8')::json ->> 'subject', a.uri), p),
               hashtextextended(parts[g.n - after], p)
        FROM again a JOIN page g ON g.original = a.replays ORDER BY a.id),
    remember AS (
        INSERT INTO headgate.call (entry, name, key, begun, done, result)
        SELECT a.id, c.name, c.key, c.begun, c.done, c.result
        FROM again a CROSS JOIN LATERAL (
            SELECT * FROM headgate.call x WHERE x.entry = a.replays AND x.done IS NOT NULL OFFSET 0) AS c)
    SELECT count(*) INTO entered FROM again;
    INSERT INTO headgate.tally AS y (pipeline, source, slot, received, admitted, duplicate, conflict)
    VALUES (p, 'replay', pg_backend_pid() % 16, entered, entered, 0, 0)
    ON CONFLICT (pipeline, source, slot) DO UPDATE SET
        received = y.received + excluded.received, admitted = y.admitted + excluded.admitted;
    PERFORM pg_notify('headgate.work', p::text);
    RETURN entered;
END $$ SET enable_seqscan = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan;

-- name: mark
-- Still inside the transaction that admitted them, so nobody has seen them without.
UPDATE headgate.entry e SET replay = $1 WHERE e.pipeline = $2 AND e.key = ANY ($3::bytea[]) AND e.replay IS NULL

-- name: move
-- From where it stood. Nobody else could have moved it: its row is locked.
UPDATE headgate.replay SET done = done + $2, tokens = coalesce($3, 0) - $2, moved_at = clock_timestamp()
WHERE id = $1

-- name: running
-- Is there a replay that a worker of this pipeline could go on with, or bring to its end?
SELECT count(*) FILTER (WHERE r.done < r.inputs AND r.pins = $2) AS left,
       count(*) FILTER (WHERE r.done = r.inputs) AS ending
FROM headgate.replay r WHERE r.pipeline = $1 AND r.state = 'running' AND r.mode = 'publish'

-- name: finish
-- All of it is admitted, and nothing of that is live work any more.
UPDATE headgate.replay r SET state = 'done', ended_at = clock_timestamp()
WHERE r.pipeline = $1 AND r.state = 'running' AND r.mode = 'publish' AND r.done = r.inputs
  AND NOT EXISTS (SELECT FROM headgate.work w JOIN headgate.entry e ON e.id = w.id
                  WHERE w.pipeline = $1 AND e.replay = r.id)

-- name: left
-- What running replays have still to admit, by pipeline: a worker that waits until all is done waits
-- for these. One that nobody may run now (its budget is spent, or other code is deployed) is not waited for.
SELECT p.name AS pipeline, sum(r.inputs - r.done)::bigint AS inputs, bool_or(r.done = r.inputs) AS ending
FROM headgate.replay r JOIN headgate.pipeline p ON p.id = r.pipeline
WHERE r.state = 'running' AND r.mode = 'publish' AND r.pins = ANY ($1::bytea[])
  AND (p.spent_at IS NULL OR p.overridden_until > clock_timestamp())
GROUP BY p.name

-- name: verified
-- A page of inputs was verified: from where it stood, or not at all.
UPDATE headgate.replay SET done = $3, report = $4::text::jsonb, moved_at = clock_timestamp(),
       state = CASE WHEN inputs = $3 THEN 'done' ELSE state END,
       ended_at = CASE WHEN inputs = $3 THEN clock_timestamp() END
WHERE id = $1 AND done = $2 AND state = 'running' RETURNING true

-- name: inputs
-- A page of inputs to be verified, with everything that is known of how they were first run.
SELECT i.n, i.original AS entry, i.content, e.key, e.uri, e.event_time, e.received_at, e.sequence,
       e.envelope AS document, e.data, e.replays, u.successor, u.version, u.artifacts::text AS artifacts,
       j.fence, j.attempt, j.doc, d.version AS pipeline_version, d.code, d.params,
       d.declared::text AS declared
FROM headgate.replay_input i
JOIN headgate.entry e ON e.id = i.original
JOIN headgate.publication u ON u.entry = i.original
JOIN headgate.deployment d ON d.id = u.deployment
JOIN LATERAL (SELECT j.fence, j.attempt, j.doc FROM headgate.journal j
              WHERE j.entry = i.original AND j.outcome = 'finalized' LIMIT 1) j ON true
WHERE i.replay = $1 AND i.n > $2 ORDER BY i.n LIMIT $3

-- name: calls
SELECT c.entry, c.name, c.result FROM headgate.call c
WHERE c.entry = ANY ($1::bigint[]) AND c.done IS NOT NULL

-- name: stop
UPDATE headgate.replay SET state = 'stopped', ended_at = clock_timestamp()
WHERE id = $1 AND state = 'running' RETURNING done, inputs

-- name: ends
-- How the replays of each pipeline ended. There are as many as people asked for.
SELECT p.name AS pipeline,
       CASE WHEN r.state <> 'done' THEN r.state WHEN r.mode = 'publish' THEN 'published'
            WHEN coalesce((r.report ->> 'diverged')::int, 0) = 0
                 AND jsonb_array_length(coalesce(r.report -> 'impure', '[]')) = 0 THEN 'same'
            ELSE 'diverged' END AS outcome,
       count(*) AS replays
FROM headgate.replay r JOIN headgate.pipeline p ON p.id = r.pipeline GROUP BY 1, 2

-- The change feed. `seal` gives out positions under a lock that is held until COMMIT, so they have no
-- gaps and become visible in their order: whoever has read up to one has missed nothing before it.
--
-- A page is found in two steps. First a window: the next commits of about so many lines, whatever they
-- say. Then what is wanted of their lines. So a question for something rare costs a bounded time too; its
-- page may be short, and says how far it has looked.

-- name: window_up
-- The next commits that have lines behind ($1, $2), of at least $3 lines together, and one more if there is.
SELECT x.pos, x.n, x.batch, x.before >= $3 AS beyond FROM (
    SELECT c.pos, c.n, c.batch, sum(c.n) OVER (ORDER BY c.pos) - c.n AS before
    FROM (SELECT c.pos, c.n, c.batch FROM headgate.commit c WHERE (c.pos, c.n) > ($1, $2)
          ORDER BY c.pos LIMIT $3 + 1) c) x
ORDER BY x.pos

-- name: window_up_of
-- The same for some pipelines: a look into the index for each of them.
SELECT x.pos, x.n, x.batch, x.before >= $3 AS beyond FROM (
    SELECT c.pos, c.n, c.batch, sum(c.n) OVER (ORDER BY c.pos) - c.n AS before
    FROM (SELECT c.pos, c.n, c.batch FROM headgate.pipeline p
          CROSS JOIN LATERAL (
              SELECT c.pos, c.n, c.batch FROM headgate.commit c
              WHERE c.pipeline = p.id AND (c.pos, c.n) > ($1, $2) ORDER BY c.pos LIMIT $3 + 1) c
          WHERE p.name = ANY ($4::text[]) ORDER BY c.pos LIMIT $3 + 1) c) x
ORDER BY x.pos

-- name: window_down
-- The commits that have lines before ($1, $2), backwards.
SELECT x.pos, x.n, x.batch, x.before >= $3 AS beyond FROM (
    SELECT c.pos, c.n, c.batch, sum(c.n) OVER (ORDER BY c.pos DESC) - c.n AS before
    FROM (SELECT c.pos, c.n, c.batch FROM headgate.commit c
          WHERE c.pos <= $1 AND (c.pos < $1 OR $2 > 1) ORDER BY c.pos DESC LIMIT $3 + 1) c) x
ORDER BY x.pos DESC

-- name: window_down_of
SELECT x.pos, x.n, x.batch, x.before >= $3 AS beyond FROM (
    SELECT c.pos, c.n, c.batch, sum(c.n) OVER (ORDER BY c.pos DESC) - c.n AS before
    FROM (SELECT c.pos, c.n, c.batch FROM headgate.pipeline p
          CROSS JOIN LATERAL (
              SELECT c.pos, c.n, c.batch FROM headgate.commit c
              WHERE c.pipeline = p.id AND c.pos <= $1 AND (c.pos < $1 OR $2 > 1)
              ORDER BY c.pos DESC LIMIT $3 + 1) c
          WHERE p.name = ANY ($4::text[]) ORDER BY c.pos DESC LIMIT $3 + 1) c) x
ORDER BY x.pos DESC

-- name: lines
-- What the lines of these commits say; of commit $3 only those behind line $4, or before it if $5. Each is
-- looked up with what it points to (OFFSET 0): left to itself, the planner would join whole tables.
SELECT c.pos, j.n, j.batch, j.entry, j.fence, j.outcome::text AS outcome, j.reason, j.at, j.doc,
       p.name AS pipeline, s.uri AS store, e.pipeline AS pipeline_id, e.key, e.uri, e.event_time,
       e.received_at, e.envelope, e.reverts, e.replays, u.version, u.predecessor, u.content, u.removed,
       u.deployment
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS c(pos, batch, place)
CROSS JOIN LATERAL (
    SELECT * FROM headgate.journal j
    WHERE j.batch = c.batch AND j.outcome::text = ANY ($6::text[])
      AND (c.pos <> $3 OR CASE WHEN $5 THEN j.n < $4 ELSE j.n > $4 END) OFFSET 0) j
CROSS JOIN LATERAL (
    SELECT * FROM headgate.entry e
    WHERE e.id = j.entry AND ($7::text IS NULL OR starts_with(e.uri, $7)) OFFSET 0) e
JOIN headgate.pipeline p ON p.id = e.pipeline
JOIN headgate.store s ON s.id = p.store
LEFT JOIN LATERAL (
    SELECT * FROM headgate.publication u
    WHERE u.entry = j.entry AND j.outcome = 'finalized' OFFSET 0) u ON true
ORDER BY c.place, CASE WHEN $5 THEN -j.n ELSE j.n END LIMIT $8

-- name: at
SELECT c.batch FROM headgate.commit c WHERE c.pos = $1

-- name: labels
-- What the code that ended them said about its dataset, and what is said of it now.
SELECT d.id, d.pipeline, d.declared -> 'dataset' ->> 'name' AS name, d.declared -> 'dataset' ->> 'access' AS access
FROM headgate.deployment d WHERE d.id = ANY ($1::int[])
UNION ALL
SELECT NULL, p.pipeline, n.name, n.access FROM unnest($2::smallint[]) AS p(pipeline)
CROSS JOIN LATERAL (
    SELECT d.declared -> 'dataset' ->> 'name' AS name, d.declared -> 'dataset' ->> 'access' AS access
    FROM headgate.deployment d WHERE d.pipeline = p.pipeline
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) n

-- name: last
SELECT c.pos, c.n FROM headgate.commit c ORDER BY c.pos DESC LIMIT 1

-- name: since
-- The last commit before a moment. Commits are in the order of their times: the middle is looked at,
-- then the middle of what is left.
WITH RECURSIVE half AS (
    SELECT 0::bigint AS low, coalesce(max(c.pos), 0) AS high FROM headgate.commit c
    UNION ALL
    SELECT CASE WHEN m.at < $1 THEN m.pos ELSE h.low END, CASE WHEN m.at < $1 THEN h.high ELSE m.pos - 1 END
    FROM half h CROSS JOIN LATERAL (
        SELECT c.pos, c.at FROM headgate.commit c WHERE c.pos = (h.low + h.high + 1) / 2) m
    WHERE h.low < h.high)
SELECT c.pos, c.n FROM headgate.commit c WHERE c.pos = (SELECT max(low) FROM half)

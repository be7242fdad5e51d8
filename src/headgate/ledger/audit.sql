-- name: snapshot
-- All of the ledger as it was at one moment: workers may go on meanwhile, and nothing is changed.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: by_index
-- Pages are read through indexes, whatever the planner makes of tables it has no statistics of.
SELECT set_config('enable_seqscan', $1, true), set_config('enable_hashjoin', $1, true),
       set_config('enable_mergejoin', $1, true), set_config('jit', 'off', true)

-- name: sizes
SELECT (SELECT count(*) FROM headgate.entry) AS entries,
       (SELECT coalesce(max(pos), 0) FROM headgate.commit) AS commits

-- name: uris
SELECT id, uri FROM headgate.entry WHERE id = ANY ($1::bigint[])

-- name: snapshot
-- All of the ledger as it was at one moment: workers may go on meanwhile, and nothing is changed.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY

-- name: by_index
-- Pages are read through indexes, whatever the planner makes of tables it has no statistics of, and
-- they are too small to be worth a helper.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true)

-- name: by_table
-- Questions about whole tables, after the pages: as the server is set, but without compiling.
SELECT set_config(s.name, s.reset_val, true) FROM pg_settings s
WHERE s.name IN ('enable_seqscan', 'enable_hashjoin', 'enable_mergejoin',
                 'max_parallel_workers_per_gather')

-- name: sizes
SELECT (SELECT count(*) FROM headgate.entry) AS entries,
       (SELECT coalesce(max(pos), 0) FROM headgate.commit) AS commits,
       (SELECT count(*) FROM headgate.operation) AS operations

-- name: uris
SELECT id, uri FROM headgate.entry WHERE id = ANY ($1::bigint[])

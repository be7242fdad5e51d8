-- name: tables
-- Each table of the ledger: can it be replicated, and does anybody tidy up after it?
SELECT c.relname AS name,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) AS keyed,
       c.relreplident = 'n' AS unreplicated, c.relpersistence = 'u' AS unlogged,
       coalesce(s.n_live_tup, 0) AS live, coalesce(s.n_dead_tup, 0) AS dead,
       greatest(s.last_vacuum, s.last_autovacuum) AS vacuumed_at,
       greatest(s.last_analyze, s.last_autoanalyze) AS analysed_at,
       coalesce(s.n_mod_since_analyze, 0) AS changed,
       age(c.relfrozenxid) AS age
FROM pg_class c
LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident($1)) ORDER BY c.relname

-- name: indexes
-- Each index of the ledger, the columns it is made of, and whether it can be used.
SELECT t.relname AS "table", c.relname AS name, i.indisvalid AND i.indisready AS usable,
       i.indisunique AND i.indpred IS NULL AS uniquely,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k(attnum, n)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.n) AS columns
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
WHERE t.relnamespace = to_regnamespace(quote_ident($1)) ORDER BY 1, 2

-- name: numbers
-- How much of their numbers the sequences have used.
SELECT s.sequencename AS name, s.last_value, s.max_value,
       coalesce(s.last_value, 0)::float8 / s.max_value AS used
FROM pg_sequences s WHERE s.schemaname = $1 ORDER BY used DESC

-- name: oldest
-- The transaction that keeps dead rows from being tidied away, if it is old.
SELECT a.pid, coalesce(nullif(a.application_name, ''), a.backend_type) AS who,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
  AND a.backend_xmin IS NOT NULL
ORDER BY a.xact_start LIMIT 1

-- name: slots
SELECT s.slot_name AS name, s.wal_status AS wal,
       pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::float8 AS bytes
FROM pg_replication_slots s WHERE NOT s.active AND NOT s.temporary ORDER BY s.slot_name

-- name: standbys
-- Who follows this server, how closely, and whether a commit waits for them.
SELECT coalesce(nullif(r.application_name, ''), '?') AS name, r.state, r.sync_state,
       extract(epoch FROM r.replay_lag)::float8 AS lag_seconds,
       pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn)::float8 AS lag_bytes
FROM pg_stat_replication r ORDER BY 1

-- name: replication
SELECT current_setting('synchronous_standby_names') AS named,
       current_setting('synchronous_commit') AS commit,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS may_look

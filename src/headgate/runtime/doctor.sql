-- name: server
-- What a server says about itself. `pid` tells whether somebody stands between it and us.
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int / 10000 AS major,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
       pg_backend_pid() AS pid,
       clock_timestamp() AS now

-- name: workers
SELECT count(*) FILTER (WHERE alive_until > clock_timestamp()) AS alive,
       count(*) FILTER (WHERE alive_until <= clock_timestamp()) AS expired
FROM headgate.worker WHERE buried_at IS NULL

-- name: operations
SELECT (SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c WHERE c.oid = 'headgate.operation'::regclass) AS known,
       count(*) FILTER (WHERE lease_until > clock_timestamp()) AS running,
       count(*) FILTER (WHERE lease_until <= clock_timestamp()) AS overdue,
       count(*) FILTER (WHERE status = 'partial') AS partial
FROM headgate.operation WHERE status IN ('running', 'partial')

-- name: unsound
-- Indexes that are not valid, and tables that could not be replicated.
SELECT c.relname AS name FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
WHERE s.nspname = $1
  AND (EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = c.oid AND NOT (i.indisvalid AND i.indisready))
       OR (c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)))
ORDER BY 1

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

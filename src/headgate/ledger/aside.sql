-- name: withdraw
-- Take entries that were admitted in this very transaction out of the work again. What was told
-- before has a life of its own by now, and keeps it.
DELETE FROM headgate.work w USING headgate.entry e
WHERE e.pipeline = $1 AND e.key = ANY ($2::bytea[]) AND e.xmin = pg_current_xact_id()::xid
  AND w.pipeline = e.pipeline AND w.id = e.id
RETURNING w.id, w.subject, e.key, w.part

-- name: withdraw
-- Take entries that were admitted in this very transaction out of the work again.
DELETE FROM headgate.work w USING headgate.entry e
WHERE e.pipeline = $1 AND e.key = ANY ($2::bytea[])
  AND w.pipeline = e.pipeline AND w.id = e.id
RETURNING w.id, w.subject, e.key, w.part

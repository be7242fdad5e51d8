-- name: begin
-- Durable before the call is made, so that a second attempt hands over the same key.
INSERT INTO headgate.call AS c (entry, name, key) VALUES ($1, $2, $3)
ON CONFLICT (entry, name) DO UPDATE SET key = c.key
RETURNING c.key, c.done, c.result

-- name: done
UPDATE headgate.call SET done = clock_timestamp(), result = $3, undone = NULL
WHERE entry = $1 AND name = $2

-- name: undone
UPDATE headgate.call SET undone = clock_timestamp(), done = NULL, result = NULL
WHERE entry = $1 AND name = $2

-- name: to_undo
SELECT name, key, result FROM headgate.call WHERE entry = $1 AND done IS NOT NULL ORDER BY begun DESC

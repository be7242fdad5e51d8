-- Keys of actions: asked for again, an action is answered and not done again.

-- name: claim
-- Of two that bring the same key at once, the second waits here until the first has committed, or not.
INSERT INTO headgate.action_key (who, key, payload) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING RETURNING true

-- name: earlier
SELECT payload, answer::text AS answer FROM headgate.action_key WHERE who = $1 AND key = $2

-- name: keep
UPDATE headgate.action_key SET answer = $3::text::json WHERE who = $1 AND key = $2

-- name: forget
DELETE FROM headgate.action_key WHERE at < clock_timestamp() - make_interval(days => $1)

-- Tokens for everything that is not signed by its sender.

-- name: make
INSERT INTO headgate.token (id, name, hash, scopes, made_by, expires_at)
VALUES ($1, $2, $3, $4::text[], $5, clock_timestamp() + make_interval(secs => $6))
RETURNING expires_at

-- name: list
SELECT id, name, scopes, made_by, made_at, expires_at, revoked_at, revoked_by,
       expires_at <= clock_timestamp() AS expired
FROM headgate.token ORDER BY made_at, id

-- name: revoke
UPDATE headgate.token SET revoked_at = clock_timestamp(), revoked_by = $2
WHERE id = $1 AND revoked_at IS NULL
RETURNING id

-- name: valid
SELECT hash, name, scopes FROM headgate.token
WHERE id = $1 AND revoked_at IS NULL AND expires_at > clock_timestamp()

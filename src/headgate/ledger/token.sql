-- Tokens for everything that is not signed by its sender; sessions and tickets of the console.

-- name: make
INSERT INTO headgate.token (id, kind, name, hash, role, pipelines, parent, made_by, expires_at)
SELECT $1, $2, $3, $4, $5, $6::text[], $7, $8,
       least(clock_timestamp() + make_interval(secs => $9), p.expires_at)
FROM (SELECT 1) one LEFT JOIN headgate.token p ON p.id = $7
RETURNING expires_at

-- name: list
SELECT t.id, t.kind, t.name, t.role, t.pipelines, t.parent, t.made_by, t.made_at, t.expires_at,
       t.revoked_at, t.revoked_by,
       CASE WHEN coalesce(t.revoked_at, p.revoked_at) IS NOT NULL THEN 'revoked'
            WHEN t.expires_at <= clock_timestamp() THEN 'expired' ELSE 'good' END AS state
FROM headgate.token t LEFT JOIN headgate.token p ON p.id = t.parent
WHERE t.kind = ANY ($1::text[])
ORDER BY t.made_at, t.id

-- name: find
SELECT id, kind, name, role, pipelines FROM headgate.token WHERE id = $1 AND kind <> 'ticket'

-- name: revoke
UPDATE headgate.token SET revoked_at = clock_timestamp(), revoked_by = $2
WHERE id = $1 AND revoked_at IS NULL
RETURNING name, kind

-- name: valid
SELECT t.hash, t.kind, t.name, t.role, t.pipelines, t.expires_at
FROM headgate.token t LEFT JOIN headgate.token p ON p.id = t.parent
WHERE t.id = $1 AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp()
  AND (p.id IS NULL OR p.revoked_at IS NULL)

-- name: use
-- A ticket is good once: of two that bring it, one finds it.
UPDATE headgate.token SET revoked_at = clock_timestamp(), revoked_by = name
WHERE id = $1 AND kind = 'ticket' AND revoked_at IS NULL AND expires_at > clock_timestamp()
RETURNING id

-- name: forget
-- Sessions and tickets that ended a while ago. Tokens of the API stay: who had one is worth knowing.
DELETE FROM headgate.token
WHERE kind <> 'api' AND expires_at < clock_timestamp() - make_interval(days => 7)

-- name: act
INSERT INTO headgate.action (actor, verb, because) VALUES ($1, $2, $3)

-- name: pipelines
-- Every pipeline, or one, as it was declared last. An older deployment that was brought back counts anew.
SELECT p.id, p.name, s.uri AS store, p.created_at, p.spent_at,
       CASE WHEN p.overridden_until > clock_timestamp() THEN p.overridden_until END AS overridden_until,
       d.id AS deployment, d.version, encode(d.code, 'hex') AS code, encode(d.params, 'hex') AS params,
       d.declared::text AS declared, d.first_seen, d.registered_at
FROM headgate.pipeline p
JOIN headgate.store s ON s.id = p.store
CROSS JOIN LATERAL (
    SELECT * FROM headgate.deployment d WHERE d.pipeline = p.id
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) d
WHERE $1::text IS NULL OR p.name = $1
ORDER BY p.name

-- name: sources
-- What each source of a pipeline told, and how far it was read; also of those that it declares no more.
SELECT coalesce(t.source, m.source) AS source, coalesce(t.received, 0) AS received,
       coalesce(t.admitted, 0) AS admitted, coalesce(t.duplicate, 0) AS duplicate,
       coalesce(t.conflict, 0) AS conflict, m.checkpoint, m.moved_at
FROM (SELECT t.source, sum(t.received)::bigint AS received, sum(t.admitted)::bigint AS admitted,
             sum(t.duplicate)::bigint AS duplicate, sum(t.conflict)::bigint AS conflict
      FROM headgate.tally t WHERE t.pipeline = $1 GROUP BY t.source) t
FULL JOIN (SELECT m.source, m.checkpoint, m.moved_at FROM headgate.mark m WHERE m.pipeline = $1) m
    ON m.source = t.source
ORDER BY 1

-- name: deployments
SELECT d.id, d.version, encode(d.code, 'hex') AS code, encode(d.params, 'hex') AS params, d.first_seen,
       d.registered_at
FROM headgate.deployment d WHERE d.pipeline = $1
ORDER BY d.registered_at DESC, d.id DESC LIMIT $2

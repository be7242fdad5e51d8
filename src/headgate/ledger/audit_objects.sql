-- name: by_index
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)

-- name: published
-- What the publications after $1 say is in a store: their content unless it came inline (a removal
-- carries its predecessor's), and their artifacts. At least one row for each, so that pages end.
SELECT p.entry, p.uri, d.name, d.digest, o.state, o.size, o.store
FROM (SELECT entry, uri, pipeline, content, artifacts, removed FROM headgate.publication
      WHERE entry > $1 ORDER BY entry LIMIT $2) p
LEFT JOIN headgate.pipeline l ON l.id = p.pipeline
LEFT JOIN headgate.entry e ON e.id = p.entry
LEFT JOIN LATERAL (
    SELECT 'content' AS name, p.content AS digest WHERE NOT p.removed AND e.id IS NOT NULL AND e.data IS NULL
    UNION ALL
    SELECT 'artifact ' || coalesce(a ->> 'name', '?'),
           CASE WHEN a ->> 'digest' ~ '^[0-9a-f]{64}$' THEN decode(a ->> 'digest', 'hex') END
    FROM jsonb_array_elements(CASE WHEN jsonb_typeof(p.artifacts) = 'array' THEN p.artifacts END) AS a) d ON true
LEFT JOIN LATERAL (
    SELECT o.state, o.size, s.uri AS store
    FROM headgate.store s JOIN headgate.object o ON o.store = s.id AND o.digest = d.digest
    ORDER BY s.id IS NOT DISTINCT FROM l.store DESC, o.state = 'kept' DESC LIMIT 1) o ON true
ORDER BY p.entry

-- name: quarantined
-- What is in quarantine, and what was discarded and can still come back.
SELECT q.entry, e.uri, CASE WHEN q.content IS NOT NULL AND e.id IS NOT NULL AND e.data IS NULL THEN 'content' END AS name,
       q.content AS digest, o.state, o.size, o.store
FROM (SELECT a.entry, a.pipeline, a.content
      FROM (SELECT entry, pipeline, content FROM headgate.quarantine WHERE entry > $1
            UNION ALL
            SELECT entry, pipeline, content FROM headgate.discarded WHERE entry > $1) a
      ORDER BY a.entry LIMIT $2) q
LEFT JOIN headgate.pipeline l ON l.id = q.pipeline
LEFT JOIN headgate.entry e ON e.id = q.entry
LEFT JOIN LATERAL (
    SELECT o.state, o.size, s.uri AS store
    FROM headgate.store s JOIN headgate.object o ON o.store = s.id AND o.digest = q.content
    ORDER BY s.id IS NOT DISTINCT FROM l.store DESC, o.state = 'kept' DESC LIMIT 1) o ON true
ORDER BY q.entry

-- name: results
-- Results of operations that are too large for their row.
SELECT o.id, o.task, o.key, o.result_hash AS digest, b.state, b.size, o.store,
       (SELECT c.at FROM headgate.collected c WHERE c.store = s.id AND c.digest = o.result_hash) AS collected
FROM (SELECT id, task, key, result_hash, store FROM headgate.operation
      WHERE id > $1 AND store IS NOT NULL ORDER BY id LIMIT $2) o
LEFT JOIN headgate.store s ON s.uri = o.store
LEFT JOIN headgate.object b ON b.store = s.id AND b.digest = o.result_hash
ORDER BY o.id

-- name: still
-- Of these operations, those that were not reset meanwhile.
SELECT o.id FROM headgate.operation o
JOIN unnest($1::bigint[], $2::bytea[]) AS t(id, digest) ON t.id = o.id AND t.digest = o.result_hash
WHERE o.store IS NOT NULL

-- name: collected
-- Whether these bytes were collected, and whether the publication could spare them by then: it had
-- been replaced for as long as the retention, and no revert is about to bring it back.
SELECT t.entry, t.digest, max(c.at) AS at,
       bool_or(coalesce(
           (SELECT j.at FROM headgate.publication p JOIN headgate.journal j ON j.entry = p.successor
            WHERE p.entry = t.entry AND j.outcome = 'finalized' LIMIT 1) <= c.at - c.retention
           AND (SELECT true FROM headgate.restoring x WHERE x.entry = t.entry LIMIT 1) IS NULL,
           false)) AS spared
FROM unnest($1::bigint[], $2::bytea[]) AS t(entry, digest)
CROSS JOIN headgate.store s
JOIN headgate.collected c ON c.store = s.id AND c.digest = t.digest
GROUP BY t.entry, t.digest

-- name: chain_at
SELECT chain FROM headgate.commit WHERE pos = $1

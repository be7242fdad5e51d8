-- In which folders of a store the files of its catalog are: stac, dcat, prov, runs (model/layout.py).
ALTER TABLE headgate.identity
    ADD COLUMN layout text[] NOT NULL DEFAULT '{stac,catalog/dcat,prov,runs}' CHECK (cardinality(layout) = 4);

-- S1's record of a change, with `status_v0` in the words of S0. What was skipped had nothing to do
-- and is done: finalized. The steps between pending and finalized never rest, so nobody sees them here.
-- delta_manifest_ref and prov_ref say where the files are, of what was published or given up under a
-- dataset, once the projection has come by.
CREATE OR REPLACE VIEW headgate.wal AS
SELECT encode(sha256(convert_to('headgate:wal:1:' || s.pipeline || ':', 'UTF8') || s.change_key), 'hex') AS wal_id,
       s.key AS idempotency_key,
       CASE s.status WHEN 'finalized' THEN 'finalized' WHEN 'skipped' THEN 'finalized'
                     WHEN 'quarantined' THEN 'failed' WHEN 'rolled_back' THEN 'rolled_back'
                     ELSE 'pending' END AS status,
       CASE s.status WHEN 'finalized' THEN 'succeeded' WHEN 'skipped' THEN 'succeeded'
                     WHEN 'quarantined' THEN 'failed' WHEN 'rolled_back' THEN 'failed'
                     WHEN 'received' THEN 'received' ELSE 'started' END AS status_v0,
       s.received_at AS first_seen_at,
       CASE WHEN s.status IN ('finalized', 'skipped') THEN s.settled_at END AS finalized_at,
       s.uri AS source_uri,
       convert_from(e.envelope, 'UTF8')::json ->> 'version_hint' AS version_hint,
       'sha256:' || encode(u.content, 'hex') AS checksum_sha256,
       CASE WHEN u.published THEN r.store || '/' || r.layout[4] || '/' || r.run || '/delta_manifest.json' END AS delta_manifest_ref,
       r.store || '/' || r.layout[3] || '/' || r.run || '.prov.jsonld' AS prov_ref,
       s.entry, s.pipeline, s.change_key
FROM headgate.entry_state s
JOIN headgate.entry e ON e.id = s.entry
LEFT JOIN LATERAL (
    SELECT coalesce(u.content, q.content) AS content, coalesce(u.deployment, q.deployment) AS deployment,
           u.entry IS NOT NULL AS published
    FROM (SELECT 1) one
    LEFT JOIN headgate.publication u ON u.entry = s.entry
    LEFT JOIN headgate.quarantine q ON q.entry = s.entry LIMIT 1) u ON true
LEFT JOIN LATERAL (
    SELECT rtrim(t.uri, '/') AS store, s.entry || '-' || s.fence AS run, i.layout
    FROM headgate.deployment d CROSS JOIN headgate.identity i
    JOIN headgate.pipeline p ON p.id = e.pipeline JOIN headgate.store t ON t.id = p.store
    WHERE d.id = u.deployment AND jsonb_typeof(d.declared -> 'dataset') = 'object' LIMIT 1) r ON true;

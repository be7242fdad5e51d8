-- The ledger in other words: where each entry is, and the names that older systems use for it.
--
-- Everything hangs on `entry` by lateral look-ups, so a question about one entry touches one entry.
-- Ask by `entry` or by `change_key` (bytea): these are indexed, hex text is not. A question by uri
-- reads through `entry` once and looks up only what it finds.

CREATE INDEX action_entry ON headgate.action (entry);
CREATE INDEX conflict_entry ON headgate.conflict (entry);

-- Where each entry is now. Within one fence an operator's line comes after the attempt's, and has the
-- higher batch. A line that ended a lost attempt says nothing about the entry.
CREATE VIEW headgate.entry_state AS
SELECT e.id AS entry, p.name AS pipeline, e.uri, encode(e.key, 'hex') AS key,
       CASE WHEN q.entry IS NOT NULL THEN 'quarantined'
            WHEN w.worker IS NOT NULL THEN 'claimed'
            WHEN w.due_at IS NOT NULL THEN 'waiting'
            WHEN w.id IS NOT NULL THEN 'received'
            ELSE j.outcome::text END AS status,
       coalesce(q.reason, j.reason) AS reason,
       coalesce(w.attempts, q.attempts, j.attempt, 0::smallint) AS attempts,
       coalesce(w.fence, q.fence, j.fence, 0) AS fence,
       e.event_time, e.received_at,
       CASE WHEN w.id IS NULL THEN j.at END AS settled_at,
       CASE WHEN w.worker IS NULL THEN w.due_at END AS due_at,
       k.name AS worker, u.version,
       e.key AS change_key, j.batch, j.n
FROM headgate.entry e
JOIN headgate.pipeline p ON p.id = e.pipeline
LEFT JOIN LATERAL (
    SELECT w.id, w.worker, w.due_at, w.attempts, w.fence
    FROM headgate.work w WHERE w.pipeline = e.pipeline AND w.id = e.id LIMIT 1) w ON true
LEFT JOIN LATERAL (
    SELECT q.entry, q.reason, q.attempts, q.fence
    FROM headgate.quarantine q WHERE q.entry = e.id LIMIT 1) q ON true
LEFT JOIN LATERAL (
    SELECT j.batch, j.n, j.outcome, j.reason, j.attempt, j.fence, j.worker, j.at
    FROM headgate.journal j WHERE j.entry = e.id AND j.outcome <> 'fenced'
    ORDER BY j.fence DESC, j.batch DESC, j.n DESC LIMIT 1) j ON true
LEFT JOIN LATERAL (
    SELECT u.version FROM headgate.publication u WHERE u.entry = e.id LIMIT 1) u ON true
LEFT JOIN LATERAL (
    SELECT k.name FROM headgate.worker k
    WHERE k.id = CASE WHEN w.id IS NULL THEN j.worker ELSE w.worker END LIMIT 1) k ON true;

-- S1's record of a change, with `status_v0` in the words of S0. What was skipped had nothing to do
-- and is done: finalized. The steps between pending and finalized never rest, so nobody sees them here.
-- delta_manifest_ref and prov_ref say where the files are, of what was published or given up under a
-- dataset, once the projection has come by.
CREATE VIEW headgate.wal AS
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
       CASE WHEN u.published THEN r.store || '/runs/' || r.run || '/delta_manifest.json' END AS delta_manifest_ref,
       r.store || '/prov/' || r.run || '.prov.jsonld' AS prov_ref,
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
    SELECT rtrim(t.uri, '/') AS store, s.entry || '-' || s.fence AS run
    FROM headgate.deployment d
    JOIN headgate.pipeline p ON p.id = e.pipeline JOIN headgate.store t ON t.id = p.store
    WHERE d.id = u.deployment AND jsonb_typeof(d.declared -> 'dataset') = 'object' LIMIT 1) r ON true;

-- Who handled which event. A key never expires: its row is its own tombstone.
CREATE VIEW headgate.processed_events AS
SELECT s.pipeline AS handler,
       convert_from(e.envelope, 'UTF8')::json ->> 'event_id' AS event_id,
       s.key AS idempotency_key,
       coalesce(convert_from(e.envelope, 'UTF8')::json ->> 'subject', e.uri) AS aggregate_id,
       e.sequence AS sequence_number,
       CASE s.status WHEN 'finalized' THEN 'done' WHEN 'skipped' THEN 'skipped'
                     WHEN 'quarantined' THEN 'failed' WHEN 'rolled_back' THEN 'failed'
                     WHEN 'claimed' THEN 'processing' ELSE 'pending' END AS status,
       CASE WHEN s.status = 'claimed' THEN s.worker END AS owner,
       s.attempts,
       k.alive_until AS lease_expires_at,
       NULL::timestamptz AS expires_at,
       s.entry, s.uri, s.change_key
FROM headgate.entry_state s
JOIN headgate.entry e ON e.id = s.entry
LEFT JOIN LATERAL (
    SELECT k.alive_until FROM headgate.work w JOIN headgate.worker k ON k.id = w.worker
    WHERE w.pipeline = e.pipeline AND w.id = e.id LIMIT 1) k ON true;

-- What readers see, in a catalog's words, and what takes a publication back.

-- A revert is an entry like any other: it passes the same gates. `reverts` is the publication it takes
-- back, `restores` the one whose state it brings back; null there: nothing was published before.
ALTER TABLE headgate.entry ADD COLUMN reverts bigint, ADD COLUMN restores bigint,
    ADD CHECK (restores IS NULL OR reverts IS NOT NULL);
CREATE INDEX entry_reverts ON headgate.entry (reverts) WHERE reverts IS NOT NULL;

-- Which declaration of a pipeline holds: the one that was registered last, also when it is an older one
-- that was brought back. Who may read what it publishes hangs on it.
ALTER TABLE headgate.deployment ADD COLUMN registered_at timestamptz NOT NULL DEFAULT clock_timestamp();

-- Records tell what a pipeline declared, and what it ran on, when it ran: to declare something else is
-- another deployment, and changes nothing about what earlier ones did.
ALTER TABLE headgate.deployment DROP CONSTRAINT deployment_pipeline_version_code_params_key;
CREATE UNIQUE INDEX deployment_declared
    ON headgate.deployment (pipeline, version, code, params, md5(declared::text));

-- The items of catalogued pipelines, as a search needs them: the heads only, one row per object.
-- What an item says is in the journal line of its entry.
CREATE TABLE headgate.item (
    entry      bigint PRIMARY KEY,
    pipeline   smallint NOT NULL,
    collection text NOT NULL COLLATE "C",
    item       text NOT NULL COLLATE "C",
    starts     timestamptz NOT NULL,
    ends       timestamptz NOT NULL CHECK (ends >= starts),
    bbox       box,
    retired    boolean NOT NULL DEFAULT false) WITH (fillfactor = 90);
CREATE INDEX item_name ON headgate.item (collection, item, entry);
CREATE INDEX item_whose ON headgate.item (pipeline, collection);
-- An interval meets another one where neither ends before the other begins: no order of starts finds
-- that. A search for a place mostly has a time too, and either may be the rare one.
CREATE INDEX item_when ON headgate.item USING gist (tstzrange(starts, ends, '[]'));
CREATE INDEX item_where ON headgate.item USING gist (bbox, tstzrange(starts, ends, '[]'))
    WHERE bbox IS NOT NULL;

-- The folder of a static catalog that an item is listed in: the first byte of the SHA-256 of its id.
-- The encoding of a ledger never changes, which Postgres cannot know of `convert_to`.
CREATE FUNCTION headgate.shard(item text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT get_byte(sha256(convert_to(item, 'UTF8')), 0) $$;
CREATE INDEX item_shard ON headgate.item (collection, headgate.shard(item));

-- How far the files beside the data have been written, by store. It moves after they are durable.
CREATE TABLE headgate.projection (
    store    smallint PRIMARY KEY REFERENCES headgate.store,
    pos      bigint NOT NULL CHECK (pos >= 0),
    moved_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- A line of the journal with every row it points to: what records are rendered from. The version that
-- was replaced comes along, and the run that replaced this one. Everything hangs on the line by
-- lateral look-ups, so a question about one line touches the rows of one line.
CREATE VIEW headgate.facts AS
SELECT j.batch, j.n, c.pos, j.entry, j.fence, j.attempt, j.outcome::text AS outcome, j.reason, j.at,
       j.steps, j.doc, k.name AS worker,
       e.pipeline AS pipeline_id, p.name AS pipeline, s.uri AS store,
       e.key, e.uri, e.event_time, e.received_at, e.sequence, e.envelope,
       octet_length(e.data) AS inline_size, e.reverts, e.restores,
       d.version AS pipeline_version, d.code, d.params, d.declared::text AS declared,
       u.version, u.predecessor, u.successor, u.removed, u.content, u.effect, u.artifacts::text AS artifacts,
       b.version AS b_version, b.removed AS b_removed, b.content AS b_content,
       b.artifacts::text AS b_artifacts, b.fence AS b_fence, b.doc AS b_doc, b.uri AS b_uri,
       b.envelope AS b_envelope, b.inline_size AS b_inline_size,
       z.fence AS z_fence, a.because, a.actor
FROM headgate.journal j
LEFT JOIN LATERAL (
    SELECT c.pos FROM headgate.commit c WHERE c.batch = j.batch LIMIT 1) c ON true
JOIN LATERAL (SELECT * FROM headgate.entry e WHERE e.id = j.entry LIMIT 1) e ON true
JOIN headgate.pipeline p ON p.id = e.pipeline
JOIN headgate.store s ON s.id = p.store
LEFT JOIN LATERAL (
    SELECT k.name FROM headgate.worker k WHERE k.id = j.worker LIMIT 1) k ON true
LEFT JOIN LATERAL (
    SELECT * FROM headgate.publication u
    WHERE j.outcome = 'finalized' AND u.entry = j.entry LIMIT 1) u ON true
LEFT JOIN LATERAL (
    SELECT * FROM headgate.deployment d
    WHERE d.id = coalesce(u.deployment, (convert_from(j.doc, 'UTF8')::json ->> 'deployment')::int)
    LIMIT 1) d ON true
LEFT JOIN LATERAL (
    SELECT x.version, x.removed, x.content, x.artifacts, l.fence, l.doc, y.uri, y.envelope,
           octet_length(y.data) AS inline_size
    FROM headgate.publication x
    CROSS JOIN LATERAL (
        SELECT l.fence, l.doc FROM headgate.journal l
        WHERE l.entry = x.entry AND l.outcome = 'finalized' LIMIT 1) l
    CROSS JOIN LATERAL (SELECT * FROM headgate.entry y WHERE y.id = x.entry LIMIT 1) y
    WHERE x.entry = u.predecessor LIMIT 1) b ON true
LEFT JOIN LATERAL (
    SELECT l.fence FROM headgate.journal l
    WHERE l.entry = u.successor AND l.outcome = 'finalized' LIMIT 1) z ON true
LEFT JOIN LATERAL (
    SELECT a.because, a.actor FROM headgate.action a
    WHERE e.reverts IS NOT NULL AND a.entry = j.entry AND a.verb = 'revert' LIMIT 1) a ON true;

-- A revert is rolled back too: its line names what it took back, and who wanted that.
CREATE OR REPLACE VIEW headgate.rollback_registry AS
SELECT j.batch || '/' || j.n AS wal_pointer, c.pos AS commit,
       j.entry, p.name AS pipeline, encode(e.key, 'hex') AS idempotency_key, e.uri AS source_uri,
       CASE j.outcome WHEN 'quarantined' THEN 'attempt' WHEN 'finalized' THEN 'revert'
                      ELSE 'discard' END AS kind,
       j.reason, convert_from(j.doc, 'UTF8')::json ->> 'error' AS error,
       j.at AS rolled_back_at, a.actor, a.because,
       e.key AS change_key, e.reverts
FROM headgate.journal j
JOIN headgate.entry e ON e.id = j.entry
JOIN headgate.pipeline p ON p.id = e.pipeline
LEFT JOIN headgate.commit c ON c.batch = j.batch
LEFT JOIN LATERAL (
    SELECT a.actor, a.because FROM headgate.action a
    WHERE a.entry = j.entry
      AND a.verb = CASE j.outcome WHEN 'rolled_back' THEN 'discard' WHEN 'finalized' THEN 'revert' END
    ORDER BY a.id DESC LIMIT 1) a ON true
WHERE j.outcome IN ('quarantined', 'rolled_back') OR (j.outcome = 'finalized' AND e.reverts IS NOT NULL);

-- The record of a change, now with where its files are: of what was published or given up under a
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

-- What readers see, in a catalog's words.

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
       z.fence AS z_fence, a.because, a.actor, e.late
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
    WHERE e.reverts IS NOT NULL AND a.entry = j.entry AND a.verb IN ('revert', 'reset') LIMIT 1) a ON true;

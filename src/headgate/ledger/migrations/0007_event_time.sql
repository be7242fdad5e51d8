-- Event time: how far each stream has come by its own account, and what came after it had passed.

-- A stream is one source of a pipeline that declares event time. Its row is locked before anything of
-- the stream is admitted, so there is one order of admission, and what is late follows from it.
-- `seen` is the latest event time that counted, `watermark` that less the allowed lateness, as it stood
-- highest: a deployment that allows more does not take it back. `heard_at` is when something new came,
-- by this server's clock. A stream that has told nothing yet has neither `seen` nor `watermark`.
CREATE TABLE headgate.watermark (
    pipeline  smallint NOT NULL REFERENCES headgate.pipeline,
    source    text NOT NULL,
    seen      timestamptz,
    watermark timestamptz,
    heard_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    late      bigint NOT NULL DEFAULT 0 CHECK (late >= 0),
    PRIMARY KEY (pipeline, source),
    CHECK ((seen IS NULL) = (watermark IS NULL)),
    CHECK (watermark <= seen)) WITH (fillfactor = 50);

-- The watermark that had already passed this event when it was admitted. Null: it was on time, or its
-- pipeline does not ask. It is set in the admitting transaction and never again. That it is above
-- `event_time` is checked by `headgate verify`: a CHECK would be paid for by every entry.
ALTER TABLE headgate.entry ADD COLUMN late timestamptz;

-- Up to when what is held for being late was released by schedule. Null: nothing was due yet.
ALTER TABLE headgate.pipeline ADD COLUMN late_released timestamptz;

-- Facts say it too. The view is as it was, with one more column.
CREATE OR REPLACE VIEW headgate.facts AS
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
    WHERE e.reverts IS NOT NULL AND a.entry = j.entry AND a.verb = 'revert' LIMIT 1) a ON true;

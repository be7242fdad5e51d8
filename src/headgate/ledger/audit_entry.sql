-- name: entries
-- A page of entries with where each of them is, and with what is wrong about its publication.
-- Versions rise by one along links that are symmetric, so there can be no cycle among them.
SELECT e.id, e.uri,
       w.fence AS work_fence, w.worker, w.due_at IS NOT NULL AS waits, w.attempts + w.deaths AS spent,
       q.fence AS quarantine_fence, p.entry IS NOT NULL AS published,
       CASE WHEN p.entry IS NOT NULL THEN array_remove(ARRAY[
           CASE WHEN p.pipeline <> e.pipeline OR p.uri <> e.uri OR p.removed <> e.removed
                  OR (p.removed AND p.content <> a.content)
                  OR p.predecessor <> coalesce(e.reverts, e.replays) THEN 'publication_mismatch' END,
           CASE WHEN (p.predecessor IS NOT NULL AND (a.entry IS NULL OR a.successor IS DISTINCT FROM p.entry
                       OR a.pipeline <> p.pipeline OR a.uri <> p.uri))
                  OR (p.successor IS NOT NULL AND (z.entry IS NULL OR z.predecessor IS DISTINCT FROM p.entry
                       OR z.pipeline <> p.pipeline OR z.uri <> p.uri)) THEN 'link_broken' END,
           CASE WHEN a.version + 1 <> p.version THEN 'version_broken' END,
           CASE WHEN b.id IS NOT NULL AND e.reverts IS NULL AND e.replays IS NULL AND NOT CASE
                    WHEN headgate.alike(e.sequence, b.sequence) THEN e.sequence > b.sequence
                    ELSE (headgate.stood_at(e.sequence, e.event_time, e.received_at), e.id)
                       > (headgate.stood_at(b.sequence, b.event_time, b.received_at), b.id) END
                THEN 'head_went_back' END], NULL) END AS faults
FROM (SELECT id, pipeline, uri, removed, sequence, event_time, received_at, reverts, replays FROM headgate.entry
      WHERE id > $1 ORDER BY id LIMIT $2) e
LEFT JOIN headgate.work w ON w.pipeline = e.pipeline AND w.id = e.id
LEFT JOIN headgate.quarantine q ON q.entry = e.id
LEFT JOIN headgate.publication p ON p.entry = e.id
LEFT JOIN headgate.publication a ON a.entry = p.predecessor
LEFT JOIN headgate.entry b ON b.id = p.predecessor
LEFT JOIN headgate.publication z ON z.entry = p.successor
ORDER BY e.id

-- name: lines
-- Their journal. Nobody begins with an entry before its last line is committed, so the numbers of
-- its batches rise in the order of its lines.
SELECT j.entry, j.batch, j.n, j.fence, j.outcome::text AS outcome, j.steps
FROM headgate.journal j WHERE j.entry BETWEEN $1 AND $2
ORDER BY j.entry, j.batch, j.n

-- name: envelopes
SELECT e.id, e.key, e.uri, e.event_time, e.received_at, e.sequence, e.fingerprint, e.envelope, e.data,
       CASE WHEN e.data IS NOT NULL AND NOT p.removed THEN p.content END AS content,
       CASE WHEN e.replays IS NOT NULL THEN e.replay END AS replay, o.key AS replayed
FROM headgate.entry e LEFT JOIN headgate.publication p ON p.entry = e.id
LEFT JOIN headgate.entry o ON o.id = e.replays
WHERE e.id BETWEEN $1 AND $2 ORDER BY e.id

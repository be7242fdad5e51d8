-- A page of entries, the newest first. Whatever is asked for, a look is at so many entries and no more:
-- those from $2 up to, and without, $1. What says where an entry is now (entry_state) is looked up for
-- those only that fit by what is cheaper to see.

-- name: newest
SELECT coalesce(max(e.id), 0) FROM headgate.entry e

-- name: among_all
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM (SELECT e.id FROM headgate.entry e
      WHERE e.id < $1 AND e.id >= $2 AND ($4::text IS NULL OR e.uri LIKE $4)
        AND ($3::text[] IS NULL
             OR e.pipeline = ANY (ARRAY(SELECT p.id FROM headgate.pipeline p WHERE p.name = ANY ($3::text[]))))
      ORDER BY e.id DESC LIMIT $5) c
CROSS JOIN LATERAL (SELECT * FROM headgate.entry_state s WHERE s.entry = c.id OFFSET 0) s
ORDER BY s.entry DESC

-- name: among_ended
-- Those of which a line of the journal says this, and none that was taken back since.
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM (SELECT e.id FROM headgate.entry e
      WHERE e.id < $1 AND e.id >= $2 AND ($4::text IS NULL OR e.uri LIKE $4)
        AND ($3::text[] IS NULL
             OR e.pipeline = ANY (ARRAY(SELECT p.id FROM headgate.pipeline p WHERE p.name = ANY ($3::text[]))))
        AND (SELECT true FROM headgate.journal j
             WHERE j.entry = e.id AND j.outcome::text = $6 LIMIT 1)
      ORDER BY e.id DESC) c
CROSS JOIN LATERAL (SELECT * FROM headgate.entry_state s WHERE s.entry = c.id OFFSET 0) s
WHERE s.status = $6 ORDER BY s.entry DESC LIMIT $5

-- name: among_live
-- The rare ones are looked up from the table they are in, not looked for among all.
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM (SELECT w.id FROM headgate.pipeline p
      CROSS JOIN LATERAL (
          SELECT w.id FROM headgate.work w
          WHERE w.pipeline = p.id AND w.id < $1
            AND CASE $5::text WHEN 'claimed' THEN w.worker IS NOT NULL
                              WHEN 'waiting' THEN w.worker IS NULL AND w.due_at IS NOT NULL
                              ELSE w.worker IS NULL AND w.due_at IS NULL END
            AND ($3::text IS NULL
                 OR (SELECT e.uri LIKE $3 FROM headgate.entry e WHERE e.id = w.id))
          ORDER BY w.id DESC LIMIT $4) w
      WHERE $2::text[] IS NULL OR p.name = ANY ($2::text[]) ORDER BY w.id DESC LIMIT $4) c
CROSS JOIN LATERAL (SELECT * FROM headgate.entry_state s WHERE s.entry = c.id OFFSET 0) s
ORDER BY s.entry DESC

-- name: among_aside
SELECT s.entry, s.pipeline, s.uri, s.key, s.status, s.reason, s.attempts, s.fence, s.event_time,
       s.received_at, s.settled_at, s.due_at, s.worker, s.version
FROM (SELECT q.entry FROM headgate.quarantine q JOIN headgate.pipeline p ON p.id = q.pipeline
      WHERE q.entry < $1 AND $5::text = 'quarantined' AND ($2::text[] IS NULL OR p.name = ANY ($2::text[]))
        AND ($3::text IS NULL OR (SELECT e.uri LIKE $3 FROM headgate.entry e WHERE e.id = q.entry))
      ORDER BY q.entry DESC LIMIT $4) c
CROSS JOIN LATERAL (SELECT * FROM headgate.entry_state s WHERE s.entry = c.entry OFFSET 0) s
ORDER BY s.entry DESC

-- name: at
SELECT checkpoint FROM headgate.mark WHERE pipeline = $1 AND source = $2

-- name: move
-- A compare-and-swap: whoever started from an older place moves nothing and gets no row.
INSERT INTO headgate.mark AS m (pipeline, source, checkpoint) VALUES ($1, $2, $4)
ON CONFLICT (pipeline, source) DO UPDATE
    SET checkpoint = excluded.checkpoint, moved_at = clock_timestamp()
    WHERE m.checkpoint = $3::text
RETURNING true

-- Sums for windows. The long one is made of hours, the short ones of minutes, so each reaches back by up
-- to one row more than it says. A stretch without any rows is a stretch in which nothing happened.

-- name: windows
-- $1: seconds of the long window; $2, $3: names and seconds of the short ones.
WITH windows AS (
    SELECT '' AS name, 60 AS minutes, date_trunc('hour', clock_timestamp() - make_interval(secs => $1)) AS since
    UNION ALL
    SELECT t.name, 1, date_trunc('minute', clock_timestamp() - make_interval(secs => t.seconds))
    FROM unnest($2::text[], $3::float8[]) AS t(name, seconds))
SELECT w.name AS window_, p.name AS pipeline, coalesce(d.received, 0)::bigint AS received,
       coalesce(d.duplicate, 0)::bigint AS duplicate, coalesce(f.finalized, 0)::bigint AS finalized,
       coalesce(f.skipped, 0)::bigint AS skipped, coalesce(f.quarantined, 0)::bigint AS quarantined,
       coalesce(f.doubled, 0)::bigint AS doubled
FROM windows w CROSS JOIN headgate.pipeline p
LEFT JOIN LATERAL (
    SELECT sum(d.received) AS received, sum(d.duplicate) AS duplicate FROM headgate.flow_delivery d
    WHERE d.minutes = w.minutes AND d.at >= w.since AND d.pipeline = p.id) d ON true
LEFT JOIN LATERAL (
    SELECT sum(f.finalized) AS finalized, sum(f.skipped) AS skipped, sum(f.quarantined) AS quarantined,
           sum(f.doubled) AS doubled FROM headgate.flow f
    WHERE f.minutes = w.minutes AND f.at >= w.since AND f.pipeline = p.id) f ON true
ORDER BY p.name, w.name

-- name: latencies
WITH windows AS (
    SELECT '' AS name, 60 AS minutes, date_trunc('hour', clock_timestamp() - make_interval(secs => $1)) AS since
    UNION ALL
    SELECT t.name, 1, date_trunc('minute', clock_timestamp() - make_interval(secs => t.seconds))
    FROM unnest($2::text[], $3::float8[]) AS t(name, seconds))
SELECT w.name AS window_, p.name AS pipeline, l.bucket, sum(l.n)::bigint AS n
FROM windows w
JOIN headgate.flow_latency l ON l.minutes = w.minutes AND l.at >= w.since
JOIN headgate.pipeline p ON p.id = l.pipeline
GROUP BY 1, 2, 3

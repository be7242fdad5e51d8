-- name: declared
-- The tables that pipelines write declared rows to now, and those they once did.
WITH latest AS (
    SELECT DISTINCT ON (d.pipeline) d.pipeline, d.declared FROM headgate.deployment d
    ORDER BY d.pipeline, d.registered_at DESC, d.id DESC),
now_in AS (
    SELECT DISTINCT r ->> 'table' AS name
    FROM latest l, jsonb_array_elements(l.declared -> 'rows') AS r)
SELECT DISTINCT r ->> 'table' AS name, (r ->> 'table') IN (SELECT name FROM now_in) AS current
FROM headgate.deployment d, jsonb_array_elements(d.declared -> 'rows') AS r
ORDER BY 1

-- name: readable
-- Null when there is no such table; otherwise whether it carries our column and may be read.
SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.id AND a.attname = '_headgate_entry'
               AND NOT a.attisdropped) AS ours,
       has_table_privilege(t.id, 'SELECT') AS allowed
FROM (SELECT to_regclass($1) AS id) t WHERE t.id IS NOT NULL

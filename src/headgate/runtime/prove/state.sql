-- name: endings
-- What became of each sample. One that is not done after its world has ended is in no state at all.
SELECT e.uri, coalesce(last.outcome::text, 'unfinished') AS outcome,
       coalesce(q.class || ': ' || q.reason, last.reason) AS reason, q.error,
       p.artifacts::text AS artifacts
FROM headgate.entry e
LEFT JOIN headgate.quarantine q ON q.entry = e.id
LEFT JOIN headgate.publication p ON p.entry = e.id
LEFT JOIN LATERAL (
    SELECT j.outcome, j.reason FROM headgate.journal j WHERE j.entry = e.id
    AND j.outcome <> 'fenced' ORDER BY j.fence DESC, j.batch DESC, j.n DESC LIMIT 1) last ON true
ORDER BY e.id;

-- name: tables
-- The user's tables, each with the columns whose values are the server's own idea.
SELECT c.oid::regclass::text AS name,
       CASE n.nspname WHEN 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END
           AS label,
       array(
           SELECT a.attname::text FROM pg_attribute a
           LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
           WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             AND (a.attidentity <> '' OR a.attname IN ('_headgate_entry', '_headgate_at')
                  OR pg_get_expr(d.adbin, d.adrelid) ~* ($$nextval\(|now\(|current_|clock_$$
                      || $$|timeofday|localtime|timestamp\(|uuid|random\($$)))
           AS made_up
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'headgate', 'headgate_prove')
  AND n.nspname NOT LIKE 'pg_t%'
ORDER BY 2;

-- name: writers
-- Which lines of the user's wrote to a table over a connection of their own.
SELECT DISTINCT CASE WHEN relation LIKE 'public.%' THEN substr(relation, 8) ELSE relation END
    AS relation, who
FROM headgate_prove.wrote;

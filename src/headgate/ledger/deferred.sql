-- Tables that deferred statements name (`deferred.py`).

-- function: is_plain
-- Is a table as plain as the words of its statements? Nothing runs beside a row that is written,
-- but for checks, and defaults that see each row of one statement like rows of several. A statement
-- asks this itself: somebody may create a trigger at any time.
CREATE OR REPLACE FUNCTION headgate.is_plain(named text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT c.relkind = 'r' AND NOT c.relhasrules AND NOT c.relhassubclass AND NOT c.relrowsecurity
        AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
        AND NOT EXISTS (
            SELECT FROM pg_attrdef a
            JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid
            JOIN pg_proc f ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = f.oid
            WHERE a.adrelid = c.oid AND f.provolatile = 's')
    FROM pg_class c WHERE c.oid = to_regclass(named)
$$;

-- name: tables
-- Which tables are these, and how plain? `kept`: no row elsewhere goes with one of theirs.
SELECT to_regclass(asked.name)::oid AS oid,
    coalesce(headgate.is_plain(asked.name), false) AS plain,
    NOT EXISTS (
        SELECT FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
        WHERE t.tgrelid = to_regclass(asked.name) AND t.tgisinternal
          AND f.proname LIKE 'RI\_FKey\_%\_del') AS kept
FROM unnest($1::text[]) WITH ORDINALITY AS asked (name, at)
ORDER BY asked.at;

-- name: are_plain
SELECT bool_and(coalesce(headgate.is_plain(name), false)) FROM unnest($1::text[]) AS asked (name);

-- Tables that deferred statements name (`deferred.py`).

-- function: is_plain
-- Is a table as plain as the words of its statements? Whatever Postgres does beside writing their
-- rows must be known: no triggers but those of foreign keys, no rules, no row security. No function
-- of anybody's own in a default or a check, nor one of Postgres that tells what the session did
-- last; it might look at other rows, or at other tables. A sequence belongs to its table alone.
--
-- `touched` is what a statement may do to a key that others refer to: `upd`, `del` or nothing. Then
-- rows elsewhere must not go along.
--
-- A statement asks for itself, and is `sure` or fails: somebody may create a trigger at any time,
-- but not any more once its table is locked, which is before it asks.
CREATE OR REPLACE FUNCTION headgate.is_plain(named text, touched text, sure boolean) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    this   regclass := to_regclass(named);
    answer boolean;
BEGIN
    answer := EXISTS (
        SELECT FROM pg_class c
        WHERE c.oid = this AND c.relkind = 'r' AND c.relpersistence <> 't'
          AND NOT (c.relhasrules OR c.relhassubclass OR c.relrowsecurity))
    AND NOT EXISTS (
        SELECT FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
        WHERE t.tgrelid = this AND (
            f.pronamespace <> 'pg_catalog'::regnamespace
            OR f.proname NOT LIKE 'RI\_FKey\_%' AND f.proname <> 'unique_key_recheck'
            OR touched <> '' AND f.proname LIKE 'RI\_FKey\_%\_' || touched
               AND split_part(f.proname, '_', 3) NOT IN ('check', 'noaction', 'restrict')))
    AND NOT EXISTS (
        SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_type e ON e.oid = t.typelem
        WHERE a.attrelid = this AND a.attnum > 0 AND NOT a.attisdropped
          AND (t.typtype NOT IN ('b', 'e', 'r', 'm') OR e.typtype NOT IN ('b', 'e')))
    AND NOT EXISTS (
        SELECT FROM (
            SELECT 'pg_attrdef'::regclass, d.oid, pg_get_expr(d.adbin, this)
            FROM pg_attrdef d WHERE d.adrelid = this
            UNION ALL
            SELECT 'pg_constraint'::regclass, k.oid, pg_get_expr(k.conbin, this)
            FROM pg_constraint k WHERE k.conrelid = this AND k.contype = 'c') AS x (kind, id, said)
        WHERE EXISTS (
            SELECT FROM pg_depend u
            LEFT JOIN pg_type t ON u.refclassid = 'pg_type'::regclass AND t.oid = u.refobjid
            LEFT JOIN pg_class s ON u.refclassid = 'pg_class'::regclass AND s.oid = u.refobjid
            WHERE u.classid = x.kind AND u.objid = x.id AND (
                u.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
                OR t.typtype NOT IN ('b', 'e')
                OR s.relkind = 'S' AND NOT EXISTS (
                    SELECT FROM pg_depend o
                    WHERE o.classid = 'pg_class'::regclass AND o.objid = s.oid
                      AND o.refclassid = 'pg_class'::regclass AND o.refobjid = this
                      AND o.deptype IN ('a', 'i'))))
        OR EXISTS (
            SELECT FROM regexp_matches(x.said, '(\w+)"?\s*\(', 'g') AS call
            JOIN pg_proc f ON f.proname = call[1] AND f.pronamespace = 'pg_catalog'::regnamespace
            WHERE f.provolatile <> 'i' AND f.proname NOT IN (
                'now', 'clock_timestamp', 'gen_random_uuid', 'uuidv7', 'random', 'nextval')));
    IF sure AND NOT answer THEN
        RAISE EXCEPTION 'table % is not plain any more', named USING ERRCODE = 'HG004';
    END IF;
    RETURN answer;
END $$;

-- name: tables
-- Which tables are these, which columns do they have, and are they plain?
SELECT this.oid, headgate.is_plain(asked.name, asked.touched, false) AS plain,
    ARRAY(SELECT a.attname::text FROM pg_attribute a
          WHERE a.attrelid = this.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (name, touched, at),
    LATERAL (SELECT to_regclass(asked.name)::oid AS oid) AS this
ORDER BY asked.at;

-- name: surely_plain
SELECT headgate.is_plain(asked.name, asked.touched, true)
FROM unnest($1::text[], $2::text[]) AS asked (name, touched);

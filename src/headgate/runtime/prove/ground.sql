-- name: ground
-- What a scratch ledger has beside its own: numbers for the samples, and eyes on foreign hands.
CREATE SCHEMA headgate_prove;
CREATE TABLE headgate_prove.sample (id bigint PRIMARY KEY, uri text NOT NULL);

-- An object has the same entry number in every world, in whichever order the samples come.
CREATE FUNCTION headgate_prove.number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.id INTO NEW.id FROM headgate_prove.sample s WHERE s.uri = NEW.uri;
    RETURN NEW;
END $$;
CREATE TRIGGER prove_number BEFORE INSERT ON headgate.entry
    FOR EACH ROW EXECUTE FUNCTION headgate_prove.number();

-- What a handler's own connection writes. The row is part of what it commits, or rolls back.
CREATE TABLE headgate_prove.wrote (
    n bigint GENERATED ALWAYS AS IDENTITY, relation text NOT NULL, op text NOT NULL,
    who text NOT NULL);
CREATE FUNCTION headgate_prove.wrote() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF current_setting('application_name') LIKE 'prove:%' THEN
        INSERT INTO headgate_prove.wrote (relation, op, who) VALUES (
            TG_RELID::regclass::text, TG_OP, current_setting('application_name'));
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION headgate_prove.watch() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE made record;
BEGIN
    FOR made IN SELECT * FROM pg_event_trigger_ddl_commands()
        WHERE object_type = 'table' AND schema_name NOT IN ('headgate', 'headgate_prove', 'pg_temp')
    LOOP
        EXECUTE format(
            'CREATE TRIGGER prove_wrote AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s'
            ' FOR EACH STATEMENT EXECUTE FUNCTION headgate_prove.wrote()', made.objid::regclass);
    END LOOP;
END $$;
CREATE EVENT TRIGGER prove_watch ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO')
    EXECUTE FUNCTION headgate_prove.watch();

-- name: samples
INSERT INTO headgate_prove.sample SELECT n, uri FROM unnest($1::text[]) WITH ORDINALITY AS s(uri, n);

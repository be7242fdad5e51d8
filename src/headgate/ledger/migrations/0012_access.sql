-- Who may do what: a token has a role, an end, and perhaps pipelines it is limited to. A session of
-- the console is a token that a cookie holds; a ticket is one that is good for signing in, once.

ALTER TABLE headgate.token
    ADD COLUMN kind      text NOT NULL DEFAULT 'api' CHECK (kind IN ('api', 'session', 'ticket')),
    ADD COLUMN role      text CHECK (role IN ('scraper', 'viewer', 'operator', 'steward', 'admin')),
    ADD COLUMN pipelines text[] CHECK (cardinality(pipelines) > 0),
    -- A session ends with the token that opened it.
    ADD COLUMN parent    text REFERENCES headgate.token,
    ADD CHECK (parent IS NULL OR kind = 'session');
UPDATE headgate.token SET role = CASE WHEN 'read' = ANY (scopes) THEN 'viewer' ELSE 'scraper' END;
ALTER TABLE headgate.token ALTER COLUMN role SET NOT NULL, DROP COLUMN scopes;
CREATE INDEX token_ended ON headgate.token (expires_at) WHERE kind <> 'api';

-- What somebody asked for under a key of their own, and the answer: it commits with the action, so
-- that asking again gives the same answer and does nothing.
CREATE TABLE headgate.action_key (
    who     text NOT NULL,
    key     text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    payload bytea NOT NULL CHECK (octet_length(payload) = 32),
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    answer  json,  -- to the byte
    PRIMARY KEY (who, key));
CREATE INDEX action_key_at ON headgate.action_key (at);

-- The doors: calls from outside that somebody vouched for, previews that were shown, and who may ask.

-- A call that was believed. Its id is used up: this row is what the second use is answered with.
-- Of the proof (a signature, a token) only a hash is kept. `signed` is set where the proof covers
-- nothing but the body: then the same body is the same call, whatever id is written on it.
-- actor and because are in the sender's words; what was proven is key_id.
CREATE TABLE headgate.request (
    pipeline  smallint NOT NULL REFERENCES headgate.pipeline,
    id        text NOT NULL CHECK (length(id) BETWEEN 1 AND 256),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    scheme    text NOT NULL,
    key_id    text NOT NULL,
    verdict   text NOT NULL CHECK (verdict IN ('admitted', 'previewed')),
    payload   bytea NOT NULL CHECK (octet_length(payload) = 32),
    envelope  bytea NOT NULL CHECK (octet_length(envelope) = 32),
    proof     bytea NOT NULL CHECK (octet_length(proof) = 32),
    signed    bytea CHECK (octet_length(signed) = 32),
    actor     text,
    because   text,
    key       bytea CHECK (octet_length(key) = 32),
    preview   bytea CHECK (octet_length(preview) = 32),
    answer    text NOT NULL,
    reuses    int NOT NULL DEFAULT 0,
    conflicts int NOT NULL DEFAULT 0,
    last_at   timestamptz,
    PRIMARY KEY (pipeline, id),
    CHECK ((verdict = 'admitted') = (key IS NOT NULL)));
CREATE UNIQUE INDEX request_signed ON headgate.request (pipeline, signed) WHERE signed IS NOT NULL;

-- The same id with another payload: refused, and kept as evidence.
CREATE TABLE headgate.request_conflict (
    pipeline smallint NOT NULL,
    id       text NOT NULL,
    payload  bytea NOT NULL CHECK (octet_length(payload) = 32),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    times    int NOT NULL DEFAULT 1,
    PRIMARY KEY (pipeline, id, payload),
    FOREIGN KEY (pipeline, id) REFERENCES headgate.request);

-- What a dry run showed. A call that changes something cites it, once, while it is still true.
CREATE TABLE headgate.preview (
    pipeline smallint NOT NULL REFERENCES headgate.pipeline,
    digest   bytea NOT NULL CHECK (octet_length(digest) = 32),
    payload  bytea NOT NULL CHECK (octet_length(payload) = 32),
    uri      text NOT NULL,
    head     bigint,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    used_by  text,
    PRIMARY KEY (pipeline, digest));

-- Who may ask. The token itself is shown once, when it is made; this is its hash.
CREATE TABLE headgate.token (
    id         text PRIMARY KEY CHECK (id ~ '^[a-z0-9]{12}$'),
    name       text NOT NULL CHECK (length(trim(name)) > 0),
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    scopes     text[] NOT NULL CHECK (cardinality(scopes) > 0),
    made_by    text NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    revoked_by text,
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL)));

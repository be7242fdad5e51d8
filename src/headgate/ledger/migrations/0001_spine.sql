-- The spine of the ledger. Read it from top to bottom: who works, what arrived, what is to be done,
-- what was done, in which order, and what readers see.
--
-- Hot tables carry no foreign keys: each check would lock and dirty the entry's row again, and
-- `headgate verify` looks for what they would have kept. Cold tables have them.
--
-- Columns of hot tables stand in the order of their widths, so that no byte is spent on padding.

CREATE TYPE headgate.status AS ENUM (
    'received', 'claimed', 'fetched', 'validated', 'staged', 'promoted', 'finalized',
    'failed', 'waiting', 'quarantined', 'rolled_back', 'skipped', 'fenced');

-- Born once. An anchor in a store names the ledger it belongs to.
CREATE TABLE headgate.identity (
    id      uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    single  boolean NOT NULL DEFAULT true UNIQUE CHECK (single),
    born_at timestamptz NOT NULL DEFAULT clock_timestamp());
INSERT INTO headgate.identity DEFAULT VALUES;

CREATE TABLE headgate.store (
    id  smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uri text NOT NULL UNIQUE);

CREATE TABLE headgate.pipeline (
    id         smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9_-]{0,62}$'),
    store      smallint NOT NULL REFERENCES headgate.store,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- What code ran: evidence, and no part of any key. A deploy re-runs nothing. To declare something else is
-- another deployment: records tell what a pipeline declared when it ran. The one that was registered last
-- holds, also when it is an older one that was brought back.
CREATE TABLE headgate.deployment (
    id            int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline      smallint NOT NULL REFERENCES headgate.pipeline,
    version       text NOT NULL,
    code          bytea NOT NULL,
    params        bytea NOT NULL,
    declared      jsonb NOT NULL,
    first_seen    timestamptz NOT NULL DEFAULT clock_timestamp(),
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE UNIQUE INDEX deployment_declared
    ON headgate.deployment (pipeline, version, code, params, md5(declared::text));

-- The lease belongs to the worker, not to the entry: one heartbeat however much it holds.
CREATE TABLE headgate.worker (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL,
    host         text NOT NULL,
    pid          int NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    alive_until  timestamptz NOT NULL,
    buried_at    timestamptz,
    buried_why   text,
    CHECK ((buried_at IS NULL) = (buried_why IS NULL)));
CREATE INDEX worker_alive ON headgate.worker (alive_until) WHERE buried_at IS NULL;

-- What arrived, once per key. Never updated and never deleted: the row is its own tombstone.
-- A revert arrives too: `reverts` is the publication it takes back, `restores` the one whose state it
-- brings back; null there: nothing was published before.
-- `late` is the watermark that had already passed the event when it was admitted. Null: it was on time,
-- or its pipeline does not ask. It is set in the admitting transaction and never again. That it is above
-- `event_time` is checked by `headgate verify`: a CHECK would be paid for by every entry.
CREATE TABLE headgate.entry (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_time  timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    fingerprint bigint NOT NULL,
    pipeline    smallint NOT NULL,
    removed     boolean NOT NULL,
    key         bytea NOT NULL CHECK (octet_length(key) = 32),
    uri         text NOT NULL,
    sequence    text COLLATE "C",
    envelope    bytea NOT NULL,
    data        bytea,
    reverts     bigint,
    restores    bigint CHECK (restores IS NULL OR reverts IS NOT NULL),
    late        timestamptz,
    UNIQUE (pipeline, key));
CREATE INDEX entry_reverts ON headgate.entry (reverts) WHERE reverts IS NOT NULL;
ALTER TABLE headgate.entry ALTER COLUMN envelope SET STORAGE EXTERNAL;

-- What is still to be done. Only live work is here, so the table stays small.
--   received: worker and due_at are null · waiting: due_at is set · claimed: worker is set
-- A claim touches no indexed column, so it is a HOT update; a settled attempt deletes the row, and
-- the row deleted under the right fence is the proof that the lease was still ours. A claimed row is
-- larger than a new one: a page is filled so far that there is room for all its rows once more.
CREATE TABLE headgate.work (
    id         bigint NOT NULL,
    subject    bigint NOT NULL,
    pipeline   smallint NOT NULL,
    attempts   smallint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    deaths     smallint NOT NULL DEFAULT 0 CHECK (deaths >= 0),
    alone      boolean NOT NULL DEFAULT false,
    fence      int NOT NULL DEFAULT 0 CHECK (fence >= 0),
    worker     int,
    due_at     timestamptz,
    first_at   timestamptz,
    claimed_at timestamptz,
    upstream   bigint,
    PRIMARY KEY (pipeline, id)) WITH (
        fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX work_subject ON headgate.work (subject, id);
CREATE INDEX work_due ON headgate.work (pipeline, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX work_upstream ON headgate.work (upstream) WHERE upstream IS NOT NULL;

-- How often an entry was told again. A duplicate has no entry; it is counted here.
CREATE TABLE headgate.redelivery (
    entry     bigint PRIMARY KEY,
    times     int NOT NULL,
    conflicts int NOT NULL,
    last_at   timestamptz NOT NULL) WITH (fillfactor = 70);

-- The same key with another payload: refused, and kept as evidence.
CREATE TABLE headgate.conflict (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entry       bigint NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    fingerprint bigint NOT NULL,
    envelope    bytea NOT NULL);

-- Deliveries counted as they were taken in. Spread over slots so that receivers do not queue up
-- behind one row; `verify` holds the sums against the tables.
CREATE TABLE headgate.tally (
    pipeline  smallint NOT NULL,
    source    text NOT NULL,
    slot      smallint NOT NULL,
    received  bigint NOT NULL,
    admitted  bigint NOT NULL,
    duplicate bigint NOT NULL,
    conflict  bigint NOT NULL,
    PRIMARY KEY (pipeline, source, slot)) WITH (fillfactor = 50);

-- What polled sources showed us. Its compare-and-swap numbers the generations of a uri.
CREATE TABLE headgate.listing (
    pipeline   smallint NOT NULL,
    uri        text NOT NULL,
    source     text NOT NULL,
    hint       text NOT NULL,
    generation bigint NOT NULL CHECK (generation > 0),
    removed    boolean NOT NULL,
    PRIMARY KEY (pipeline, uri, source));

-- What was done: one row per attempt, and one per decision of an operator. Append-only.
CREATE SEQUENCE headgate.batch;
CREATE TABLE headgate.journal (
    batch    bigint NOT NULL,
    entry    bigint NOT NULL,
    at       timestamptz NOT NULL,
    n        int NOT NULL,
    fence    int NOT NULL,
    outcome  headgate.status NOT NULL,
    worker   int,
    attempt  smallint NOT NULL,
    reason   text,
    steps    text NOT NULL,
    doc      bytea,
    hash     bytea NOT NULL,
    PRIMARY KEY (batch, n));
CREATE INDEX journal_entry ON headgate.journal (entry, fence);

-- The order of the journal: one row per transaction that wrote to it, made last, under a lock.
-- Each chains to the one before over the hashes of its batch.
CREATE TABLE headgate.commit (
    pos   bigint PRIMARY KEY CHECK (pos > 0),
    batch bigint NOT NULL UNIQUE,
    n     int NOT NULL CHECK (n > 0),
    at    timestamptz NOT NULL,
    chain bytea NOT NULL CHECK (octet_length(chain) = 32));

-- What readers see. The head of a uri is the row without a successor, and there is one at most.
-- `seen` is the last change that was compared with it and brought the same bytes: what comes before
-- that change is as stale as what comes before the publication.
CREATE TABLE headgate.publication (
    entry        bigint PRIMARY KEY,
    predecessor  bigint,
    successor    bigint CHECK (successor <> entry),
    seen         bigint,
    version      int NOT NULL CHECK (version > 0),
    deployment   int NOT NULL,
    pipeline     smallint NOT NULL,
    removed      boolean NOT NULL DEFAULT false,
    content      bytea NOT NULL CHECK (octet_length(content) = 32),
    effect       bytea NOT NULL CHECK (octet_length(effect) = 32),
    uri          text NOT NULL,
    artifacts    jsonb,
    CHECK ((version = 1) = (predecessor IS NULL))) WITH (fillfactor = 90);
CREATE UNIQUE INDEX publication_head ON headgate.publication (pipeline, uri) WHERE successor IS NULL;

-- Bytes in a store. An object is condemned before its bytes are deleted, and a generation is never
-- used twice: whoever staged it before it was condemned cannot finalize with it.
CREATE SEQUENCE headgate.object_generation;
CREATE TABLE headgate.object (
    store      smallint NOT NULL REFERENCES headgate.store,
    digest     bytea NOT NULL CHECK (octet_length(digest) = 32),
    generation bigint NOT NULL,
    state      text NOT NULL CHECK (state IN ('staged', 'kept', 'condemned')),
    size       bigint NOT NULL,
    touched_at timestamptz NOT NULL,
    PRIMARY KEY (store, digest)) WITH (fillfactor = 70);
CREATE INDEX object_unkept ON headgate.object (touched_at) WHERE state <> 'kept';

-- What a person has to decide.
CREATE TABLE headgate.quarantine (
    entry      bigint PRIMARY KEY,
    pipeline   smallint NOT NULL,
    subject    bigint NOT NULL,
    fence      int NOT NULL,
    attempts   smallint NOT NULL,
    class      text NOT NULL CHECK (class IN (
        'schema', 'permission', 'missing', 'care', 'conflict', 'late', 'approval', 'exhausted',
        'permanent')),
    reason     text NOT NULL,
    error      text NOT NULL,
    preview    text,
    content    bytea,
    deployment int NOT NULL,
    failures   jsonb NOT NULL,
    first_at   timestamptz NOT NULL,
    last_at    timestamptz NOT NULL);
CREATE INDEX quarantine_filter ON headgate.quarantine (pipeline, class, reason);

-- Named steps outside Postgres, memoised: a finished call is never made again.
CREATE TABLE headgate.call (
    entry   bigint NOT NULL,
    name    text NOT NULL,
    key     bytea NOT NULL,
    begun   timestamptz NOT NULL DEFAULT clock_timestamp(),
    done    timestamptz,
    undone  timestamptz,
    result  bytea,
    PRIMARY KEY (entry, name));

-- Who decided what, and why.
CREATE TABLE headgate.action (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text NOT NULL,
    verb    text NOT NULL,
    entry   bigint,
    because text NOT NULL CHECK (length(trim(because)) > 0));

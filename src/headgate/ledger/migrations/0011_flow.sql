-- How much: what came in and what became of it, added up by the minute and by the hour.
--
-- Everything here follows from the journal and the tally, and is added up behind them: nobody who works
-- waits for it. `headgate verify` holds it against them.

-- Up to which commit the journal is added up. Whoever adds up holds this row, so there is one at a time,
-- and it moves in the transaction that added: a crash adds nothing, and nothing twice.
CREATE TABLE headgate.flow_mark (
    single    boolean PRIMARY KEY DEFAULT true CHECK (single),
    pos       bigint NOT NULL CHECK (pos >= 0),
    rolled_at timestamptz NOT NULL DEFAULT clock_timestamp()) WITH (fillfactor = 50);
INSERT INTO headgate.flow_mark (pos) VALUES (0);

-- How attempts ended, by when their commit was made. `minutes` says how long a row is: minutes go after
-- some days, hours stay. `other` are decisions of operators and what was given back: with it a row counts
-- every line of the journal once. `doubled` are those of the finalized whose entry was finalized before.
CREATE TABLE headgate.flow (
    at          timestamptz NOT NULL,
    minutes     smallint NOT NULL CHECK (minutes IN (1, 60)),
    pipeline    smallint NOT NULL,
    finalized   bigint NOT NULL,
    skipped     bigint NOT NULL,
    quarantined bigint NOT NULL,
    waiting     bigint NOT NULL,
    fenced      bigint NOT NULL,
    other       bigint NOT NULL,
    doubled     bigint NOT NULL,
    PRIMARY KEY (minutes, at, pipeline)) WITH (fillfactor = 50);

-- How long finalized and skipped entries took since they were received, in buckets (model/flow.py says
-- which). Of a large batch some lines stand for all of them, so `n` is an estimate.
CREATE TABLE headgate.flow_latency (
    at       timestamptz NOT NULL,
    minutes  smallint NOT NULL CHECK (minutes IN (1, 60)),
    pipeline smallint NOT NULL,
    bucket   smallint NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (minutes, at, pipeline, bucket)) WITH (fillfactor = 50);

-- Deliveries, by when they were noticed in the tally, and how far of the tally that is.
CREATE TABLE headgate.flow_delivery (
    at        timestamptz NOT NULL,
    minutes   smallint NOT NULL CHECK (minutes IN (1, 60)),
    pipeline  smallint NOT NULL,
    source    text NOT NULL,
    received  bigint NOT NULL,
    admitted  bigint NOT NULL,
    duplicate bigint NOT NULL,
    conflict  bigint NOT NULL,
    PRIMARY KEY (minutes, at, pipeline, source)) WITH (fillfactor = 50);
CREATE TABLE headgate.flow_seen (
    pipeline  smallint NOT NULL,
    source    text NOT NULL,
    received  bigint NOT NULL,
    admitted  bigint NOT NULL,
    duplicate bigint NOT NULL,
    conflict  bigint NOT NULL,
    PRIMARY KEY (pipeline, source)) WITH (fillfactor = 50);

-- Where entries rest that are not live work, up to the mark: an end that somebody took back is taken off.
CREATE TABLE headgate.flow_total (
    pipeline smallint NOT NULL,
    kind     text NOT NULL CHECK (kind IN ('finalized', 'skipped', 'discarded', 'quarantined')),
    reason   text NOT NULL,
    n        bigint NOT NULL,
    last_at  timestamptz NOT NULL,
    PRIMARY KEY (pipeline, kind, reason)) WITH (fillfactor = 50);

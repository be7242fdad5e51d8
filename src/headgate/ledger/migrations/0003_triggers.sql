-- Where a followed source goes on from. It moves only in the transaction that admitted everything
-- before it, and only for whoever had started from where it stood.
CREATE TABLE headgate.mark (
    pipeline   smallint NOT NULL REFERENCES headgate.pipeline,
    source     text NOT NULL,
    checkpoint text NOT NULL,
    moved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, source));

-- How a pipeline is held back, as it was declared last.
ALTER TABLE headgate.pipeline
    ADD COLUMN per_partition      int CHECK (per_partition > 0),
    ADD COLUMN coalesce_seconds   float8 CHECK (coalesce_seconds > 0),
    ADD COLUMN retries_per_second float8 NOT NULL DEFAULT 100 CHECK (retries_per_second > 0);

-- A partition is a hash that the pipeline seeds, like a subject. Null where there is no limit.
ALTER TABLE headgate.work ADD COLUMN part bigint;
ALTER TABLE headgate.quarantine ADD COLUMN part bigint;
CREATE INDEX work_part ON headgate.work (pipeline, part, id) WHERE part IS NOT NULL;

-- How many entries of a partition are claimed. A claim locks the rows it adds to, and leaves out
-- what it finds locked; whoever leaves takes its share off again.
CREATE TABLE headgate.part (
    pipeline smallint NOT NULL,
    part     bigint NOT NULL,
    busy     int NOT NULL CHECK (busy >= 0),
    PRIMARY KEY (pipeline, part)) WITH (fillfactor = 50);

-- Retries a pipeline may still begin now: a bucket that fills at its rate.
CREATE TABLE headgate.throttle (
    pipeline smallint PRIMARY KEY REFERENCES headgate.pipeline,
    tokens   float8 NOT NULL,
    at       timestamptz NOT NULL) WITH (fillfactor = 50);

-- When a change of a subject last began, for pipelines that fold bursts.
CREATE TABLE headgate.burst (
    pipeline   smallint NOT NULL REFERENCES headgate.pipeline,
    subject    bigint NOT NULL,
    started_at timestamptz NOT NULL,
    PRIMARY KEY (pipeline, subject));

-- Whose attempts a commit ended. Null for commits from before this column.
ALTER TABLE headgate.commit ADD COLUMN pipeline smallint;
CREATE INDEX commit_at ON headgate.commit USING brin (at);

-- Attempts that failed, by the minute. With the commits it says what share of them did.
CREATE TABLE headgate.failure (
    pipeline smallint NOT NULL,
    minute   timestamptz NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (pipeline, minute)) WITH (fillfactor = 50);

-- Since when too many attempts fail, and until when an operator said to go on all the same.
ALTER TABLE headgate.pipeline
    ADD COLUMN spent_at         timestamptz,
    ADD COLUMN overridden_until timestamptz;

-- What was told to the incident hook, and how far.
CREATE TABLE headgate.incident (
    pipeline smallint NOT NULL REFERENCES headgate.pipeline,
    class    text NOT NULL,
    reason   text NOT NULL,
    told_at  timestamptz,
    upto     timestamptz NOT NULL,
    PRIMARY KEY (pipeline, class, reason));

-- Thousands may wait for an upstream that is down, and only one of them is asked for at a time: they
-- are out of the way of other retries. What must run alone waits by itself.
DROP INDEX headgate.work_due, headgate.work_upstream;
CREATE INDEX work_due ON headgate.work (pipeline, due_at) WHERE due_at IS NOT NULL AND upstream IS NULL;
CREATE INDEX work_upstream ON headgate.work (upstream, due_at) WHERE upstream IS NOT NULL;
ALTER TABLE headgate.work ADD CHECK (upstream IS NULL OR NOT alone);

-- Where a followed source goes on from. It moves only in the transaction that admitted everything
-- before it, and only for whoever had started from where it stood.
CREATE TABLE headgate.mark (
    pipeline   smallint NOT NULL REFERENCES headgate.pipeline,
    source     text NOT NULL,
    checkpoint text NOT NULL,
    moved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, source));

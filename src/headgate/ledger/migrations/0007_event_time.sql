-- Event time: how far each stream has come by its own account, and what came after it had passed.

-- A stream is one source of a pipeline that declares event time. Its row is locked before anything of
-- the stream is admitted, so there is one order of admission, and what is late follows from it.
-- `seen` is the latest event time that counted, `watermark` that less the allowed lateness, as it stood
-- highest: a deployment that allows more does not take it back. `heard_at` is when something new came,
-- by this server's clock. A stream that has told nothing yet has neither `seen` nor `watermark`.
CREATE TABLE headgate.watermark (
    pipeline  smallint NOT NULL REFERENCES headgate.pipeline,
    source    text NOT NULL,
    seen      timestamptz,
    watermark timestamptz,
    heard_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    late      bigint NOT NULL DEFAULT 0 CHECK (late >= 0),
    PRIMARY KEY (pipeline, source),
    CHECK ((seen IS NULL) = (watermark IS NULL)),
    CHECK (watermark <= seen)) WITH (fillfactor = 50);

-- Up to when what is held for being late was released by schedule. Null: nothing was due yet.
ALTER TABLE headgate.pipeline ADD COLUMN late_released timestamptz;

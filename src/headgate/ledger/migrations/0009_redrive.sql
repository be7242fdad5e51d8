-- Working off a quarantine: plans that let entries run again, and discards that can be taken back.

-- A redrive: what was asked for, under which terms, and how far it is. The sweeper moves it on, in
-- transactions that hold this row; so it goes on after any crash, and two sweepers never move it twice.
-- `held` says why nothing is released right now. The counts are those of its rows in `redriven`.
CREATE TABLE headgate.redrive (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text NOT NULL,
    because    text NOT NULL CHECK (length(trim(because)) > 0),
    asked      jsonb NOT NULL,
    pipelines  smallint[] NOT NULL,
    canary     int NOT NULL CHECK (canary >= 0),
    batch      int NOT NULL CHECK (batch > 0),
    per_second float8 CHECK (per_second > 0),
    stop_share float8 NOT NULL CHECK (stop_share BETWEEN 0 AND 1),
    backlog    int NOT NULL CHECK (backlog > 0),
    state      text NOT NULL DEFAULT 'planned' CHECK (
        state IN ('planned', 'canary', 'running', 'paused', 'stopped', 'done')),
    held       text,
    tokens     float8 NOT NULL DEFAULT 0,
    moved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    began_at   timestamptz,
    ended_at   timestamptz,
    ended_why  text,
    total      int NOT NULL CHECK (total > 0),
    released   int NOT NULL DEFAULT 0,
    passed     int NOT NULL DEFAULT 0,
    failed     int NOT NULL DEFAULT 0,
    gone       int NOT NULL DEFAULT 0,
    CHECK (released + gone <= total AND passed + failed <= released),
    CHECK ((state IN ('stopped', 'done')) = (ended_at IS NOT NULL))) WITH (fillfactor = 50);

-- What a plan lets run again, in this order. `fence` is the failure that the plan saw: what has failed
-- again since, or was decided about by somebody else, is not its business any more (`gone`).
CREATE TABLE headgate.redriven (
    redrive     int NOT NULL REFERENCES headgate.redrive,
    n           int NOT NULL CHECK (n > 0),
    entry       bigint NOT NULL,
    pipeline    smallint NOT NULL,
    fence       int NOT NULL,
    state       text NOT NULL DEFAULT 'planned' CHECK (
        state IN ('planned', 'released', 'passed', 'failed', 'gone')),
    released_at timestamptz,
    ended_at    timestamptz,
    PRIMARY KEY (redrive, n),
    UNIQUE (redrive, entry)) WITH (fillfactor = 80);
CREATE INDEX redriven_entry ON headgate.redriven (entry);
CREATE INDEX redriven_open ON headgate.redriven (redrive, state, n) WHERE state IN ('planned', 'released');
CREATE INDEX redriven_tried ON headgate.redriven (redrive, n) WHERE state IN ('released', 'passed', 'failed');

-- What somebody decided not to process, as it was in quarantine. While a row is here the decision can be
-- taken back; it goes with the retention.
CREATE TABLE headgate.discarded (
    entry    bigint PRIMARY KEY,
    pipeline smallint NOT NULL,
    content  bytea,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    aside    jsonb NOT NULL);
CREATE INDEX discarded_at ON headgate.discarded (at);

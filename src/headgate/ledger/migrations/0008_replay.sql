-- Replays: what was published is run again, proved or published anew; and what was never seen comes in.

-- `replay` is the replay that admitted an entry. `replays` is the publication it supersedes, as long as
-- readers still see that one; null for an object that was never seen.
ALTER TABLE headgate.entry
    ADD COLUMN replay  bigint,
    ADD COLUMN replays bigint CHECK (replays IS NULL OR (replay IS NOT NULL AND reverts IS NULL));
CREATE INDEX entry_replay ON headgate.entry (replay) WHERE replay IS NOT NULL;

-- What was asked for. `manifest` is frozen: what the results depend on, by digest; `pins` is the digest
-- of what must run. `done` is how far it is: inputs that were admitted, or verified. It moves in the
-- transaction that did that, from where it stood: any number of workers and machines may share a replay.
CREATE TABLE headgate.replay (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline   smallint NOT NULL REFERENCES headgate.pipeline,
    mode       text NOT NULL CHECK (mode IN ('verify', 'publish')),
    state      text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'stopped', 'done')),
    manifest   jsonb NOT NULL,
    pins       bytea NOT NULL CHECK (octet_length(pins) = 32),
    actor      text NOT NULL,
    because    text CHECK (mode = 'verify' OR length(trim(because)) > 0),
    asked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    inputs     int NOT NULL CHECK (inputs >= 0),
    done       int NOT NULL DEFAULT 0 CHECK (done BETWEEN 0 AND inputs),
    moved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    per_second float8 CHECK (per_second > 0),
    tokens     float8 NOT NULL DEFAULT 0,
    report     jsonb,
    CHECK ((state = 'running') = (ended_at IS NULL)));
CREATE INDEX replay_running ON headgate.replay (pipeline, id) WHERE state = 'running';

-- Its inputs, in the order in which they are run. `original` is the publication that is run again;
-- null for an object that was never seen, and then `noticed` is what its source said of it.
CREATE TABLE headgate.replay_input (
    replay   bigint NOT NULL REFERENCES headgate.replay,
    n        int NOT NULL CHECK (n > 0),
    original bigint,
    content  bytea CHECK (octet_length(content) = 32),
    uri      text NOT NULL,
    source   text,
    noticed  jsonb,
    PRIMARY KEY (replay, n),
    CHECK ((original IS NULL) = (noticed IS NOT NULL)));

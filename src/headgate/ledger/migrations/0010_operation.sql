-- Logical operations: work that any code does once per key, with or without the runtime.

-- One row per key, for ever: the row is its own tombstone. `token` is the attempt that holds it, or held
-- it last; whoever shows another one changes nothing. `lease_until` is set while it is running.
-- Each row is written twice, by its take and its end: half of each page is left for the second, so that no
-- index has to hear of it.
--   running: somebody is at it · success: `result` is what every later caller gets
--   failure: nothing of it was kept · partial: foreign calls were made and not taken back
CREATE TABLE headgate.operation (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    begun_at    timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    lease_until timestamptz,
    lock_key    bigint NOT NULL,
    fence       int NOT NULL CHECK (fence > 0),
    attempts    int NOT NULL CHECK (attempts >= 0),
    lines       int NOT NULL DEFAULT 0,
    exclusive   boolean NOT NULL,
    status      text NOT NULL CHECK (status IN ('running', 'success', 'failure', 'partial')),
    key         bytea NOT NULL UNIQUE CHECK (octet_length(key) = 32),
    token       bytea NOT NULL CHECK (octet_length(token) = 16),
    holder      text NOT NULL,
    pipeline    text NOT NULL,
    task        text NOT NULL,
    dataset     text NOT NULL,
    operation   text NOT NULL,
    version     text NOT NULL,
    checksum_in text,
    params      bytea NOT NULL,
    period      text,
    base        bytea,
    payload     bytea,
    parts       text NOT NULL,
    codec       text,
    result      bytea,
    result_hash bytea,
    store       text,
    reason      text,
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status = 'success') = (result_hash IS NOT NULL))) WITH (fillfactor = 45);
-- Which period an operation that is called by the day or the hour is in.
CREATE INDEX operation_base ON headgate.operation (base, id DESC) WHERE base IS NOT NULL;
-- Results that are in a store. Not by their digest: most operations have none, and whether one ends must
-- not be a matter of an index.
CREATE INDEX operation_stored ON headgate.operation (id) WHERE store IS NOT NULL;

-- Who may work on a dataset now, where operations of one dataset wait for each other. Gone at rest.
CREATE TABLE headgate.operation_lock (
    lock_key    bigint PRIMARY KEY,
    operation   bigint NOT NULL,
    token       bytea NOT NULL,
    holder      text NOT NULL,
    taken_at    timestamptz NOT NULL,
    lease_until timestamptz NOT NULL) WITH (fillfactor = 50);

-- What was done about each operation: one line per attempt that ended or was lost, per denied caller and
-- per decision of an operator. Append-only; each line is chained to the one before of its operation, so
-- that no operation waits for another one's commit.
CREATE TABLE headgate.operation_journal (
    operation bigint NOT NULL,
    n         int NOT NULL CHECK (n > 0),
    at        timestamptz NOT NULL,
    fence     int NOT NULL,
    event     text NOT NULL CHECK (event IN (
        'done', 'failed', 'lost', 'denied', 'escalated', 'conflict', 'reset')),
    holder    text NOT NULL,
    reason    text,
    doc       text NOT NULL,
    hash      bytea NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (operation, n));

-- Named steps outside Postgres, memoised: a finished one is never made again.
CREATE TABLE headgate.operation_call (
    operation bigint NOT NULL,
    name      text NOT NULL,
    key       bytea NOT NULL,
    fence     int NOT NULL,
    begun     timestamptz NOT NULL,
    done      timestamptz,
    undone    timestamptz,
    result    bytea,
    PRIMARY KEY (operation, name));

-- Callers that called for a person, and when the incident hook was last told of one.
CREATE TABLE headgate.operation_escalation (
    pipeline text NOT NULL,
    task     text NOT NULL,
    times    bigint NOT NULL,
    told_at  timestamptz NOT NULL,
    PRIMARY KEY (pipeline, task)) WITH (fillfactor = 50);

-- S2 § 8 for both: what pipelines publish, and what operations do.
CREATE VIEW headgate.idempotency_log AS
SELECT coalesce(encode(u.effect, 'hex'), s.key) AS idem_key,
       s.pipeline AS pipeline_id,
       'path'::text AS task_id,
       coalesce(convert_from(e.envelope, 'UTF8')::json ->> 'dataset', e.uri) AS dataset_id,
       'publish'::text AS operation_type,
       CASE s.status WHEN 'finalized' THEN 'success' WHEN 'skipped' THEN 'success'
                     WHEN 'quarantined' THEN 'failure' WHEN 'rolled_back' THEN 'failure'
                     ELSE 'partial' END AS status,
       CASE WHEN s.status = 'finalized' THEN encode(j.hash, 'hex') END AS result_hash,
       s.received_at AS created_at,
       j.at AS updated_at,
       encode(coalesce(u.content, q.content), 'hex') AS raw_checksum,
       encode(coalesce(u.params, q.params), 'hex') AS params_hash,
       s.batch || '/' || s.n AS wal_pointer,
       s.entry, s.uri, s.change_key
FROM headgate.entry_state s
JOIN headgate.entry e ON e.id = s.entry
JOIN LATERAL (
    SELECT j.hash, j.at FROM headgate.journal j WHERE j.batch = s.batch AND j.n = s.n LIMIT 1) j ON true
LEFT JOIN LATERAL (
    SELECT u.effect, u.content, d.params
    FROM headgate.publication u LEFT JOIN headgate.deployment d ON d.id = u.deployment
    WHERE u.entry = s.entry LIMIT 1) u ON true
LEFT JOIN LATERAL (
    SELECT q.content, d.params
    FROM headgate.quarantine q LEFT JOIN headgate.deployment d ON d.id = q.deployment
    WHERE q.entry = s.entry LIMIT 1) q ON true
UNION ALL
SELECT encode(o.key, 'hex'), o.pipeline, o.task, o.dataset, o.operation,
       CASE o.status WHEN 'running' THEN 'partial' ELSE o.status END,
       encode(o.result_hash, 'hex'), o.created_at, o.updated_at, o.checksum_in, encode(o.params, 'hex'),
       CASE WHEN o.lines > 0 THEN 'operation/' || o.id || '/' || o.lines END,
       NULL::bigint, NULL::text, o.key
FROM headgate.operation o;

-- What was rolled back, by journal pointer: attempts that failed for good, what an operator decided not
-- to do, and what was reverted or run again (with who and why). A discard that was taken back stays: it
-- was decided. Also attempts of operations that failed or were lost, and resets of operations.
CREATE VIEW headgate.rollback_registry AS
SELECT j.batch || '/' || j.n AS wal_pointer, c.pos AS commit,
       j.entry, p.name AS pipeline, encode(e.key, 'hex') AS idempotency_key, e.uri AS source_uri,
       CASE WHEN j.outcome = 'quarantined' THEN 'attempt' WHEN j.outcome = 'rolled_back' THEN 'discard'
            WHEN e.reverts = e.restores THEN 'reset' ELSE 'revert' END AS kind,
       j.reason, convert_from(j.doc, 'UTF8')::json ->> 'error' AS error,
       j.at AS rolled_back_at, a.actor, a.because,
       e.key AS change_key, e.reverts
FROM headgate.journal j
JOIN headgate.entry e ON e.id = j.entry
JOIN headgate.pipeline p ON p.id = e.pipeline
LEFT JOIN headgate.commit c ON c.batch = j.batch
LEFT JOIN LATERAL (
    SELECT a.actor, a.because FROM headgate.action a
    WHERE a.entry = j.entry AND a.at <= j.at
      AND a.verb = ANY (CASE j.outcome WHEN 'rolled_back' THEN ARRAY['discard']
                                       WHEN 'finalized' THEN ARRAY['revert', 'reset'] END)
    ORDER BY a.id DESC LIMIT 1) a ON true
WHERE (j.outcome = 'quarantined' AND j.steps <> 'rolled_back quarantined') OR j.outcome = 'rolled_back'
   OR (j.outcome = 'finalized' AND e.reverts IS NOT NULL)
UNION ALL
SELECT 'operation/' || l.operation || '/' || l.n, NULL::bigint,
       NULL::bigint, o.pipeline, encode(o.key, 'hex'), NULL::text,
       CASE l.event WHEN 'reset' THEN 'reset' ELSE 'attempt' END,
       l.reason, l.doc::json ->> 'error', l.at, l.doc::json ->> 'actor', l.doc::json ->> 'because',
       o.key, NULL::bigint
FROM headgate.operation_journal l
JOIN headgate.operation o ON o.id = l.operation
WHERE l.event IN ('failed', 'lost', 'reset');

-- Bytes that no publication needs any more go; that they were there, and when they went, stays.

-- Which bytes each publication refers to: its content unless it is a removal that leaves nothing, and
-- its artifacts. What came inside its message is named too, though no store has it.
CREATE VIEW headgate.reference AS
SELECT p.entry, p.successor, p.content AS digest FROM headgate.publication p
WHERE NOT p.removed OR (SELECT convert_from(j.doc, 'UTF8')::json ->> 'retired' = 'true'
                        FROM headgate.journal j
                        WHERE j.entry = p.entry AND j.outcome = 'finalized' LIMIT 1)
UNION ALL
SELECT a.entry, a.successor, CASE WHEN a.digest ~ '^[0-9a-f]{64}$' THEN decode(a.digest, 'hex') END
FROM (SELECT p.entry, p.successor,
             jsonb_array_elements(CASE WHEN jsonb_typeof(p.artifacts) = 'array' THEN p.artifacts END) ->> 'digest' AS digest
      FROM headgate.publication p WHERE p.artifacts IS NOT NULL) a;

-- Bytes that were kept and are gone, and the retention they went under. A row says nothing about an
-- object that has come back since: `object` does.
CREATE TABLE headgate.collected (
    store     smallint NOT NULL REFERENCES headgate.store,
    digest    bytea NOT NULL CHECK (octet_length(digest) = 32),
    size      bigint NOT NULL,
    at        timestamptz NOT NULL,
    retention interval NOT NULL,
    PRIMARY KEY (store, digest));

-- When somebody last looked through all objects for some that nothing needs: one look serves all.
CREATE TABLE headgate.collecting (
    single    boolean PRIMARY KEY DEFAULT true CHECK (single),
    looked_at timestamptz NOT NULL);
INSERT INTO headgate.collecting (looked_at) VALUES ('-infinity');

-- Which publications are to be brought back by a revert that is not done yet.
CREATE INDEX entry_restores ON headgate.entry (restores) WHERE restores IS NOT NULL;
CREATE VIEW headgate.restoring AS
SELECT e.restores AS entry, e.id AS revert
FROM headgate.entry e
WHERE e.restores IS NOT NULL
  AND ((SELECT true FROM headgate.work w WHERE w.pipeline = e.pipeline AND w.id = e.id LIMIT 1)
       OR (SELECT true FROM headgate.quarantine q WHERE q.entry = e.id LIMIT 1));

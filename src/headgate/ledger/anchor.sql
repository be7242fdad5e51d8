-- name: head
-- A ledger is told from another one in the same store by the identity it was born with.
SELECT i.id AS ledger, c.pos, c.chain
FROM headgate.identity i, headgate.commit c ORDER BY c.pos DESC LIMIT 1

-- name: chain_at
SELECT c.chain FROM headgate.commit c WHERE c.pos = $1

-- name: identity
SELECT id FROM headgate.identity

-- name: stores
SELECT s.uri FROM headgate.store s JOIN headgate.pipeline p ON p.store = s.id GROUP BY s.uri ORDER BY s.uri

-- Labels: whose a thing is, and whether its data is public.

-- name: restricted
-- Pipelines whose dataset, as it was declared last, is not public. One without a dataset declares nothing.
SELECT p.name
FROM headgate.pipeline p
CROSS JOIN LATERAL (
    SELECT d.declared FROM headgate.deployment d WHERE d.pipeline = p.id
    ORDER BY d.registered_at DESC, d.id DESC LIMIT 1) d
WHERE d.declared -> 'dataset' ->> 'access' <> 'public'

-- name: names
SELECT p.name FROM headgate.pipeline p ORDER BY p.name

-- name: of_entries
SELECT e.id AS entry, p.name AS pipeline FROM headgate.entry e
JOIN headgate.pipeline p ON p.id = e.pipeline WHERE e.id = ANY ($1::bigint[])

-- name: of_replay
SELECT p.name FROM headgate.replay r JOIN headgate.pipeline p ON p.id = r.pipeline WHERE r.id = $1::bigint

-- name: of_redrive
SELECT p.name FROM headgate.redrive r JOIN headgate.pipeline p ON p.id = ANY (r.pipelines)
WHERE r.id = $1::bigint ORDER BY 1

-- name: is_pipeline
SELECT EXISTS (SELECT FROM headgate.pipeline p WHERE p.name = $1)

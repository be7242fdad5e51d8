-- When a row of work was claimed is nobody's question; when it was claimed first is.
ALTER TABLE headgate.work DROP COLUMN claimed_at;

-- The gate answers times as they are sent. A function whose columns change cannot be replaced.
DROP FUNCTION IF EXISTS headgate.claim(smallint, int, int, bigint, boolean);

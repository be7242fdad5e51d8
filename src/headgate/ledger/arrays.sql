-- function: alike
-- Can two sequences be compared? Numbers of ours begin with ~ and say nothing about a source's own.
CREATE OR REPLACE FUNCTION headgate.alike(one text, other text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT one IS NOT NULL AND other IS NOT NULL AND (left(one, 1) = '~') = (left(other, 1) = '~')
$$;

-- function: stood_at
-- When an object was as a change says. A listing shows what stands there when it is read; the time
-- it gives may be that of an upload's beginning, and has no part of a second.
CREATE OR REPLACE FUNCTION headgate.stood_at(
    sequence text, event_time timestamptz, received_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN left(sequence, 1) = '~' THEN received_at ELSE event_time END
$$;

-- function: spread
-- A column whose rows all say the same travels as an array of one element. Here it is whole again.
CREATE OR REPLACE FUNCTION headgate.spread(told anyarray, n int) RETURNS anyarray
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN cardinality(told) = 1 AND n > 1 THEN array_fill(told[1], ARRAY[n]) ELSE told END
$$;

-- Held for the branch that brings this number.
SELECT 1;

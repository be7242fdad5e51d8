"""Records: what catalogs and lineage tools are told, rendered from facts and nothing else."""

"""What the figures have to be: floors of the full run, and the guards that CI holds.

A ratio is a share of the bare loop that ran right before and right after. The guards are lower
than the floors: they are for a small job on a busy machine, and tell of a slip, not of the weather.
"""

from __future__ import annotations

# workload → the least share of the bare loop
FLOORS = {
    "rows": 0.40,
    "later": 0.40,
    "apply": 0.12,
    "poison": 0.08,
    "independent": 0.25,
    "receive": 0.70,
    "small_files": 0.35,
    "large_file": 0.60,
    "catalog": 0.60,  # of the same without a catalog
    "sqs": 0.80,
    "backfill": 0.90,  # of the same by watching
    "telemetry": 0.95,  # of the same with everything off
}

# figure → (the most it may be, its unit)
CEILINGS = {
    "wal_bytes_per_event": (2200.0, "bytes"),
    "latency_p50_multiple": (2.2, "×"),
    "latency_p99": (10.0, "ms"),
    "one_process_latency_p50_multiple": (2.2, "×"),
    "one_process_latency_p99": (10.0, "ms"),
    "large_file_peak": (200.0, "MB"),
    "backfill_live_p95_multiple": (2.0, "×"),
    "catalog_rebuild": (500.0, "µs"),
    "stac_search_p95": (50.0, "ms"),
    "api_lists_p95": (50.0, "ms"),
    "console_pages_p100": (100.0, "ms"),
    "readers_cost": (0.1, "×"),
    "reconcile_seconds": (60.0, "s"),
    "reconcile_peak": (500.0, "MB"),
    "operation_first_share": (0.334, "×"),
    "operation_repeat_p50": (1.0, "ms"),
    "import": (60.0, "ms"),
    "parse": (10.0, "µs"),
    "help": (100.0, "ms"),
    "embedded_first_start": (1.0, "s"),
    "embedded_later_start": (0.2, "s"),
}

# workload → the share of the bare loop below which `make bench-quick` fails
GUARDS = {
    "rows": 0.16,
    "later": 0.17,
    "apply": 0.06,
    "receive": 0.38,
}

"""What the workloads and figures are called where people read them, and how numbers are shown."""

from __future__ import annotations

WORKLOADS = {
    "rows": "declared rows",
    "later": "free SQL, `tx.later`",
    "apply": "free SQL, `tx.execute`",
    "poison": "the same, 1 % poison",
    "independent": "`independent=True`",
    "receive": "receive alone",
    "small_files": "files of 8 KiB",
    "large_file": "a file of 1 GiB",
    "catalog": "files of 8 KiB, with a catalog",
    "sqs": "a queue of SQS",
    "backfill": "files of 8 KiB, never seen",
    "telemetry": "declared rows, with everything shown",
}
# figure → (what it is, the name to measure it by)
FIGURES = {
    "wal_bytes_per_event": ("WAL per event, full pages included", "wal"),
    "wal_bytes_per_delivery": ("WAL per delivery", "wal"),
    "bare_latency_p50": ("bare loop, half are quicker than", "latency"),
    "bare_latency_p99": ("bare loop, 99 % are quicker than", "latency"),
    "latency_p50": ("two processes, half are quicker than", "latency"),
    "latency_p50_multiple": ("two processes, half, as a multiple of the bare loop's", "latency"),
    "latency_p99": ("two processes, 99 % are quicker than", "latency"),
    "one_process_latency_p50": ("one process, half are quicker than", "latency"),
    "one_process_latency_p50_multiple": (
        "one process, half, as a multiple of the bare loop's",
        "latency",
    ),
    "one_process_latency_p99": ("one process, 99 % are quicker than", "latency"),
    "large_file_peak": ("memory for a file of 1 GiB, at its peak", "large_file"),
    "live_p95": ("live changes, 95 % are quicker than", "backfill"),
    "backfill_live_p95": ("the same beside a replay of everything", "backfill"),
    "backfill_live_p95_multiple": ("the same, as a multiple", "backfill"),
    "catalog_written": (
        "files of 8 KiB until the last file of their catalog is durable, as a share",
        "catalog",
    ),
    "catalog_bare": (
        "the files of a catalog written by a bare loop, for each object",
        "catalog",
    ),
    "catalog_rebuild": ("a catalog of 100,000 items made anew, for each", "catalog_rebuild"),
    "stac_search_p50": ("a search over 100,000 items, half are quicker than", "stac_search"),
    "stac_search_p95": ("a search over 100,000 items, 95 % are quicker than", "stac_search"),
    "api_lists_p50": ("a list of the API over 1,000,000 entries, half are quicker than", "lists"),
    "api_lists_p95": ("a list of the API over 1,000,000 entries, 95 % are quicker than", "lists"),
    "api_lists_p100": ("a list of the API over 1,000,000 entries, the slowest", "lists"),
    "console_pages_p50": (
        "a page of the console over 1,000,000 entries, half are quicker than",
        "lists",
    ),
    "console_pages_p95": (
        "a page of the console over 1,000,000 entries, 95 % are quicker than",
        "lists",
    ),
    "console_pages_p100": ("a page of the console over as many, the slowest", "lists"),
    "readers_cost": ("what 200 readers of the change feed cost, as a share", "readers"),
    "readers_delay_p50": ("from a commit to 200 readers, half are quicker than", "readers"),
    "readers_delay_p95": ("from a commit to 200 readers, 95 % are quicker than", "readers"),
    "reconcile_seconds": ("reconciling 1,000,000 keys", "reconcile"),
    "reconcile_peak": ("memory to reconcile 1,000,000 keys, at its peak", "reconcile"),
    "operation_first": ("first calls of an operation, with an effect", "operation"),
    "operation_repeats": ("repeats of an operation", "operation"),
    "operation_repeat_p50": ("a repeat, half are quicker than", "operation"),
    "powertools_first": ("Powertools on Redis, first calls without an effect", "operation"),
    "powertools_repeats": ("Powertools on Redis, repeats", "operation"),
    "operation_first_share": ("a first call's time, as a share of Powertools'", "operation"),
    "import": ("`import headgate`, less the interpreter", "import"),
    "parse": ("reading a record of an S3 notification", "parse"),
    "parse_general": ("the same, with its names in another order", "parse"),
    "help": ("`headgate --help`, less the interpreter", "help"),
    "embedded_first_start": ("embedded server, first start", "embedded"),
    "embedded_later_start": ("embedded server, later start", "embedded"),
}


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def share(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"

"""What the Grafana dashboards show: a table of panels. `dashboards.py` makes files of it.

Several `headgate up` on one ledger each count what they did (sum) and each show what the ledger
holds (max). A panel's legend is what its first query groups by, unless it says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OURS = 'pipeline=~"$pipeline"'
Step = tuple[float | None, str]
GOOD: tuple[Step, ...] = ((None, "red"), (0.0, "orange"), (0.25, "green"))
ZERO: tuple[Step, ...] = ((None, "green"), (1.0, "red"))
SOME: tuple[Step, ...] = ((None, "red"), (1.0, "green"))


@dataclass(frozen=True)
class Panel:
    """One picture: what it is called, what it says, what it asks, and in what that is counted."""

    title: str
    about: str
    query: str = ""
    unit: str = "short"
    kind: str = "timeseries"
    steps: tuple[Step, ...] = ()
    stacked: bool = False
    more: dict[str, str] = field(default_factory=dict[str, str])  # queries by their legend


def p95(metric: str, by: str, only: str = "") -> str:
    """The time that 95 of 100 stay below, by a histogram."""
    selected = f"{metric}_bucket{{{only}}}" if only else f"{metric}_bucket"
    return f"histogram_quantile(0.95, sum by ({by}, le) (rate({selected}[5m])))"


def share(part: str, whole: str, by: str) -> str:
    """A part of the whole in the last hour; nothing where nothing happened."""
    of = f"(sum by ({by}) (increase({whole}[1h])) > 0)"
    return f"sum by ({by}) (increase({part}[1h])) / {of}"


NOW = {
    "Promises": [
        Panel("Applied twice", "Must be 0, always. Runbook: double-apply.",
              'sum(headgate_slo_bad_events{slo="double_applies"})', kind="stat", steps=ZERO),
        Panel("Error budget left", "Below 0 more went wrong than was promised: headgate slo",
              'min by (pipeline, slo) (headgate_slo_budget_left_ratio{slo!="double_applies"})',
              "percentunit", "bargauge", GOOD),
        Panel("In quarantine", "What waits for a person: headgate quarantine summary",
              "sum(headgate:quarantine)", kind="stat", steps=ZERO),
        Panel("Workers", "Who holds a lease.", "max(headgate_workers)", kind="stat", steps=SOME),
    ],
    "Flow": [
        Panel("Received", "Deliveries by source, new or not.",
              "sum by (queue) (rate(messages_received_total[5m]))", "cps"),
        Panel("Settled", "Attempts by how they ended.",
              "sum by (outcome) (rate(headgate_settled_total[5m]))", "cps", stacked=True),
        Panel("Repeated", "The share of deliveries that told what was known. They change nothing.",
              share("messages_duplicate_total", "messages_received_total", "queue"), "percentunit"),
        Panel("To do", "Entries that are ready, worked on, or wait for a retry.",
              "sum by (status) (headgate:backlog)", stacked=True),
        Panel("Latency, p95", "From the receipt of an entry to its end, of the last hour.",
              'max by (pipeline) (headgate_entry_latency_seconds{quantile="0.95"})', "s"),
        Panel("Watermark lag", "How far each stream is behind the clock, by its own account.",
              "max by (stream) (headgate:watermark_lag_seconds)", "s"),
    ],
    "What fails": [
        Panel("Retries by reason", "Each reason has its line in the runbook of retries.",
              "sum by (reason) (rate(retry_attempts_total[5m]))", "cps"),
        Panel("Dead letters by source", "Entries in quarantine. A spike is Sev2.",
              "max by (queue) (dead_letter_count)"),
        Panel("Ledger away", "Times a process did not find the ledger, in 5 minutes.",
              more={"outages": "sum(increase(headgate_ledger_outages_total[5m]))"}),
    ],
}  # fmt: skip

PIPELINE = {
    "Promises": [
        Panel("Budget left", "1 is all of it; below 0 more went wrong than was promised.",
              f"min by (pipeline, slo) (headgate_slo_budget_left_ratio{{{OURS}}})", "percentunit"),
        Panel("Burn rate, 1 h", "At 1 a budget lasts as long as its window. 14.4 calls somebody.",
              f'max by (pipeline, slo) (headgate_slo_burn_rate{{window="1h", {OURS}}})'),
        Panel("Latency", "From the receipt of an entry to its end, of the last hour.",
              f"max by (pipeline, quantile) (headgate_entry_latency_seconds{{{OURS}}})", "s"),
    ],
    "Work": [
        Panel("Settled", "Attempts by how they ended.",
              f"sum by (pipeline, outcome) (rate(headgate_settled_total{{{OURS}}}[5m]))",
              "cps", stacked=True),
        Panel("To do", "Ready, worked on, waiting for a retry.",
              f"max by (pipeline, status) (headgate_backlog{{{OURS}}})", stacked=True),
        Panel("Oldest entry", "How long the oldest entry that is not done is here.",
              f"max by (pipeline) (headgate_oldest_entry_seconds{{{OURS}}})", "s"),
        Panel("Quarantine", "By class.",
              f"max by (pipeline, classed) (headgate_quarantine_entries{{{OURS}}})", stacked=True),
        Panel("Checks", "What declared checks said.",
              f"sum by (pipeline, check, outcome) (rate(headgate_checks_total{{{OURS}}}[5m]))",
              "cps"),
        Panel("Published with SHA-256", "The share of what was published whose digest is known.",
              share(f'headgate_promotions_total{{hashed="true", {OURS}}}',
                    f"headgate_promotions_total{{{OURS}}}", "pipeline"), "percentunit"),
    ],
    "Commits": [
        Panel("Commit, p95", "How long a finalize transaction took.",
              p95("headgate_commit_seconds", "pipeline", OURS), "s"),
        Panel("Entries a commit", "On average.",
              share(f"headgate_commit_entries_sum{{{OURS}}}",
                    f"headgate_commit_entries_count{{{OURS}}}", "pipeline")),
        Panel("Replays", "By how they ended: same is proved, diverged is not.",
              f"max by (pipeline, outcome) (headgate_replays{{{OURS}}})"),
        Panel("Fenced", "Attempts that lost their lease, in 15 minutes. They changed nothing.",
              f"sum by (pipeline) (increase(headgate_fenced_total{{{OURS}}}[15m]))"),
    ],
}  # fmt: skip

RUNTIME = {
    "Sources": [
        Panel("Scan, p95", "How long a source took to look for changes.",
              p95("headgate_scan_seconds", "source"), "s"),
        Panel("Calls to the doors", "Webhooks and pushes, by what became of them.",
              "sum by (door, verdict) (rate(headgate_requests_total[5m]))", "reqps"),
        Panel("Come again, refused, left alone", "Deliveries, in 15 minutes.", more={
            "not acknowledged": "sum(increase(headgate_unacknowledged_total[15m]))",
            "contradicted": "sum(increase(headgate_conflicts_total[15m]))",
            "ignored": "sum(increase(headgate_messages_ignored_total[15m]))"}),
        Panel("Late", "Events that came after the watermark had passed them.",
              "sum by (queue) (increase(headgate_late_total[1h]))"),
    ],
    "Workers and stores": [
        Panel("Stages, p95", "How long each stage of the path took.",
              p95("processing_latency_seconds", "stage"), "s"),
        Panel("Workers lost", "By why, in 15 minutes.",
              "sum by (reason) (increase(headgate_workers_lost_total[15m]))"),
        Panel("Catalog behind", "How long the oldest change waits whose files are not written yet.",
              "max by (store) (headgate_projection_lag_seconds)", "s"),
        Panel("Telemetry given up", "Spans and exports, in an hour: the collector is slow or away.",
              "sum by (kind) (increase(headgate_telemetry_dropped_total[1h]))"),
        Panel("Bytes collected", "Removed because nothing refers to them.",
              more={"bytes": "sum(increase(headgate_bytes_collected_total[1h]))"}, unit="bytes"),
        Panel("Processor time", "Seconds a second that runs take.",
              "sum by (pipeline) (rate(headgate_cpu_seconds_total[5m]))", "s"),
        Panel("Carbon", "Estimated, in grams of CO2e an hour; see the page of signals.",
              "sum by (pipeline) (increase(headgate_carbon_grams_total[1h]))"),
    ],
    "Operations": [
        Panel("Attempts", "By how they ended.",
              "sum by (operation, outcome) (rate(headgate_operations_total[5m]))", "cps"),
        Panel("Calls", "That found a stored result, and that had to do the work.", more={
            "found": "sum(rate(kfm_idem_cache_hits_total[5m]))",
            "did the work": "sum(rate(kfm_idem_cache_misses_total[5m]))"}, unit="cps"),
        Panel("Repeats, retries, held by another, resets", "In 15 minutes.", more={
            "repeats": "sum(increase(kfm_idempotent_replays_total[15m]))",
            "retries": "sum(increase(kfm_retry_events_total[15m]))",
            "held by another": "sum(increase(kfm_lock_acquire_failures_total[15m]))",
            "resets": "sum(increase(kfm_lineage_rewrite_ops_total[15m]))",
            "starved": "sum(increase(headgate_operations_starved_total[15m]))"}),
        Panel("Attempt, p95", "How long an attempt took.",
              p95("headgate_operation_seconds", "operation"), "s"),
    ],
}  # fmt: skip

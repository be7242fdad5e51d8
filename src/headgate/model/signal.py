"""Signals: everything Headgate shows about itself, in one list.

Rooms only say `emit(SIGNAL, value, **labels)`. What becomes of it (a Prometheus series, a log line,
nothing) is decided by whoever listens; without a listener it costs a truth test. On the fast path
signals are emitted per batch, never per entry.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that can be counted or measured. `labels` is the closed set it may carry."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def dotted(self) -> str:
        """Its name by OTLP: `kfm.…` has dots and no suffix there, the others are called as here."""
        if not self.name.startswith("kfm_"):
            return self.name
        return "kfm." + self.name.removeprefix("kfm_").removesuffix("_total")


RECEIVED = Signal(
    "messages_received_total", "counter", "Deliveries taken in, new or not.", ("queue",)
)
DUPLICATE = Signal(
    "messages_duplicate_total", "counter", "Deliveries we had already been told about.", ("queue",)
)
CONFLICT = Signal(
    "headgate_conflicts_total", "counter", "A known key that came with another payload.", ("queue",)
)
LATE = Signal(
    "headgate_late_total",
    "counter",
    "Events that came after the watermark of their stream had passed them.",
    ("queue",),
)
WATERMARK = Signal(
    "watermark_event_time_seconds",
    "gauge",
    "Up to which event time a stream has come, as seconds since 1970. A stream is PIPELINE/SOURCE.",
    ("stream",),
)
IGNORED = Signal(
    "headgate_messages_ignored_total",
    "counter",
    "Records acknowledged and left alone: test events, and what a source's filters leave out.",
    ("queue",),
)
UNACKNOWLEDGED = Signal(
    "headgate_unacknowledged_total",
    "counter",
    "Deliveries that are durable but could not be acknowledged; they come again.",
    ("queue",),
)
STAGE_SECONDS = Signal(
    "processing_latency_seconds", "histogram", "How long a stage of the path took.", ("stage",)
)
CHECKS = Signal(
    "headgate_checks_total",
    "counter",
    "Declared checks that were asked, by what they said: passed, failed, retried.",
    ("pipeline", "check", "outcome"),
)
RETRIES = Signal(
    "retry_attempts_total", "counter", "Attempts that will be tried again.", ("reason",)
)
DEAD = Signal(
    "dead_letter_count", "gauge", "Entries in quarantine, by the source that told them.", ("queue",)
)
ASIDE = Signal(
    "headgate_quarantine_entries",
    "gauge",
    "Entries in quarantine, by class.",
    ("pipeline", "classed"),
)
SETTLED = Signal(
    "headgate_settled_total", "counter", "Attempts by how they ended.", ("pipeline", "outcome")
)
PROMOTED = Signal(
    "headgate_promotions_total",
    "counter",
    "Publications, by whether the SHA-256 of their bytes is kept (`hashed`).",
    ("pipeline", "hashed"),
)
REPLAYED = Signal(
    "headgate_replays",
    "gauge",
    "Replays, by how they ended: same, diverged, published, stopped, running.",
    ("pipeline", "outcome"),
)
FENCED = Signal(
    "headgate_fenced_total",
    "counter",
    "Attempts whose lease was lost; they changed nothing.",
    ("pipeline",),
)
COMMIT_SECONDS = Signal(
    "headgate_commit_seconds", "histogram", "How long a finalize transaction took.", ("pipeline",)
)
BATCH = Signal(
    "headgate_commit_entries", "histogram", "Entries settled by one transaction.", ("pipeline",)
)
LOST = Signal(
    "headgate_workers_lost_total",
    "counter",
    "Workers buried: dead, stopped or past a deadline.",
    ("reason",),
)
BACKLOG = Signal("headgate_backlog", "gauge", "Entries by where they rest.", ("pipeline", "status"))
OUTAGE = Signal(
    "headgate_ledger_outages_total", "counter", "Times a process found the ledger away.", ()
)
COLLECTED = Signal(
    "headgate_objects_collected_total", "counter", "Objects removed that nothing refers to.", ()
)
COLLECTED_BYTES = Signal(
    "headgate_bytes_collected_total", "counter", "Bytes removed that nothing refers to.", ()
)
SCAN_SECONDS = Signal(
    "headgate_scan_seconds", "histogram", "How long a source took to look for changes.", ("source",)
)
REQUESTS = Signal(
    "headgate_requests_total",
    "counter",
    "Calls to the doors, by what became of them.",
    ("door", "verdict"),
)
LAG = Signal(
    "headgate_projection_lag_seconds",
    "gauge",
    "How long the oldest change waits whose files beside the data are not written yet.",
    ("store",),
)
_OPERATION = ("pipeline", "task", "dataset_id", "operation_type", "sovereignty_event")
REPLAYS = Signal(
    "kfm_idempotent_replays_total",
    "counter",
    "Calls of an operation that was done: they got its stored result.",
    _OPERATION,
)
IDEM_HITS = Signal(
    "kfm_idem_cache_hits_total", "counter", "Calls that found a stored result.", _OPERATION
)
IDEM_MISSES = Signal(
    "kfm_idem_cache_misses_total", "counter", "Calls that had to do the work.", _OPERATION
)
RETRY_EVENTS = Signal(
    "kfm_retry_events_total", "counter", "Operations that were begun once more.", _OPERATION
)
LOCK_FAILURES = Signal(
    "kfm_lock_acquire_failures_total",
    "counter",
    "Calls that found their operation or its dataset held by another.",
    _OPERATION,
)
REWRITES = Signal(
    "kfm_lineage_rewrite_ops_total",
    "counter",
    "Operations reset by a person since `up` began, so that their lineage is written anew.",
    _OPERATION,
)
OPERATIONS = Signal(
    "headgate_operations_total",
    "counter",
    "Attempts at operations, by how they ended.",
    ("operation", "outcome"),
)
OPERATION_SECONDS = Signal(
    "headgate_operation_seconds",
    "histogram",
    "How long an attempt at an operation took.",
    ("operation",),
)
STARVED = Signal(
    "headgate_operations_starved_total",
    "counter",
    "Callers that waited while many others of the same dataset were served.",
    ("dataset_id",),
)
CPU_SECONDS = Signal(
    "headgate_cpu_seconds_total", "counter", "Processor time that runs took.", ("pipeline",)
)
ENERGY = Signal(
    "headgate_energy_joules_total", "counter", "Energy that runs took, estimated.", ("pipeline",)
)
CARBON = Signal(
    "headgate_carbon_grams_total",
    "counter",
    "Carbon dioxide that runs stand for, estimated, in grams of CO2e.",
    ("pipeline",),
)
DROPPED = Signal(
    "headgate_telemetry_dropped_total",
    "counter",
    "Spans and metric exports given up because the collector was slow or away.",
    ("kind",),
)
SLO_EVENTS = Signal(
    "headgate_slo_events",
    "gauge",
    "What happened in the window of the service levels: deliveries, or entries that ended.",
    ("slo", "pipeline"),
)
SLO_BAD = Signal(
    "headgate_slo_bad_events",
    "gauge",
    "How much of it went against the service level.",
    ("slo", "pipeline"),
)
SLO_ALLOWED = Signal(
    "headgate_slo_allowed_ratio", "gauge", "The share that may go wrong.", ("slo",)
)
SLO_BUDGET = Signal(
    "headgate_slo_budget_left_ratio",
    "gauge",
    "How much of the error budget is left: 1 is all of it, 0 none, below 0 too much went wrong.",
    ("slo", "pipeline"),
)
SLO_BURN = Signal(
    "headgate_slo_burn_rate",
    "gauge",
    "How fast the error budget burns: at 1 it lasts as long as its window.",
    ("slo", "pipeline", "window"),
)
TOOK = Signal(
    "headgate_entry_latency_seconds",
    "gauge",
    "How long entries took from their receipt to their end, in the last hour.",
    ("pipeline", "quantile"),
)
OLDEST = Signal(
    "headgate_oldest_entry_seconds",
    "gauge",
    "How long the oldest entry that is neither done nor set aside is here.",
    ("pipeline",),
)
WORKERS = Signal("headgate_workers", "gauge", "Workers that hold a lease.")
SIGNALS: tuple[Signal, ...] = (
    RECEIVED, DUPLICATE, CONFLICT, LATE, WATERMARK, IGNORED, UNACKNOWLEDGED, STAGE_SECONDS, CHECKS,
    RETRIES, DEAD, ASIDE, SETTLED, PROMOTED, REPLAYED, FENCED, COMMIT_SECONDS, BATCH, LOST, BACKLOG,
    OUTAGE, COLLECTED, COLLECTED_BYTES, SCAN_SECONDS, REQUESTS, LAG, REPLAYS, IDEM_HITS,
    IDEM_MISSES, RETRY_EVENTS, LOCK_FAILURES, REWRITES, OPERATIONS, OPERATION_SECONDS, STARVED,
    CPU_SECONDS, ENERGY, CARBON, DROPPED, SLO_EVENTS, SLO_BAD, SLO_ALLOWED, SLO_BUDGET, SLO_BURN,
    TOOK, OLDEST, WORKERS,
)  # fmt: skip

Listener = Callable[[Signal, float, dict[str, str]], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Hear every signal from now on. Returns the way to stop."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def heard() -> bool:
    """Does anybody listen? Where much is said, nobody has to put it into words for nothing."""
    return bool(_listeners)


def emit(signal: Signal, value: float = 1.0, **labels: str) -> None:
    """Say that something happened. Never raises, whatever a listener does."""
    # A copy: a listener may come or go meanwhile, in another thread.
    for listener in tuple(_listeners):
        with suppress(Exception):  # what is shown about work never costs the work
            listener(signal, value, labels)

"""A tally: what was counted, set and observed, added up in memory.

A child process adds into one and hands over what came together since (relay); the supervisor adds
that to its own, which is what Prometheus sees (metrics). Adding is all there is, so every emit ends
up in the supervisor's tally once.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.model import trace
from headgate.model.signal import SIGNALS, Signal

# Upper bounds in seconds, from a fast statement to a slow handler.
SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
COUNTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0)
# A label with that many values is an identifier in disguise, and would grow without end.
DISTINCT = 200
OTHER = "other"
LABEL_LENGTH = 200

Key = tuple[str, tuple[str, ...]]
BY_NAME = {signal.name: signal for signal in SIGNALS}


def bounds(signal: Signal) -> tuple[float, ...]:
    """The upper bounds of a histogram's buckets; one more, without a bound, follows them."""
    return SECONDS if signal.name.endswith("_seconds") else COUNTS


class Exemplar(NamedTuple):
    """One observation of many, with the trace it was made in, so that a chart leads there."""

    value: float
    trace_id: str
    span_id: str
    at: float


@dataclass(slots=True)
class Sums:
    """What came together: counters and gauges as a number, histograms as bucket counts and a sum.

    The last number of a histogram's list is the sum of what was observed. Exemplars are the last
    ones: one for a counter, under 0, and one for each bucket of a histogram, under its number.
    """

    numbers: dict[Key, float] = field(default_factory=dict[Key, float])
    histograms: dict[Key, list[float]] = field(default_factory=dict[Key, list[float]])
    exemplars: dict[tuple[Key, int], Exemplar] = field(
        default_factory=dict[tuple[Key, int], Exemplar]
    )

    def __bool__(self) -> bool:
        return bool(self.numbers or self.histograms)


class Tally:
    """Adds up signals, from any thread. Its size is bounded, whatever the labels say."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = Sums()
        self._seen: dict[tuple[str, str], dict[str, str]] = {}

    def add(self, signal: Signal, value: float, labels: Mapping[str, str]) -> None:
        """Hear one signal; this is a `signal.Listener`. What no series can hold is left out."""
        if not math.isfinite(value) or BY_NAME.get(signal.name) != signal:
            return
        with self._lock:
            key = self._key(signal, [labels.get(name, "") for name in signal.labels])
            if signal.kind == "histogram":
                limits = bounds(signal)
                row = self._sums.histograms.get(key)
                if row is None:
                    row = self._sums.histograms[key] = [0.0] * (len(limits) + 2)
                bucket = bisect_left(limits, value)
                row[bucket] += 1
                row[-1] += value
            else:
                bucket = 0
                self._put(signal, key, value)
            if (span := trace.current()) is not None and span.sampled and signal.kind != "gauge":
                seen = Exemplar(value, span.trace_id, span.span_id, time.time())
                self._sums.exemplars[key, bucket] = seen

    def merge(self, sums: Sums) -> None:
        """Add what another tally took out."""
        with self._lock:
            for (name, values), value in sums.numbers.items():
                if (signal := BY_NAME.get(name)) and signal.kind != "histogram":
                    self._put(signal, self._key(signal, values), value)
            for (name, values), more in sums.histograms.items():
                if (signal := BY_NAME.get(name)) and len(more) == len(bounds(signal)) + 2:
                    key = self._key(signal, values)
                    row = self._sums.histograms.get(key)
                    both = more if row is None else [a + b for a, b in zip(row, more, strict=True)]
                    self._sums.histograms[key] = both
            for ((name, values), bucket), exemplar in sums.exemplars.items():
                if signal := BY_NAME.get(name):
                    self._sums.exemplars[self._key(signal, values), bucket] = exemplar

    def take(self) -> Sums:
        """What came together since the last time, and forget it."""
        with self._lock:
            taken, self._sums = self._sums, Sums()
        return taken

    def snapshot(self) -> Sums:
        """What came together, as a copy."""
        with self._lock:
            rows = {key: row.copy() for key, row in self._sums.histograms.items()}
            return Sums(self._sums.numbers.copy(), rows, self._sums.exemplars.copy())

    def _put(self, signal: Signal, key: Key, value: float) -> None:
        numbers = self._sums.numbers
        if signal.kind == "gauge":
            numbers[key] = value
        elif value >= 0:
            numbers[key] = numbers.get(key, 0.0) + value

    def _key(self, signal: Signal, values: Iterable[str]) -> Key:
        named = zip(signal.labels, values, strict=False)
        return signal.name, tuple(self._bounded(signal.name, label, raw) for label, raw in named)

    def _bounded(self, name: str, label: str, raw: str) -> str:
        seen = self._seen.setdefault((name, label), {})
        known = seen.get(raw)
        if known is not None:
            return known
        if len(seen) >= DISTINCT:
            return OTHER
        # A lone surrogate would make the whole scrape fail, not only its own line.
        seen[raw] = raw[:LABEL_LENGTH].encode("utf-8", "replace").decode()
        return seen[raw]

"""The relay: what child processes counted, brought to the supervisor's metrics.

A child listens with a `Collector`, drains it now and then, and writes the line to the pipe it has
anyway; the supervisor applies each line it reads. A line holds only what came together since the
one before and is read from its pipe once, so nothing is counted twice. What a child that is killed
had not yet written is lost: signals are shown, the ledger is what counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from headgate.model.signal import Signal

from .tally import Exemplar, Key, Sums, Tally

if TYPE_CHECKING:
    from .metrics import Metrics


class Collector:
    """Adds up signals in a child process: `signal.listen(collector.hear)`."""

    def __init__(self) -> None:
        self._tally = Tally()

    def hear(self, signal: Signal, value: float, labels: Mapping[str, str]) -> None:
        """Take in one signal; this is a `signal.Listener`."""
        self._tally.add(signal, value, labels)

    def drain(self) -> bytes | None:
        """What came together since the last time, as one line without its end; None if nothing."""
        sums = self._tally.take()
        if not sums:
            return None
        numbers = [[name, values, value] for (name, values), value in sums.numbers.items()]
        rows = [[name, values, row] for (name, values), row in sums.histograms.items()]
        seen = [[name, values, n, *e] for ((name, values), n), e in sums.exemplars.items()]
        return json.dumps([numbers, rows, seen], separators=(",", ":")).encode()


def apply(line: bytes, metrics: Metrics) -> bool:
    """Add a drained line to the metrics. False, and nothing added, if it is not a whole line.

    A child can be killed while it writes; the supervisor outlives that.
    """
    try:
        numbers, rows, seen = json.loads(line)
        sums = Sums(
            {key: _finite(value) for key, value in _pairs(numbers)},
            {key: [_finite(n) for n in cast("list[object]", row)] for key, row in _pairs(rows)},
            dict(_exemplars(seen)),
        )
    except (ValueError, TypeError, RecursionError):
        return False
    metrics.tally.merge(sums)
    return True


def _pairs(items: list[list[object]]) -> Iterator[tuple[Key, object]]:
    for name, values, value in items:
        yield (str(name), tuple(str(one) for one in cast("list[object]", values))), value


def _exemplars(items: list[list[Any]]) -> Iterator[tuple[tuple[Key, int], Exemplar]]:
    for name, values, bucket, value, trace_id, span_id, at in items:
        key = str(name), tuple(str(one) for one in values)
        told = Exemplar(_finite(value), str(trace_id), str(span_id), _finite(at))
        yield (key, int(bucket)), told


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return value

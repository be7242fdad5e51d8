"""Our spans and sums in the words of OpenTelemetry's library, which writes them for the wire."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import cast

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from headgate._version import __version__
from headgate.model.signal import SIGNALS, Signal
from headgate.model.trace import Context, Kind, Span

from .tally import Key, Sums, bounds

SCOPE = InstrumentationScope("headgate", __version__)
CUMULATIVE = AggregationTemporality.CUMULATIVE
_KINDS: dict[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}


def resource(env: str) -> Resource:
    """Who tells all this. `OTEL_RESOURCE_ATTRIBUTES` adds to it."""
    told = {
        "service.name": "headgate",
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
    }
    return Resource.create(told | ({"deployment.environment.name": env} if env else {}))


def span_data(span: Span, told_by: Resource) -> ReadableSpan:
    """A span that has ended."""
    context = _context(span.context)
    parent = Context(span.context.trace_id, span.parent) if span.parent else None
    return ReadableSpan(
        span.name,
        context,
        _context(parent) if parent else None,
        told_by,
        span.attributes,
        [Event(step, timestamp=at) for step, at in span.steps],
        [Link(_context(link)) for link in span.links],
        _KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.began,
        end_time=span.ended,
        instrumentation_scope=SCOPE,
    )


def _context(context: Context) -> SpanContext:
    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(int(context.sampled)),
        trace_state=TraceState.from_header([context.state]) if context.state else None,
    )


def metrics_data(sums: Sums, told_by: Resource, env: str, began: int, now: int) -> MetricsData:
    """Everything that was counted, set and observed from `began` to `now`, in nanoseconds."""
    told = _Sums(sums, {"env": env} if env else {}, began, now)
    metrics = [metric for signal in SIGNALS if (metric := told.metric(signal)) is not None]
    scoped = ScopeMetrics(SCOPE, metrics, "")
    return MetricsData([ResourceMetrics(told_by, [scoped], "")])


class _Sums:
    def __init__(self, sums: Sums, everywhere: dict[str, str], began: int, now: int) -> None:
        self._sums = sums
        self._everywhere = everywhere
        self._began = began
        self._now = now

    def metric(self, signal: Signal) -> Metric | None:
        """A signal with all its series; None when there are none yet."""
        if signal.kind == "histogram":
            rows = [self._row(signal, key, row) for key, row in self._of(signal, "histograms")]
            data = Histogram(rows, CUMULATIVE) if rows else None
        else:
            points = [self._point(signal, key, n) for key, n in self._of(signal, "numbers")]
            counted = signal.kind == "counter"
            data = Sum(points, CUMULATIVE, True) if counted else Gauge(points)
            data = data if points else None
        unit = "s" if signal.name.endswith("_seconds") else ""
        return None if data is None else Metric(signal.dotted, signal.help, unit, data)

    def _of(self, signal: Signal, kind: str) -> Iterable[tuple[Key, list[float]]]:
        found: dict[Key, list[float]] = getattr(self._sums, kind)
        return [(key, value) for key, value in found.items() if key[0] == signal.name]

    def _labels(self, signal: Signal, key: Key) -> dict[str, str]:
        return {**dict(zip(signal.labels, key[1], strict=True)), **self._everywhere}

    def _point(self, signal: Signal, key: Key, number: object) -> NumberDataPoint:
        labels, value = self._labels(signal, key), cast("float", number)
        return NumberDataPoint(labels, self._began, self._now, value, self._exemplars(key, 1))

    def _row(self, signal: Signal, key: Key, row: list[float]) -> HistogramDataPoint:
        *counts, total = row
        unknown = cast("float", None)  # the smallest and the largest are optional on the wire
        return HistogramDataPoint(
            self._labels(signal, key),
            self._began,
            self._now,
            int(sum(counts)),
            total,
            [int(n) for n in counts],
            bounds(signal),
            unknown,
            unknown,
            self._exemplars(key, len(counts)),
        )

    def _exemplars(self, key: Key, buckets: int) -> list[Exemplar]:
        found = (self._sums.exemplars.get((key, n)) for n in range(buckets))
        return [
            Exemplar({}, one.value, int(one.at * 1e9), int(one.span_id, 16), int(one.trace_id, 16))
            for one in found
            if one is not None
        ]

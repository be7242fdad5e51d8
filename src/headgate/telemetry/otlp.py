"""OTLP over HTTP: spans and metrics to a collector, from a thread of their own.

Off unless `otlp_endpoint` is set. Work never waits for a collector: what is told lies in a queue
with a limit, and what finds it full is dropped and counted. A collector that is away is said once,
and once more when it is back. OpenTelemetry's own variables for its exporter (headers, certificate,
compression) count as everywhere.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headgate.errors import ConfigError
from headgate.model.mask import mask_url
from headgate.model.signal import DROPPED, emit
from headgate.model.trace import Span

from .log import get_logger
from .metrics import Metrics
from .spans import parse

METRICS_SECONDS = 10.0
EXPORT_SECONDS = 5.0
GATHER_SECONDS = 2.0
CLOSE_SECONDS = 3.0
LINES = 64
LINES_AT_ONCE = 8
log = get_logger("headgate.otlp")


class Exporter:
    """Sends what `take` is given, and the metrics every ten seconds, until it is closed."""

    def __init__(
        self,
        endpoint: str,
        metrics: Metrics,
        env: str = "",
        *,
        metrics_seconds: float = METRICS_SECONDS,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._metrics = metrics
        self._env = env
        self._metrics_seconds = metrics_seconds
        self._lines: queue.Queue[bytes | None] = queue.Queue(LINES)
        self._began = time.time_ns()
        self._away = False
        self._under_way = 0
        self._given_up = False
        self._send_spans, self._send_metrics = self._senders()
        self._thread = threading.Thread(target=self._run, daemon=True, name="otlp")
        self._thread.start()

    def take(self, line: bytes) -> None:
        """A line of spans (`spans.Gathered`). Never waits."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            emit(DROPPED, len(parse(line)), kind="spans")

    def close(self) -> None:
        """Send what is left, for some seconds at most; the rest is dropped, and counted."""
        with suppress(queue.Full):  # a collector that is away; the thread ends with the process
            self._lines.put(None, timeout=CLOSE_SECONDS)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self._given_up = True
            left = self._under_way
            with suppress(queue.Empty):
                while True:
                    left += len(parse(self._lines.get_nowait() or b"[]"))
            if left:
                emit(DROPPED, left, kind="spans")

    def _run(self) -> None:
        due, open_ = time.monotonic() + self._metrics_seconds, True
        while open_:
            lines, open_ = self._next(max(0.0, due - time.monotonic()))
            if lines:
                told = [span for line in lines for span in parse(line)]
                self._under_way = len(told)
                self._attempt(lambda told=told: self._send_spans(told), "spans", len(told))
                self._under_way = 0
            if not open_ or time.monotonic() >= due:
                due = time.monotonic() + self._metrics_seconds
                self._attempt(self._send_metrics, "metrics", 1)

    def _next(self, seconds: float) -> tuple[list[bytes], bool]:
        """What is told within some seconds, and a moment more; and whether more may come."""
        lines: list[bytes] = []
        until = time.monotonic() + seconds
        while len(lines) < LINES_AT_ONCE:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if line is None:
                return lines, False
            if not lines:  # a request costs more than what is in it
                until = time.monotonic() + GATHER_SECONDS
            lines.append(line)
        return lines, True

    def _attempt(self, send: Callable[[], bool], kind: str, count: int) -> None:
        try:
            sent = send()
        except Exception as error:  # whatever the library raises, the next export is another one
            log.debug("export failed", kind=kind, why=f"{type(error).__name__}: {error}")
            sent = False
        if not sent and not self._given_up:
            emit(DROPPED, count, kind=kind)
        if sent == self._away:
            self._away = not sent
            where = mask_url(self._endpoint)
            if self._away:
                hint = "Work goes on; what is dropped is counted. Check otlp_endpoint."
                log.warning("the collector cannot be reached", endpoint=where, hint=hint)
            else:
                log.info("the collector answers again", endpoint=where)

    def _senders(self) -> tuple[Callable[..., bool], Callable[[], bool]]:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.metrics.export import MetricExportResult
            from opentelemetry.sdk.trace.export import SpanExportResult

            from .otlp_data import metrics_data, resource, span_data
        except ImportError as error:
            raise ConfigError(
                f"otlp_endpoint is set, and a library for it is not installed: {error.name}",
                hint="In Headgate's checkout: pip install '.[otel]'. Or unset otlp_endpoint.",
            ) from error
        # It complains about every export; we say when the collector goes away and when it is back.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        told_by = resource(self._env)
        traces = OTLPSpanExporter(f"{self._endpoint}/v1/traces", timeout=EXPORT_SECONDS)
        where = f"{self._endpoint}/v1/metrics"
        series: Any = OTLPMetricExporter(where, timeout=EXPORT_SECONDS)  # it is half typed

        def send_spans(spans: list[Span]) -> bool:
            made = [span_data(span, told_by) for span in spans]
            return traces.export(made) is SpanExportResult.SUCCESS

        def send_metrics() -> bool:
            sums, now = self._metrics.tally.snapshot(), time.time_ns()
            told = metrics_data(sums, told_by, self._env, self._began, now)
            return series.export(told) is MetricExportResult.SUCCESS

        return send_spans, send_metrics

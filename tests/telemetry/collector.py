"""A collector of OTLP over HTTP that keeps what it is sent, for tests to look at."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


@dataclass(slots=True)
class Told:
    """A span as it came over the wire."""

    name: str
    kind: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, Any]
    links: list[str]
    steps: list[str]
    state: str
    error: str
    seconds: float


@dataclass(slots=True)
class Collector:
    """What came. `status` is what it answers; `resources` who told it."""

    url: str = ""
    status: int = 200
    spans: list[Told] = field(default_factory=list[Told])
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    resources: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    arrived: threading.Event = field(default_factory=threading.Event)

    def trace(self, trace_id: str) -> list[Told]:
        return [span for span in self.spans if span.trace == trace_id]

    def value(self, name: str, **labels: str) -> float | None:
        """The number of a series."""
        for point in self.points(name):
            if labels.items() <= attributes(point.attributes).items():
                return point.as_double or float(point.as_int)
        return None

    def points(self, name: str) -> list[Any]:
        metric = self.metrics.get(name)
        if metric is None:
            return []
        return list(getattr(metric, metric.WhichOneof("data") or "sum").data_points)

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for told in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(attributes(told.resource.attributes))
                for scoped in told.scope_spans:
                    self.spans += [_span(span) for span in scoped.spans]
        else:
            for told in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.resources.append(attributes(told.resource.attributes))
                for scoped in told.scope_metrics:
                    self.metrics.update({metric.name: metric for metric in scoped.metrics})
        self.arrived.set()


def attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        assert isinstance(pair, KeyValue)
        found[pair.key] = getattr(pair.value, pair.value.WhichOneof("value") or "string_value")
    return found


def _span(span: WireSpan) -> Told:
    return Told(
        span.name,
        KINDS[span.kind],
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        attributes(span.attributes),
        [link.span_id.hex() for link in span.links],
        [event.name for event in span.events],
        span.trace_state,
        span.status.message if span.status.code == 2 else "",
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that runs for the block."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.headers.append({k.lower(): v for k, v in self.headers.items()})
            if collector.status == 200:
                collector.take(self.path, body)
            self.send_response(collector.status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

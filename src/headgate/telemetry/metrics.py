"""Metrics: every signal as a Prometheus series, under exactly the name the signal has.

`Metrics` listens (`signal.listen(metrics.hear)`), adds up, and is asked by Prometheus. It has a
registry of its own, so a program that uses Headgate as a library does not find our series in its.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator, Mapping
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from headgate.errors import UsageError
from headgate.model.signal import SIGNALS, Signal

from .tally import Key, Sums, Tally, bounds

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import Metric


class Metrics(Collector):
    """The series of this process and of those whose tallies it is given.

    With `env`, every series carries it as a label.
    """

    def __init__(self, env: str = "") -> None:
        self.tally = Tally()
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._env = env

    def hear(self, signal: Signal, value: float, labels: Mapping[str, str]) -> None:
        """Take in one signal; this is a `signal.Listener`."""
        self.tally.add(signal, value, labels)

    def collect(self) -> Iterator[Metric]:
        """What Prometheus asks for. Every signal is there, also one that was never emitted."""
        sums = self.tally.snapshot()
        for signal in SIGNALS:
            if signal.kind == "histogram":
                yield self._histogram(signal, sums)
            else:
                yield self._number(signal, sums)

    def text(self) -> bytes:
        """What a scrape would read that asks for nothing in particular."""
        return generate_latest(self.registry)

    def answer(self, accept: str) -> tuple[bytes, str]:
        """The text of a scrape and its type: OpenMetrics, with exemplars, if that is accepted."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> Server:
        """Answer scrapes in a thread, on `/metrics`. Port 0 is any free one."""
        try:
            server, thread = start_http_server(port, host, self.registry)
        except (OSError, OverflowError) as error:
            raise _cannot_serve(host, port, error) from error
        return Server(server, thread, host)

    def _labels(self, signal: Signal) -> tuple[str, ...]:
        return (*signal.labels, "env") if self._env else signal.labels

    def _values(self, values: tuple[str, ...]) -> tuple[str, ...]:
        return (*values, self._env) if self._env else values

    def _number(self, signal: Signal, sums: Sums) -> Metric:
        family = CounterMetricFamily if signal.kind == "counter" else GaugeMetricFamily
        metric = family(signal.name, signal.help, labels=self._labels(signal))
        series = {values: n for (name, values), n in sums.numbers.items() if name == signal.name}
        if signal.kind == "counter" and not signal.labels:
            # A rate needs a zero to start from; with labels nobody knows yet which ones there are.
            series.setdefault((), 0.0)
        for values, number in series.items():
            if isinstance(metric, CounterMetricFamily):
                exemplar = _exemplar(sums, (signal.name, values), 0)
                metric.add_metric(self._values(values), number, exemplar=exemplar)
            else:
                metric.add_metric(self._values(values), number)
        return metric

    def _histogram(self, signal: Signal, sums: Sums) -> Metric:
        metric = HistogramMetricFamily(signal.name, signal.help, labels=self._labels(signal))
        limits = [*(str(bound) for bound in bounds(signal)), "+Inf"]
        for (name, values), row in sums.histograms.items():
            if name == signal.name:
                *counts, total = row
                buckets = [
                    (limit, count, seen)
                    if (seen := _exemplar(sums, (name, values), n)) is not None
                    else (limit, count)
                    for n, (limit, count) in enumerate(zip(limits, accumulate(counts), strict=True))
                ]
                metric.add_metric(self._values(values), buckets, total)
        return metric


def _exemplar(sums: Sums, key: Key, bucket: int) -> Exemplar | None:
    if (seen := sums.exemplars.get((key, bucket))) is None:
        return None
    return Exemplar({"trace_id": seen.trace_id, "span_id": seen.span_id}, seen.value, seen.at)


class Server:
    """A running `/metrics`. Close it, or leave its `with` block."""

    def __init__(self, server: WSGIServer, thread: threading.Thread, host: str) -> None:
        self._server = server
        self._thread = thread
        self.host = host
        self.port: int = server.server_port

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _cannot_serve(host: str, port: int, error: Exception) -> UsageError:
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        why, hint = "the port is in use", "Stop who uses it, or choose another --metrics-port."
    elif code == errno.EACCES:
        why, hint = "this user may not use that port", "Choose a --metrics-port above 1023."
    elif isinstance(error, socket.gaierror) or code == errno.EADDRNOTAVAIL:
        why, hint = "this machine has no such address", "Correct the setting metrics_host."
    else:
        why, hint = str(error), "Choose another --metrics-port."
    return UsageError(f"Metrics cannot be served on {host} port {port}: {why}.", hint=hint)

"""Metrics and spans by OTLP, and exemplars: names, links, limits."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.telemetry.collector import Collector as Receiver
from tests.telemetry.collector import attributes, collecting

from headgate.model import signal, trace
from headgate.model.signal import SIGNALS, emit
from headgate.telemetry import otlp
from headgate.telemetry.metrics import Metrics
from headgate.telemetry.otlp import Exporter
from headgate.telemetry.relay import Collector, apply
from headgate.telemetry.spans import PER_LINE, Gathered, parse

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
KFM = {
    "kfm.idempotent_replays",
    "kfm.lock_acquire_failures",
    "kfm.retry_events",
    "kfm.lineage_rewrite_ops",
    "kfm.idem_cache_hits",
    "kfm.idem_cache_misses",
}
LABELS = {"pipeline", "task", "dataset_id", "operation_type", "sovereignty_event"}


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    metrics = Metrics("dev")
    stop = signal.listen(metrics.hear)
    yield metrics
    stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with collecting() as collector:
        yield collector


def test_the_names_of_the_seeds_are_there_with_their_labels() -> None:
    """By exactly those names: Prometheus has underscores and `_total`, OTLP has the dots."""
    by_name = {s.dotted: s for s in SIGNALS}
    assert by_name.keys() >= KFM
    for name in KFM:
        assert set(by_name[name].labels) == LABELS
        assert by_name[name].name == name.replace(".", "_") + "_total"
    expected = {
        "messages_received_total": ("queue",),
        "messages_duplicate_total": ("queue",),
        "processing_latency_seconds": ("stage",),
        "retry_attempts_total": ("reason",),
        "dead_letter_count": ("queue",),
        "watermark_event_time_seconds": ("stream",),
    }
    assert {name: by_name[name].labels for name in expected} == expected


def test_every_signal_arrives_at_a_collector(metrics: Metrics, receiver: Receiver) -> None:
    """With its labels and `env`, its kind, and buckets that add up."""
    for one in SIGNALS:
        emit(one, 2.0, **dict.fromkeys(one.labels, "x"))
    Exporter(receiver.url, metrics, "dev").close()
    assert receiver.metrics.keys() == {s.dotted for s in SIGNALS}
    for one in SIGNALS:
        (point,) = receiver.points(one.dotted)
        assert attributes(point.attributes) == {**dict.fromkeys(one.labels, "x"), "env": "dev"}
        metric = receiver.metrics[one.dotted]
        if one.kind == "histogram":
            assert (point.count, point.sum, sum(point.bucket_counts)) == (1, 2.0, 1)
            assert not point.HasField("min"), "nobody knows it"
        else:
            assert point.as_double == 2.0
            assert metric.WhichOneof("data") == {"counter": "sum", "gauge": "gauge"}[one.kind]
    assert receiver.resources[-1]["deployment.environment.name"] == "dev"


def test_spans_arrive_as_they_were_told(metrics: Metrics, receiver: Receiver) -> None:
    """Kind, attributes, links, steps, state and error; over a pipe and over the wire."""
    other = trace.Context("a" * 32, "b" * 16)
    gathered = Gathered()
    stop = trace.export_to(gathered.hear)
    try:
        root = trace.begin("scan rain", "client", trace.read(f"00-{'c' * 32}-{'d' * 16}-01", "v=1"))
        root.attributes |= {"n": 3, "text": "ä", "yes": True, "share": 0.5}
        root.links, root.steps = [other], [("fetched", root.began)]
        trace.end(root, "it broke")
    finally:
        stop()
    exporter = Exporter(receiver.url, metrics, "dev")
    for line in gathered.drain():
        exporter.take(line)
    exporter.close()
    (span,) = receiver.spans
    assert (span.name, span.kind, span.trace) == ("scan rain", "client", "c" * 32)
    assert (span.span, span.parent) == (root.context.span_id, "d" * 16)
    assert span.attributes == {"n": 3, "text": "ä", "yes": True, "share": 0.5}
    assert (span.links, span.steps) == (["b" * 16], ["fetched"])
    assert (span.state, span.error) == ("v=1", "it broke")
    assert span.seconds >= 0
    assert receiver.headers[0]["content-type"] == "application/x-protobuf"


def test_an_exemplar_leads_from_a_number_to_a_trace(metrics: Metrics) -> None:
    """For who asks for OpenMetrics; only where there is a trace; also from a child process."""
    child = Collector()
    stop_child = signal.listen(child.hear)
    stop = trace.export_to(lambda span: None)
    try:
        with trace.during("settle", "client") as span:
            emit(signal.STAGE_SECONDS, 0.2, stage="settle")
            emit(signal.RECEIVED, 3, queue="rain")
            emit(signal.DEAD, 1, queue="rain")
        emit(signal.STAGE_SECONDS, 7.0, stage="settle")
    finally:
        stop()
        stop_child()
    assert span is not None
    line = child.drain()
    assert line is not None
    supervisor = Metrics("dev")
    assert apply(line, supervisor)
    for one in (metrics, supervisor):
        with one.serve() as server:
            asked = urllib.request.Request(server.url, headers={"Accept": OPEN_METRICS})
            with urllib.request.urlopen(asked) as answer:
                text = answer.read().decode()
                assert "openmetrics-text" in answer.headers["Content-Type"]
            plain = urllib.request.urlopen(server.url).read().decode()
        found = {
            sample.name: sample.exemplar.labels
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.exemplar is not None
        }
        ours = {"trace_id": span.context.trace_id, "span_id": span.context.span_id}
        assert found == {
            "processing_latency_seconds_bucket": ours,
            "messages_received_total": ours,
        }
        assert text.count(" # {") == 2, "one bucket was observed in a trace, the other was not"
        assert " # {" not in plain
        assert one.answer("")[0].decode() == plain


def test_a_child_holds_no_more_spans_than_its_limit(metrics: Metrics) -> None:
    """What does not fit is dropped and counted; the rest leaves in lines."""
    gathered = Gathered(at_most=PER_LINE + 10)
    for _ in range(PER_LINE + 15):
        gathered.hear(trace.begin("s", "internal"))
    lines = gathered.drain()
    assert [len(parse(line)) for line in lines] == [PER_LINE, 10]
    assert gathered.drain() == []
    assert metrics.tally.snapshot().numbers["headgate_telemetry_dropped_total", ("spans",)] == 5
    assert parse(lines[0][:-7]) == []
    assert parse(b"{}") == parse(b"[1]") == parse(b"[[]]") == []


def test_a_collector_that_does_not_answer_holds_nobody_up(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection and says nothing: telling stays quick, the rest is counted."""
    monkeypatch.setattr(otlp, "EXPORT_SECONDS", 0.3)
    monkeypatch.setattr(otlp, "CLOSE_SECONDS", 0.5)
    gathered = Gathered()
    gathered.hear(trace.begin("s", "internal"))
    (line,) = gathered.drain()
    with Silent() as url:
        exporter = Exporter(url, metrics)
        began = time.monotonic()
        for _ in range(otlp.LINES * 3):
            exporter.take(line)
        told = time.monotonic() - began
        exporter.close()
        assert time.monotonic() - began < 5
    assert told < 0.5
    dropped = metrics.tally.snapshot().numbers["headgate_telemetry_dropped_total", ("spans",)]
    assert dropped >= otlp.LINES


def test_a_collector_that_is_back_is_told_again(
    metrics: Metrics, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """It refused for a while; that is said once, and that it answers again too."""
    caplog.set_level("INFO", "headgate.otlp")
    receiver.status = 400
    exporter = Exporter(receiver.url, metrics, metrics_seconds=0.05)
    while len(receiver.headers) < 3:
        time.sleep(0.01)
    receiver.status = 200
    assert receiver.arrived.wait(10)
    exporter.close()
    said = [str(record.msg).partition(" endpoint=")[0] for record in caplog.records]
    assert said == ["the collector cannot be reached", "the collector answers again"]


class Silent:
    """A server that accepts and never answers."""

    def __enter__(self) -> str:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    self._held.append(self._listening.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        for one in self._held:
            one.close()

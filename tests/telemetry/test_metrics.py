"""Signals as Prometheus reads them."""

import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from headgate.errors import UsageError
from headgate.model import signal
from headgate.model.signal import SIGNALS, Signal, emit
from headgate.telemetry.metrics import Metrics
from headgate.telemetry.relay import Collector, apply
from headgate.telemetry.tally import DISTINCT, bounds

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(metrics: Metrics) -> Samples:
    return parsed(metrics.text().decode())


def parsed(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    metrics = Metrics()
    stop = signal.listen(metrics.hear)
    yield metrics
    stop()


@pytest.mark.parametrize("one", SIGNALS, ids=lambda one: one.name)
def test_each_signal_is_exported_under_exactly_its_name(metrics: Metrics, one: Signal) -> None:
    """The dashboards' names are the promised ones, with no suffix added or lost."""
    before = samples(metrics)
    emit(one, 2.0, **dict.fromkeys(one.labels, "x"))
    labels = tuple(sorted((label, "x") for label in one.labels))
    changed = {key for key, value in samples(metrics).items() if before.get(key) != value}
    if one.kind == "histogram":
        assert {(f"{one.name}_count", labels), (f"{one.name}_sum", labels)} <= changed
        assert {name for name, _ in changed} == {
            f"{one.name}{part}" for part in ("_bucket", "_count", "_sum")
        }
    else:
        assert changed == {(one.name, labels)}


def test_every_signal_is_announced_before_it_happens() -> None:
    """A scrape of a quiet process already says which series there are, of which type."""
    text = Metrics().text().decode()
    for one in SIGNALS:
        assert f"# HELP {one.name} {one.help}\n# TYPE {one.name} {one.kind}\n" in text
    assert "headgate_ledger_outages_total 0.0" in text
    assert "_created" not in text


def test_counters_add_gauges_replace_histograms_sort(metrics: Metrics) -> None:
    """Each kind does what its readers expect."""
    for value in (1.0, 2.0):
        emit(signal.RECEIVED, value, queue="q")
        emit(signal.DEAD, value, queue="q")
    for value in (0.0004, 0.001, 0.2, 299.0, 4000.0):
        emit(signal.STAGE_SECONDS, value, stage="fetch")
    said = samples(metrics)
    assert said["messages_received_total", (("queue", "q"),)] == 3
    assert said["dead_letter_count", (("queue", "q"),)] == 2
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in said.items()
        if name == "processing_latency_seconds_bucket"
    }
    assert (buckets["0.001"], buckets["0.25"], buckets["300.0"], buckets["+Inf"]) == (2, 3, 4, 5)
    assert said["processing_latency_seconds_sum", (("stage", "fetch"),)] == pytest.approx(4299.2014)
    assert len(buckets) == len(bounds(signal.STAGE_SECONDS)) + 1


def test_emit_survives_what_no_series_can_hold(metrics: Metrics) -> None:
    """A bad value or an unknown signal costs its own sample, never the work it came from."""
    emit(signal.RECEIVED, float("nan"), queue="q")
    emit(signal.RECEIVED, -1.0, queue="q")
    emit(signal.STAGE_SECONDS, float("inf"), stage="s")
    emit(Signal("someone_elses", "gauge", "Not in the list."), 1.0)
    emit(signal.DEAD, 1.0, queue="\ud800", surprise="x")
    emit(signal.DEAD, 2.0)
    said = samples(metrics)
    assert {name for name, labels in said if labels} == {"dead_letter_count"}
    assert said["dead_letter_count", (("queue", "?"),)] == 1
    assert said["dead_letter_count", (("queue", ""),)] == 2


def test_a_label_cannot_grow_without_end(metrics: Metrics) -> None:
    """A source that names each delivery after itself does not fill Prometheus; the sum is right."""
    for number in range(DISTINCT + 300):
        emit(signal.RECEIVED, 1.0, queue=f"q{number}")
    emit(signal.RECEIVED, 1.0, queue="q0")
    said = {k: v for k, v in samples(metrics).items() if k[0] == "messages_received_total"}
    assert len(said) == DISTINCT + 1
    assert said["messages_received_total", (("queue", "other"),)] == 300
    assert said["messages_received_total", (("queue", "q0"),)] == 2
    assert sum(said.values()) == DISTINCT + 301


def test_the_installations_name_is_on_every_series() -> None:
    """With `env`, two installations can share a Prometheus."""
    metrics = Metrics(env="dev")
    metrics.hear(signal.RECEIVED, 1.0, {"queue": "q"})
    metrics.hear(signal.BATCH, 10.0, {"pipeline": "p"})
    assert all(("env", "dev") in labels for _, labels in samples(metrics))


def test_a_scrape_over_http_reads_the_same(metrics: Metrics) -> None:
    """Prometheus gets what was emitted, on the loopback address; later the port is free."""
    emit(signal.RETRIES, 3.0, reason="unavailable")
    with metrics.serve() as server:
        assert server.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(server.url, timeout=5) as answer:
            assert parsed(answer.read().decode()) == samples(metrics)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", server.port))


def test_a_port_in_use_is_named() -> None:
    """The operator reads which port is taken and what to do, not a traceback."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1 port {port}: the port is in use") as error:
            Metrics().serve(port=port)
        assert "--metrics-port" in error.value.hint


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    """A wrong `metrics_host` is said to be wrong."""
    with pytest.raises(UsageError, match=f"{host} port 0: this machine has no such address"):
        Metrics().serve(host)


def test_the_hosts_own_registry_stays_clean(metrics: Metrics) -> None:
    """A program that uses Headgate as a library does not find our series among its own."""
    emit(signal.RECEIVED, 1.0, queue="q")
    names = {metric.name for metric in REGISTRY.collect()}
    assert not names & {one.name.removesuffix("_total") for one in SIGNALS}


def test_what_children_counted_arrives_once() -> None:
    """However often children report, the supervisor's totals are the sums of what happened."""
    direct, relayed, children = Metrics(), Metrics(), [Collector() for _ in range(3)]
    for number in range(600):
        for one in SIGNALS:
            labels = dict.fromkeys(one.labels, f"v{number % 3}")
            child = children[0] if one.kind == "gauge" else children[number % 3]
            direct.hear(one, number % 7, labels)
            child.hear(one, number % 7, labels)
        if number % 50 == 0:
            for child in children:
                apply(child.drain() or b"", relayed)
    for child in children:
        assert apply(child.drain() or b"", relayed)
        assert child.drain() is None
    assert samples(relayed) == samples(direct)


def test_a_line_is_one_small_line() -> None:
    """It fits the pipe that carries other lines as well."""
    collector = Collector()
    for _ in range(1000):
        collector.hear(signal.RECEIVED, 1.0, {"queue": "a\nb"})
        collector.hear(signal.COMMIT_SECONDS, 0.01, {"pipeline": "p"})
    line = collector.drain()
    assert line is not None
    assert b"\n" not in line
    assert len(line) < 300
    json.loads(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[[],",
        b"[[],[]]",
        b'[[["messages_received_total",["q"],"1"]],[],[]]',
        b'[[["messages_received_total",["q"],NaN]],[],[]]',
        b'[[["messages_received_total",["q"],1]],[["headgate_commit_seconds",["p"],7]],[]]',
        b'[[],[],[["messages_received_total",["q"],0,1,"t"]]]',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_half_a_line_of_a_killed_child_is_left_out(line: bytes) -> None:
    """A worker that dies while it writes takes neither the supervisor nor half a count with it."""
    metrics = Metrics()
    before = metrics.text()
    assert not apply(line, metrics)
    assert metrics.text() == before


def test_no_count_is_lost_between_threads() -> None:
    """Handlers emit from many threads while the worker reports; every emit is counted."""
    collector, metrics = Collector(), Metrics()
    stop = signal.listen(collector.hear)
    running = threading.Event()
    running.set()

    def report() -> None:
        while running.is_set():
            apply(collector.drain() or b"", metrics)

    def work() -> None:
        for _ in range(5000):
            emit(signal.RECEIVED, 1.0, queue="q")

    reporter = threading.Thread(target=report)
    workers = [threading.Thread(target=work) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (reporter, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        running.clear()
        reporter.join()
    finally:
        sys.setswitchinterval(interval)
        stop()
    apply(collector.drain() or b"", metrics)
    assert samples(metrics)["messages_received_total", (("queue", "q"),)] == 20_000


CHILD = """
import sys
from headgate.model import signal
from headgate.telemetry.relay import Collector
collector = Collector()
signal.listen(collector.hear)
for _ in range(3):
    signal.emit(signal.SETTLED, 5.0, pipeline="rain", outcome="finalized")
    signal.emit(signal.COMMIT_SECONDS, 0.02, pipeline="rain")
    sys.stdout.buffer.write((collector.drain() or b"") + b"\\n")
    sys.stdout.flush()
"""


def test_real_processes_end_up_in_one_registry() -> None:
    """Two worker processes, one scrape: their counts are added."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    metrics = Metrics()
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, env=environ)
        for _ in range(2)
    ]
    for child in children:
        out, _ = child.communicate(timeout=30)
        assert all(apply(line, metrics) for line in out.splitlines())
    said = samples(metrics)
    assert said["headgate_settled_total", (("outcome", "finalized"), ("pipeline", "rain"))] == 30
    assert said["headgate_commit_seconds_count", (("pipeline", "rain"),)] == 6

"""Prometheus itself: it takes the rules, wakes whom it should, and answers every dashboard."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headgate, copied, open_folder, populated, server, world, zygote
from tests.observability.asked import FOLDER, RULES, Query, panels, rules
from tests.services.servers import PROMETHEUS, free_port, prometheus

__all__ = ["copied", "open_folder", "populated", "server", "world", "zygote"]

HERE = Path(__file__).parent
# What a ledger at rest has to show; the rest may be empty until something happens.
SHOWN = {
    "headgate-now: Applied twice",
    "headgate-now: Error budget left",
    "headgate-now: In quarantine",
    "headgate-now: Workers",
    "headgate-now: To do",
    "headgate-now: Dead letters by source",
    "headgate-pipeline: Budget left",
    "headgate-pipeline: Burn rate, 1 h",
    "headgate-pipeline: Latency",
    "headgate-pipeline: Oldest entry",
    "headgate-pipeline: Quarantine",
}


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Prometheus' own checker."""
    tool = PROMETHEUS.with_name("promtool")
    if not tool.exists():
        pytest.skip("NOT TESTED: no prometheus here (it needs apt). Run: make test-services")
    return tool


def _run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules(promtool: Path) -> None:
    """Nothing of them is refused, and the example configuration finds them."""
    said = _run(promtool, "check", "rules", *RULES, cwd=FOLDER)
    assert said.count("SUCCESS") == 2
    _run(promtool, "check", "config", "prometheus.yml", cwd=FOLDER / "prometheus")


def test_alerts_wake_whom_they_should_and_nobody_else(promtool: Path, tmp_path: Path) -> None:
    """Dead letters, double applies, budgets, workers, what is stuck: each by its own story."""
    for path in (*RULES, HERE / "alerts.yml"):
        shutil.copy(path, tmp_path / ("stories.yml" if path.parent == HERE else path.name))
    _run(promtool, "test", "rules", "stories.yml", cwd=tmp_path)


@pytest.fixture
def watched(copied: Headgate, tmp_path: Path) -> Iterator[tuple[Headgate, str]]:
    """A running `up` and a Prometheus that scrapes it; its address."""
    port = free_port()
    config = (FOLDER / "prometheus" / "prometheus.yml").read_text()
    config = config.replace("9464", str(port)).replace("15s", "1s")
    (tmp_path / "prometheus.yml").write_text(config)
    for path in RULES:
        shutil.copy(path, tmp_path)
    environment = {**copied.env, "HEADGATE_SWEEP_SECONDS": "0.5"}
    at = copied.at(copied.folder, **environment)
    with prometheus(tmp_path) as address:
        _until(lambda: _ready(address))
        running = at.start("up", "rain.py", "--workers", "1", "--metrics-port", str(port))
        try:
            yield at, address
        finally:
            running.terminate()
            running.communicate()


def _ask(address: str, path: str, **query: str) -> Any:
    url = f"{address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        said = json.load(answer)
    assert said["status"] == "success"
    return said["data"]


def _ready(address: str) -> bool:
    with suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{address}/-/ready", timeout=10):
        return True
    return False


def _until(true: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)  # Prometheus looks when it looks


def _value(address: str, query: str) -> list[Any]:
    return _ask(address, "query", query=query)["result"]


def test_a_real_prometheus_answers_every_dashboard(watched: tuple[Headgate, str]) -> None:
    """Rules are evaluated without an error, no query is refused, and panels are not empty."""
    _, address = watched
    _until(lambda: _value(address, 'headgate:slo_burn{window="1h"}'))
    _until(lambda: _value(address, 'headgate_entry_latency_seconds{quantile="0.95"}'))

    def evaluated() -> bool:
        groups = _ask(address, "rules")["groups"]
        seen = [rule for group in groups for rule in group["rules"]]
        assert len(seen) == len([*rules("record"), *rules("alert")])
        assert not [rule["lastError"] for rule in seen if rule.get("lastError")]
        return all(rule["health"] == "ok" for rule in seen)

    _until(evaluated)
    empty = {q.where for q in panels() if not _value(address, _meant(q))}
    assert not empty & SHOWN
    assert not _value(address, 'ALERTS{alertstate="firing", severity=~"sev1|sev2"}')


def _meant(query: Query) -> str:
    return query.expr.replace("$pipeline", ".*")


def test_a_spike_of_dead_letters_fires_for_real(watched: tuple[Headgate, str]) -> None:
    """Twenty files that the handler refuses: within seconds the alert is there, as Sev2."""
    headgate, address = watched
    _until(lambda: _value(address, "dead_letter_count"))
    (before,) = _value(address, "dead_letter_count")
    for n in range(20):
        (headgate.folder / "incoming" / f"spike-{n}.csv").write_text(f"station,at,mm\nx,never,{n}")
    firing = 'ALERTS{alertname="HeadgateDeadLetterSpike", alertstate="firing"}'
    _until(lambda: _value(address, firing))
    (fired,) = _value(address, firing)
    assert fired["metric"]["severity"] == "sev2"
    assert fired["metric"]["queue"] == before["metric"]["queue"]

"""Dashboards and alerts: what they ask for exists, and whoever is woken is told what to do."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from scripts import dashboards
from tests.cli.conftest import Headgate, copied, open_folder, populated, server, world, zygote
from tests.observability.asked import DASHBOARDS, Query, queries, rules

from headgate.ledger import wrong
from headgate.model.signal import SIGNALS

__all__ = ["copied", "open_folder", "populated", "server", "world", "zygote"]

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks" / "reliability"
GIVEN = {"up": {"job", "instance"}}
ANYWHERE = {"job", "instance", "env", "le"}

Scrape = dict[str, set[str]]


def _known() -> Scrape:
    """The labels of every metric there is, by the names that Prometheus stores."""
    known: Scrape = dict(GIVEN)
    for signal in SIGNALS:
        names = [signal.name]
        if signal.kind == "histogram":
            names = [signal.name + end for end in ("_bucket", "_sum", "_count")]
        known.update({name: set(signal.labels) for name in names})
    for rule in rules("record"):
        known[rule["record"]] = Query("", rule["expr"]).grouped - {"le"}
    return known


@pytest.mark.parametrize("query", queries(), ids=lambda q: q.where)
def test_whatever_is_asked_for_exists(query: Query) -> None:
    """No panel stays empty and no alert silent because a name was mistyped or renamed."""
    known = _known()
    assert query.metrics
    for metric, labels in query.metrics.items():
        assert metric in known, f"{query.where} asks for {metric}"
        assert labels <= known[metric] | ANYWHERE, f"{query.where}: {metric} has no {labels}"
    together = set[str]().union(*(known[metric] for metric in query.metrics))
    assert query.grouped <= together | ANYWHERE, f"{query.where} groups by {query.grouped}"


def test_a_running_up_shows_all_of_it(copied: Headgate) -> None:
    """Scraped for real: every metric that is asked for is there, and the ledger's with labels."""
    port = _free_port()
    running = copied.start("up", "rain.py", "--workers", "1", "--metrics-port", str(port))
    try:
        scraped = _scrape(port, until="headgate_slo_burn_rate")
    finally:
        running.terminate()
        running.communicate()
    recorded = {rule["record"] for rule in rules("record")}
    named = {metric for query in queries() for metric in query.metrics} - recorded - set(GIVEN)
    assert len(named) > 25
    missing = {n for n in named if n not in scraped and _family(n) not in scraped}
    assert not missing
    assert scraped["headgate_slo_burn_rate"] == {"slo", "pipeline", "window"}
    assert scraped["headgate_entry_latency_seconds"] == {"pipeline", "quantile"}
    assert scraped["headgate_oldest_entry_seconds"] == {"pipeline"}
    assert scraped["dead_letter_count"] == {"queue"}
    assert scraped["headgate_workers"] == set()


def _family(name: str) -> str:
    return re.sub("_(bucket|sum|count)$", "", name)


def _scrape(port: int, until: str) -> Scrape:
    """What Prometheus would read, with the labels that are there, once `until` has a value."""
    found: Scrape = {}
    deadline = time.monotonic() + 60
    while not found.get(until):
        assert time.monotonic() < deadline, sorted(found)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            time.sleep(0.05)  # there is no event for a port that is about to be open
            continue
        for family in text_string_to_metric_families(text):
            found.setdefault(family.name + "_total" * (family.type == "counter"), set())
            found.setdefault(family.name, set())
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        time.sleep(0 if found.get(until) else 0.1)
    return found


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("alert", list(rules("alert")), ids=lambda a: a["alert"])
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(alert: dict[str, object]) -> None:
    """Whoever is woken has a sentence, a severity and a page that knows the alert by name."""
    said = json.loads(json.dumps(alert))
    assert said["labels"]["severity"] in {"sev1", "sev2", "sev3", "sev4"}
    assert said["annotations"]["summary"]
    assert said["annotations"]["description"].endswith(".")
    page = RUNBOOKS / (said["annotations"]["runbook_url"].rpartition("/")[2][:-5] + ".md")
    assert page.exists(), page
    assert said["alert"] in page.read_text(), f"{page.name} does not speak of {said['alert']}"


def test_a_spike_of_dead_letters_is_sev2() -> None:
    """As the contract says."""
    by_name = {a["alert"]: a["labels"]["severity"] for a in rules("alert")}
    assert by_name["HeadgateDeadLetterSpike"] == "sev2"
    assert by_name["HeadgateDoubleApply"] == "sev1"


def test_what_top_calls_wrong_has_a_runbook() -> None:
    """The page that is named is there."""
    source = Path(wrong.__file__).read_text()
    named = set(re.findall(r'"((?:[a-z]+-)+[a-z]+)"', source))
    assert named >= {"double-apply", "dead-letters", "no-workers", "stuck-or-slow"}
    assert not [name for name in named if not (RUNBOOKS / f"{name}.md").exists()]


def test_the_dashboards_are_up_to_date() -> None:
    """What is imported into Grafana is what the table of panels says."""
    made = dashboards.files()
    assert {path.name: path.read_text() for path in DASHBOARDS} == made, (
        "run: .venv/bin/python -m scripts.dashboards"
    )


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda p: p.stem)
def test_a_dashboard_can_be_imported_anywhere(path: Path) -> None:
    """Numbers are unique, no panel covers another, and the data source is chosen by the reader."""
    made = json.loads(path.read_text())
    ids = [panel["id"] for panel in made["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert all(t["datasource"]["uid"] == "${datasource}" for t in panel.get("targets", []))
        assert panel["type"] == "row" or panel["description"]

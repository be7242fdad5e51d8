"""Signals: everything that is shown, in one list, with labels that cannot grow."""

import ast
import re
from pathlib import Path

import pytest

import headgate
from headgate.model import signal
from headgate.model.signal import RECEIVED, SIGNALS, Signal, emit, listen

SOURCE = Path(headgate.__file__).parent


def test_every_signal_is_in_the_list_and_there_once():
    """What is measured is documented, under a name of its own."""
    declared = [value for value in vars(signal).values() if isinstance(value, Signal)]
    assert sorted(s.name for s in declared) == sorted(s.name for s in SIGNALS)
    assert len({s.name for s in SIGNALS}) == len(SIGNALS)


@pytest.mark.parametrize("shown", SIGNALS, ids=lambda s: s.name)
def test_a_signal_is_named_and_explained(shown: Signal):
    """A name that Prometheus takes, a sentence of help, labels without doubles."""
    assert re.fullmatch(r"[a-z][a-z0-9_]*", shown.name)
    assert shown.help.endswith(".")
    assert shown.name.endswith("_total") == (shown.kind == "counter")
    assert len(set(shown.labels)) == len(shown.labels)
    assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in shown.labels)
    assert not {"entry", "uri", "key", "digest"} & set(shown.labels), "grows with the data"


def _emitted() -> list[tuple[str, str, set[str]]]:
    """Every `emit(...)` in the code: where, which signal, with which labels."""
    found: list[tuple[str, str, set[str]]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                first = node.args[0] if node.args else None
                if not isinstance(first, (ast.Name, ast.Attribute)):
                    continue
                name = first.id if isinstance(first, ast.Name) else first.attr
                labels = {k.arg or "**" for k in node.keywords} - {"value"}
                if called == "tell":  # an operation tells all of its signals with its own names
                    labels = set(signal.REPLAYS.labels)
                elif called != "emit":
                    continue
                found.append((f"{path.relative_to(SOURCE)}:{node.lineno}", name, labels))
    return found


def test_whoever_emits_gives_exactly_the_labels_of_the_signal():
    """A label that is missing or new would split a series in two."""
    emitted = [e for e in _emitted() if isinstance(getattr(signal, e[1], None), Signal)]
    assert len(emitted) > 5
    wrong = [
        (where, name, labels)
        for where, name, labels in emitted
        if labels != set(getattr(signal, name).labels)
    ]
    assert not wrong


def test_every_signal_is_emitted_somewhere():
    """A dashboard is never built on a series that does not exist."""
    emitted = {name for _, name, _ in _emitted()}
    constants = {name for name, value in vars(signal).items() if isinstance(value, Signal)}
    assert constants <= emitted


def test_a_signal_without_a_listener_goes_nowhere():
    """Used as a library, Headgate says nothing unless asked."""
    emit(RECEIVED, 3, queue="rain")


def test_a_listener_hears_every_signal_until_it_stops():
    """With its value and labels."""
    heard: list[tuple[str, float, dict[str, str]]] = []
    stop = listen(lambda s, value, labels: heard.append((s.name, value, labels)))
    emit(RECEIVED, 3, queue="rain")
    emit(RECEIVED, queue="snow")
    stop()
    emit(RECEIVED, 5, queue="rain")
    assert heard == [
        ("messages_received_total", 3, {"queue": "rain"}),
        ("messages_received_total", 1.0, {"queue": "snow"}),
    ]


def test_a_listener_that_fails_costs_nothing_but_itself():
    """A broken dashboard does not stop the work, nor what others hear."""
    heard: list[float] = []

    def broken(*_: object) -> None:
        raise RuntimeError("no disk for metrics")

    stops = [listen(broken), listen(lambda _s, value, _l: heard.append(value))]
    emit(RECEIVED, 1, queue="rain")
    for stop in stops:
        stop()
    assert heard == [1]


def test_a_listener_may_leave_while_it_listens():
    """Nobody else misses anything for it."""
    heard: list[str] = []

    def once(*_: object) -> None:
        heard.append("once")
        stops[0]()

    stops = [listen(once), listen(lambda *_: heard.append("always"))]
    emit(RECEIVED, queue="rain")
    emit(RECEIVED, queue="rain")
    stops[1]()
    assert heard == ["once", "always", "always"]

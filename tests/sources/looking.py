"""How the tests look at a folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headgate.model.envelope import Envelope
from headgate.model.ports import Known, Noticed
from headgate.sources import Directory

LATER = timedelta(seconds=60)


def now() -> datetime:
    return datetime.now(UTC)


def look(source: Directory, known: dict[str, Known] | None = None) -> list[Noticed]:
    """A scan at a time when everything has settled."""
    return source.scan(known or {}, now() + LATER).changes


def found(source: Directory) -> set[str]:
    """The names it picks up, relative to the folder."""
    return {change.uri.removeprefix(source.uri + "/") for change in look(source)}


def remember(changes: list[Noticed]) -> dict[str, Known]:
    return {change.uri: Known(change.hint, 1) for change in changes}


def one(source: Directory) -> Envelope:
    (change,) = look(source)
    return source.envelope(change, 1, now())

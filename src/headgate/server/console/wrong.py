"""The ways out of what is wrong (`ledger/wrong.py`), as pages of the console."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.ledger.wrong import Wrong

from .page import with_query


@dataclass(frozen=True, slots=True)
class Way:
    """A page that helps."""

    name: str
    href: str


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that is wrong, and where to go about it."""

    wrong: Wrong
    ways: list[Way]

    @property
    def word(self) -> str:
        """Its severity as people say it."""
        return "Act" if self.wrong.severity == "bad" else "Look"


def told(wrong: Wrong) -> Told:
    """With its ways out."""
    return Told(wrong, list(_ways(wrong)))


def _ways(w: Wrong) -> Iterator[Way]:
    if w.redrive is not None:
        yield Way(f"See redrive {w.redrive}", f"/redrives/{w.redrive}")
    elif w.replay is not None:
        yield Way(f"See replay {w.replay}", f"/replays/{w.replay}")
    elif w.kind == "aside":
        these = {"class": w.classed, "reason": w.reason}
        yield Way("Look and decide", with_query("/quarantine", pipeline=w.pipeline, **these))
    elif w.kind == "budget_spent":
        yield Way("See what fails", with_query("/quarantine", pipeline=w.pipeline))
        yield Way("Override it", f"/pipelines/{w.pipeline}#budget")
    elif w.pipeline is not None:
        yield Way(f"See {w.pipeline}", f"/pipelines/{w.pipeline}")

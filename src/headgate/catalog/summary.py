"""The summary of a run: what came, what became of it, what it replaced, how to undo it."""

from __future__ import annotations

from headgate.model.facts import Facts

from .render import moment


def summary(facts: Facts) -> str:
    """A page of Markdown."""
    envelope = facts.shown
    return f"# Run {facts.run}\n\n{envelope['uri']}: {facts.outcome} at {moment(facts.at)}\n"

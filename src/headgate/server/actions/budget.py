"""Budgets: go on at the usual pace, though too much fails."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headgate.ledger import budget, label
from headgate.server.access import by_sight
from headgate.server.problem import Refusal

from .action import Action, Answer, Doing, Given, Word


class Override(Given):
    """Whose budget, and for how long."""

    pipeline: Word
    seconds: Annotated[float, Field(gt=0, le=7 * 86_400)] = 3600.0


async def _override(doing: Doing, taken: Override) -> Answer:
    by_sight(doing.by, taken.pipeline)
    if not await label.is_pipeline(doing.db, taken.pipeline):
        raise Refusal("no_such_pipeline", f"the ledger knows no pipeline {taken.pipeline!r}")
    until = await budget.override(
        doing.db, taken.pipeline, taken.seconds, because=doing.because, actor=doing.actor
    )
    return {"pipeline": taken.pipeline, "until": until}


ACTIONS = (
    Action(
        "budget_override",
        "operator",
        Override,
        "Go on at the usual pace for a while, though the error budget is spent",
        _override,
    ),
)

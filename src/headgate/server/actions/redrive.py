"""Redrives: let what is in quarantine run again by a plan, and look after it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from headgate.ledger import label
from headgate.ledger import redrive as ledger
from headgate.model.redrive import Terms, per_second
from headgate.server.access import by_sight
from headgate.server.problem import Refusal

from .action import Action, Answer, Doing, Given, Number, Word


class Plan(Given):
    """Which entries of the quarantine, and how careful. What is left out is any."""

    pipeline: Word | None = None
    classed: Annotated[Word | None, Field(alias="class")] = None
    reason: Word | None = None
    since: AwareDatetime | None = None
    canary: Annotated[int, Field(ge=0, le=10_000)] = 5
    batch: Annotated[int, Field(ge=1, le=10_000)] = 50
    rate: Annotated[Word, Field(description="At most so many: `10/s`, `600/m`, `max`.")] = "10/s"
    stop_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    backlog: Annotated[int, Field(ge=1, le=1_000_000)] = 1000

    @property
    def wanted(self) -> ledger.Wanted:
        return ledger.Wanted(self.pipeline, self.classed, self.reason, self.since)

    @property
    def terms(self) -> Terms:
        pace = per_second(self.rate)
        return Terms(self.canary, self.batch, pace, self.stop_share, self.backlog)


class Redrive(Given):
    """A plan, by number."""

    id: Number


async def _plan(doing: Doing, taken: Plan) -> Answer:
    told = await _look(doing, taken)
    made = await ledger.plan(
        doing.db, taken.wanted, taken.terms, because=doing.because, actor=doing.actor
    )
    return {"redrive": made, **told}


async def _look(doing: Doing, taken: Plan) -> Answer:
    if taken.pipeline is not None:
        by_sight(doing.by, taken.pipeline)
    elif doing.by.pipelines is not None:
        raise Refusal("pipeline_not_theirs", "name one of your pipelines")
    planned = await ledger.preview(doing.db, taken.wanted, taken.terms)
    counts = [
        {"pipeline": pipeline, "class": classed, "reason": reason, "entries": entries}
        for (pipeline, classed, reason), entries in sorted(planned.counts.items())
    ]
    return {"entries": planned.total, "first": planned.first, "reasons": counts}


def _turning(verb: Literal["pause", "resume", "stop"], about: str) -> Action[Redrive]:
    async def does(doing: Doing, taken: Redrive) -> Answer:
        names = await label.of_redrive(doing.db, taken.id)
        if not names:
            raise Refusal("unknown_redrive", f"there is no redrive {taken.id}")
        by_sight(doing.by, *names)
        state = await ledger.turn(
            doing.db, taken.id, verb, because=doing.because, actor=doing.actor
        )
        return {"redrive": taken.id, "state": state}

    return Action(f"redrive_{verb}", "operator", Redrive, about, does)


ACTIONS = (
    Action(
        "redrive",
        "operator",
        Plan,
        "Let what is in quarantine run again by a plan",
        _plan,
        _look,
    ),
    _turning("pause", "Release nothing more of a redrive until it is resumed"),
    _turning("resume", "Go on with a redrive that was paused"),
    _turning("stop", "Release nothing more of a redrive"),
)

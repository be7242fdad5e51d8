"""Release, discard, undiscard: what a person decides about entries in quarantine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import Field

from headgate.ledger import quarantine
from headgate.server.problem import Refusal

from .action import Action, Answer, Doing, Given, Number, theirs

MOST_ENTRIES = 1000


class Entries(Given):
    """Entries, by number. More than a thousand are a redrive."""

    entries: Annotated[list[Number], Field(min_length=1, max_length=MOST_ENTRIES)]


def _decision(
    name: str,
    about: str,
    decide: Callable[..., Awaitable[list[int]]],
    where: str,
) -> Action[Entries]:
    async def does(doing: Doing, taken: Entries) -> Answer:
        await theirs(doing, taken.entries)
        asked = sorted(set(taken.entries))
        decided = await decide(doing.db, asked, because=doing.because, actor=doing.actor)
        if missing := sorted(set(asked) - set(decided)):
            named = ", ".join(str(entry) for entry in missing[:20])
            raise Refusal("not_there", f"not {where}: {named}; nothing was changed")
        return {"entries": sorted(decided)}

    # What would be done is done, and undone with its transaction: nothing tells more exactly.
    return Action(name, "operator", Entries, about, does, does)


ACTIONS = (
    _decision(
        "release",
        "Let entries run again from the start, with the same keys",
        quarantine.release,
        "in quarantine",
    ),
    _decision(
        "discard",
        "Decide that entries will not be processed",
        quarantine.discard,
        "in quarantine",
    ),
    _decision(
        "undiscard",
        "Put discarded entries back into quarantine",
        quarantine.undiscard,
        "discarded, or no longer to be had back",
    ),
)

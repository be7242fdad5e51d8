"""What an action is, and what is known while one is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from headgate.ledger import label
from headgate.model.role import Principal, Role
from headgate.pg import Database
from headgate.server.access import by_sight
from headgate.server.doors import Serving
from headgate.server.problem import Refusal

MOST = 2**63 - 1
Number = Annotated[int, Field(ge=1, le=MOST)]
Word = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]

Answer = dict[str, Any]


class Given(BaseModel):
    """What an action is told. Nothing that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


T = TypeVar("T", bound=Given)


@dataclass(frozen=True, slots=True)
class Doing:
    """An action under way: by whom, why, and the ledger inside the transaction it commits in."""

    serving: Serving
    by: Principal
    because: str
    db: Database

    @property
    def actor(self) -> str:
        return self.by.name


@dataclass(frozen=True, slots=True)
class Action(Generic[T]):
    """Something that somebody may decide. `asks` is for one whose role depends on what it is told.

    `looks` says what it would do; it runs in a transaction that is undone. `then` begins what goes
    on after the commit. `secret` is a field of the answer that is told once and not kept.
    """

    name: str
    role: Role
    takes: type[T]
    about: str
    does: Callable[[Doing, T], Awaitable[Answer]]
    looks: Callable[[Doing, T], Awaitable[Answer]] | None = None
    asks: Callable[[T], Role] | None = None
    then: Callable[[Serving, T, Answer], None] | None = None
    secret: str | None = None

    def role_for(self, taken: T) -> Role:
        """The role it needs, for what it is told."""
        return self.role if self.asks is None else self.asks(taken)


async def theirs(doing: Doing, entries: Iterable[int], unknown: str = "unknown_entry") -> list[str]:
    """The pipelines of these entries. Raises `Refusal` for one that is not there, or not theirs."""
    asked = sorted(set(entries))
    found = await label.of_entries(doing.db, asked)
    if missing := [entry for entry in asked if entry not in found]:
        raise Refusal(unknown, f"there is no entry {missing[0]}")
    names = sorted(set(found.values()))
    by_sight(doing.by, *names)
    return names

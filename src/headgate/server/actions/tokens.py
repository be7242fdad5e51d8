"""Tokens: made and ended by an admin. Who is limited to pipelines hands on no more than that."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headgate.ledger import token as tokens
from headgate.model.role import Principal, Role
from headgate.server.access import by_sight
from headgate.server.problem import Refusal

from .action import Action, Answer, Doing, Given, Word

DAY = 86_400


class Token(Given):
    """What a new token is for. Without pipelines it is for all that its maker may see."""

    name: Annotated[Word, Field(max_length=tokens.NAME_CHARACTERS)]
    role: Role
    pipelines: Annotated[list[Word] | None, Field(min_length=1, max_length=1000)] = None
    seconds: Annotated[float, Field(gt=0, le=3660 * DAY)] = 90.0 * DAY


class TokenId(Given):
    """A token or a session, by its id."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]{12}$")]


async def _make(doing: Doing, taken: Token) -> Answer:
    pipelines = doing.by.pipelines if taken.pipelines is None else frozenset(taken.pipelines)
    by_sight(doing.by, *(pipelines or ()))
    made = await tokens.make(
        doing.db,
        taken.name,
        taken.role,
        taken.seconds,
        pipelines=pipelines,
        actor=doing.actor,
        because=doing.because,
    )
    return {
        "id": made.id,
        "token": made.token,
        "name": taken.name,
        "role": taken.role,
        "pipelines": None if pipelines is None else sorted(pipelines),
        "expires_at": made.expires_at,
    }


async def _revoke(doing: Doing, taken: TokenId) -> Answer:
    found = await tokens.find(doing.db, taken.id)
    if found is None or not may_see(doing.by, found["pipelines"]):
        raise Refusal("unknown_token", f"there is no token {taken.id}")
    ended = await tokens.revoke(doing.db, taken.id, actor=doing.actor, because=doing.because)
    if ended is None:
        raise Refusal("action_refused", f"token {taken.id} was ended before")
    return {"id": taken.id, "name": ended["name"], "kind": ended["kind"]}


def may_see(by: Principal, pipelines: list[str] | None) -> bool:
    """Is a token for these pipelines no more than they may themselves?"""
    return by.pipelines is None or (pipelines is not None and by.pipelines >= set(pipelines))


ACTIONS = (
    Action(
        "token_create",
        "admin",
        Token,
        "Make a token. It is in the answer, once",
        _make,
        # The ledger has hashes of tokens, and no answer in which one could be read.
        secret="token",
    ),
    Action("token_revoke", "admin", TokenId, "End a token and the sessions it opened", _revoke),
)

"""Doing an action: who may, why, under which key; all of it one commit."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from headgate.errors import LedgerUnavailable, UsageError
from headgate.ledger import action_key
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.role import Principal
from headgate.model.signal import OUTAGE, emit
from headgate.pg import Joined, Link
from headgate.server.access import needs
from headgate.server.doors import LEDGER_SECONDS, RETRY_AFTER_SECONDS, Serving
from headgate.server.problem import PROBLEMS, Refusal
from headgate.telemetry.log import get_logger

from . import budget, past, quarantine, redrive, tokens
from .action import Action, Answer, Doing, Given

log = get_logger("headgate.serve")

ACTIONS: dict[str, Action[Any]] = {
    action.name: action
    for action in (
        *quarantine.ACTIONS,
        *redrive.ACTIONS,
        *past.ACTIONS,
        *budget.ACTIONS,
        *tokens.ACTIONS,
    )
}
BECAUSE_CHARACTERS = 1000
KEY_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class Done:
    """What was done. `again`: it was done before, under the same key; this is its answer."""

    answer: Answer
    again: bool = False


async def act(
    serving: Serving,
    principal: Principal,
    name: str,
    given: Mapping[str, Any],
    *,
    because: str,
    request_key: str | None = None,
) -> Done:
    """Do an action: durable when it returns. Raises `Refusal`, and then nothing was changed.

    The one exception is `outcome_unknown`, which says so; with a key it is safe to ask again.
    """
    action, taken = _asked(principal, name, given)
    why = _reason(because)
    who, key = f"{principal.how} {principal.id}", _key(request_key)
    said = orjson.dumps([name, taken.model_dump(mode="json"), why])
    async with _settled(serving) as link:
        if key is not None:
            earlier = await action_key.claim(link, who, key, hashlib.sha256(said).digest())
            if earlier is not None and not earlier.same:
                raise Refusal("key_reused")
            if earlier is not None:
                return Done(dict(earlier.answer), again=True)
        doing = Doing(serving, principal, why, Joined(serving.db, link))
        answer: Answer = _plain(await action.does(doing, taken))
        if key is not None:
            kept = answer if action.secret is None else {**answer, action.secret: None}
            await action_key.keep(link, who, key, kept)
    reached(Point.AFTER_RELEASE)
    log.info("done", action=name, by=principal.name, because=why)
    if action.then is not None:
        action.then(serving, taken, answer)
    return Done(answer)


async def preview(
    serving: Serving, principal: Principal, name: str, given: Mapping[str, Any]
) -> Answer:
    """What an action would do now. Nothing is changed. Raises `Refusal` where it cannot be done."""
    action, taken = _asked(principal, name, given)
    if action.looks is None:
        raise Refusal("no_preview", f"{name} is done, or not done")
    try:
        async with _settled(serving) as link:
            doing = Doing(serving, principal, "preview", Joined(serving.db, link))
            raise _Only(_plain(await action.looks(doing, taken)))
    except _Only as only:
        return only.answer


class _Only(Exception):
    """It was only looked at: the transaction is undone."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


def _asked(principal: Principal, name: str, given: Mapping[str, Any]) -> tuple[Action[Any], Given]:
    if (action := ACTIONS.get(name)) is None:
        raise Refusal("not_found", f"there is no action {name[:100]!r}")
    needs(action.role).met_by(principal)
    try:
        taken: Given = action.takes.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the request"
        raise Refusal("bad_request", f"{where}: {first['msg']}") from None
    needs(action.role_for(taken)).met_by(principal)
    return action, taken


def _reason(because: str) -> str:
    """The reason, in one line. It is kept, and shown on terminals and pages."""
    why = " ".join(because.split())
    if not why:
        raise Refusal("reason_needed")
    if len(why) > BECAUSE_CHARACTERS or not why.isprintable():
        raise Refusal("bad_request", f"because: {BECAUSE_CHARACTERS} printable characters at most")
    return why


def _key(key: str | None) -> str | None:
    if key is not None and not (0 < len(key) <= KEY_CHARACTERS and key.isprintable()):
        raise Refusal("bad_request", f"Idempotency-Key: 1 to {KEY_CHARACTERS} printable characters")
    return key


def _plain(answer: Answer) -> Answer:
    """As it is kept and sent: the first answer and its repetition are the same bytes."""
    return orjson.loads(orjson.dumps(answer))


@asynccontextmanager
async def _settled(serving: Serving) -> AsyncGenerator[Link]:
    """A transaction that ends in time; how it ended is known, or said not to be."""
    link: Link | None = None
    try:
        async with asyncio.timeout(LEDGER_SECONDS), serving.db.transaction() as link:
            # So that a COMMIT whose answer was lost can be asked about.
            link.xid = await link.fetchval("SELECT pg_current_xact_id()::text::bigint")
            yield link
    except UsageError as error:
        known = error.reason if error.reason in PROBLEMS else "action_refused"
        raise Refusal(known, str(error), hint=error.hint) from error
    except (LedgerUnavailable, TimeoutError) as error:
        if link is not None and link.committed:
            return
        emit(OUTAGE)
        log.warning("ledger away", why=str(error) or f"no answer in {LEDGER_SECONDS:g} s")
        lost = link is not None and link.committed is None
        reason = "outcome_unknown" if lost else "ledger_unavailable"
        raise Refusal(reason, retry_after=RETRY_AFTER_SECONDS) from error

"""What concerns the past: take back a publication, let a key run again, replay a window."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from headgate.ledger import label, replay, reset, revert
from headgate.model.role import Role
from headgate.runtime import station
from headgate.runtime.replays import pins_of
from headgate.server.access import by_sight
from headgate.server.problem import Refusal

from .action import Action, Answer, Doing, Given, Number, Word, theirs
from .background import WAITING_MOST, verify_later

Aspect = Literal["version", "code", "params", "config", "schemas", "lookups"]


class Revert(Given):
    """A publication, by its entry's number, and the version to go back to: the one before."""

    entry: Number
    to: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None


class Entry(Given):
    """An entry, by number."""

    entry: Number


class Replay(Given):
    """A window of event time of a pipeline that this server has loaded, [start, end)."""

    pipeline: Word
    mode: Literal["verify", "publish"]
    start: AwareDatetime | None = None
    end: AwareDatetime | None = None
    accept: Annotated[
        list[Aspect], Field(max_length=6, description="What may be another than it was.")
    ] = []  # noqa: RUF012 (pydantic copies it)
    per_second: Annotated[float | None, Field(gt=0, le=1_000_000)] = None
    every: Annotated[bool, Field(description="Verify every version, not only the current.")] = False


class ReplayId(Given):
    """A replay, by number."""

    id: Number


async def _revert(doing: Doing, taken: Revert) -> Answer:
    told = await _would_revert(doing, taken)
    entry = await revert.ask(
        doing.db, taken.entry, because=doing.because, actor=doing.actor, to=taken.to
    )
    return {**told, "entry": entry}


async def _would_revert(doing: Doing, taken: Revert) -> Answer:
    await theirs(doing, [taken.entry], "unknown_publication")
    plan = await revert.plan(doing.db, taken.entry, to=taken.to)
    return {
        "reverts": plan.reverted.entry,
        "restores": None if plan.restored is None else plan.restored.entry,
        "uri": plan.reverted.envelope.uri,
        "delta": plan.delta,
        "other_code": plan.other_code,
    }


async def _reset(doing: Doing, taken: Entry) -> Answer:
    told = await _would_reset(doing, taken)
    runs = await reset.reset(doing.db, taken.entry, because=doing.because, actor=doing.actor)
    return {**told, "runs": runs}


async def _would_reset(doing: Doing, taken: Entry) -> Answer:
    await theirs(doing, [taken.entry])
    return {"entry": taken.entry, "how": await reset.plan(doing.db, taken.entry)}


async def _replay(doing: Doing, taken: Replay) -> Answer:
    return await _frozen(doing, taken, dry_run=False)


async def _would_replay(doing: Doing, taken: Replay) -> Answer:
    return await _frozen(doing, taken, dry_run=True)


async def _frozen(doing: Doing, taken: Replay, *, dry_run: bool) -> Answer:
    by_sight(doing.by, taken.pipeline)
    loaded = doing.serving.loaded.get(taken.pipeline)
    if loaded is None:
        raise Refusal("not_loaded", f"this server has not loaded {taken.pipeline!r}")
    if taken.mode == "verify" and not await asyncio.to_thread(loaded.is_as_it_was):
        raise Refusal("not_loaded", f"the file of {taken.pipeline!r} has changed since it was read")
    if taken.mode == "verify" and len(doing.serving.verifying) >= WAITING_MOST and not dry_run:
        raise Refusal("too_many_requests", f"{WAITING_MOST} verifications wait", retry_after=60)
    wanted = replay.Wanted(
        pipeline=taken.pipeline,
        mode=taken.mode,
        pins=await asyncio.to_thread(pins_of, loaded.pipeline),
        environment=station.environment(),
        start=taken.start,
        end=taken.end,
        because=doing.because,
        actor=doing.actor,
        per_second=taken.per_second,
        accepted=tuple(taken.accept),
        every=taken.every and taken.mode == "verify",
    )
    frozen = await replay.ask(doing.db, wanted, dry_run=dry_run)
    told: Any = frozen.manifest
    number = None if dry_run else frozen.id
    return {"replay": number, "inputs": frozen.inputs, "mode": taken.mode, "manifest": told}


def _asks(taken: Replay) -> Role:
    return "steward" if taken.mode == "publish" else "operator"


async def _stop(doing: Doing, taken: ReplayId) -> Answer:
    pipeline = await label.of_replay(doing.db, taken.id)
    if pipeline is None:
        raise Refusal("unknown_replay", f"there is no replay {taken.id}")
    by_sight(doing.by, pipeline)
    far = await replay.stop(doing.db, taken.id, because=doing.because, actor=doing.actor)
    if far is None:
        raise Refusal("action_refused", f"replay {taken.id} has ended already")
    return {"replay": taken.id, "done": far[0], "inputs": far[1]}


ACTIONS = (
    Action(
        "revert",
        "steward",
        Revert,
        "Take back what readers see of a uri",
        _revert,
        _would_revert,
    ),
    Action("reset", "operator", Entry, "Let a key run again", _reset, _would_reset),
    Action(
        "replay",
        "operator",
        Replay,
        "Run a window of the past again: verify it, or publish it anew (a steward)",
        _replay,
        _would_replay,
        _asks,
        verify_later,
    ),
    Action("replay_stop", "operator", ReplayId, "Admit nothing more of a replay", _stop),
)

"""Revert: take back what readers see of a uri, through the same gates (C11).

Asking for it only admits an entry; a worker runs it like any other change. What it takes back is
named when it is asked for: if something newer is published first, the revert finds that out and
changes nothing. It is a publication of its own, so it can be reverted too.
"""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

import orjson

from headgate.errors import UsageError
from headgate.model import delta, revert
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.facts import Facts, Version
from headgate.model.identity import change_key
from headgate.pg import Database, Link, queries

from . import facts, inbox
from . import object as objects
from .inbox import Registered

Q = queries.load(__file__)
SOURCE = "revert"
# Which of these digests are in a store: only looked at, or held from now on.
There = Callable[[Link, int, Collection[bytes]], Awaitable[set[bytes]]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a revert would do. `restored` is None where nothing was published before."""

    reverted: Facts
    restored: Facts | None
    other_code: bool  # rows are derived again by code that is not what derived them first

    @property
    def delta(self) -> delta.Delta:
        """What would change for readers."""
        return delta.between(self.reverted.version, self._back_to)

    @property
    def rows(self) -> list[delta.Rows]:
        """The tables in which rows would come or go."""
        return delta.rows(self.reverted.version, self._back_to)

    @property
    def _back_to(self) -> Version | None:
        return None if self.restored is None else self.restored.version


async def plan(db: Database, entry: int, *, to: int | None = None, again: bool = False) -> Plan:
    """What reverting this publication would do. Raises `UsageError` where it cannot be done."""
    async with db.connection() as link:
        return (await _plan(link, entry, to, again, objects.kept))[0]


async def ask(
    db: Database,
    entry: int,
    *,
    because: str,
    actor: str = "",
    to: int | None = None,
    again: bool = False,
) -> int:
    """Ask for a revert: durable when it returns. The number of the entry that will do it.

    `again`: run the same change once more; what comes of it takes the publication's place.
    """
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')
    async with db.transaction() as link:
        await link.fetchval(Q.lock, entry)
        made, at, row = await _plan(link, entry, to, again, objects.hold)
        restored = made.restored
        times, pending = tuple(await link.fetchrow(Q.asked, entry) or (0, None))
        if pending is not None:
            raise UsageError(
                f"publication {entry} is being reverted already, by entry {pending}",
                hint=f"See where it is: headgate entry explain {pending}",
            )
        envelope = revert.envelope(
            made.reverted,
            restored,
            number=times + 1,
            received_at=row["now"],
            data=None if restored is None else await link.fetchval(Q.data, restored.entry),
            again=again,
        )
        await inbox.admit(link, at, SOURCE, [envelope])
        back_to = None if restored is None else restored.entry
        admitted: int = await link.fetchval(
            Q.mark, change_key(envelope), entry, back_to, at.pipeline
        )
        verb = "reset" if again else "revert"
        await link.execute(Q.act, actor or getpass.getuser(), verb, admitted, because)
        reached(Point.BEFORE_RECEIVE)
    reached(Point.AFTER_RECEIVE)
    return admitted


async def _plan(
    link: Link, entry: int, to: int | None, again: bool, there: There
) -> tuple[Plan, Registered, Any]:
    (reverted,) = await facts.of_publications(link, [entry]) or (None,)
    if reverted is None or reverted.version is None:
        raise UsageError(
            f"entry {entry} published nothing, so there is nothing to take back",
            hint="See what readers see: headgate publication list",
        )
    version = reverted.version
    if reverted.successor is not None:
        head = await link.fetchrow(Q.head, entry)
        assert head is not None
        raise UsageError(
            f"publication {entry} is version {version.number} of its uri; readers see version"
            f" {head['version']} (publication {head['entry']})",
            hint=f'headgate publication revert {head["entry"]} --to {version.number} --because "…"',
        )
    if again and version.removed:
        raise UsageError(
            f"publication {entry} says that the object is gone; there is nothing to run again",
            hint=f'Bring back what was there: headgate publication revert {entry} --because "…"',
        )
    row = await link.fetchrow(Q.where, entry)
    assert row is not None
    declared: dict[str, Any] = orjson.loads(row["declared"])
    if stuck := [a["handler"] for a in declared["applies"] if a["undo"] is None]:
        raise UsageError(
            f"pipeline {reverted.pipeline} runs SQL of its own ({', '.join(stuck)}) and has not"
            " said how to take it back",
            hint="declare it with apply(undo=…) and start it once; then revert",
        )
    restored = reverted if again else await _restored(link, reverted, to)
    if restored is not None:
        await _need(link, row["store"], restored, again, there)
    other_code = restored is not None and restored.code != row["code"].hex()
    at = Registered(row["pipeline"], row["deployment"], row["store"])
    return Plan(reverted, restored, other_code), at, row


async def _need(link: Link, store: int, restored: Facts, again: bool, there: There) -> None:
    """Its bytes must be there. Who asks for the revert holds them: nobody collects them then."""
    assert restored.version is not None
    # What runs again is made again: only what came in is needed.
    needed = restored.version.files[:1] if again else restored.version.files
    files = {bytes.fromhex(f.digest): f for f in needed}
    if await link.fetchval(Q.data, restored.entry) is not None:
        files.pop(bytes.fromhex(restored.version.content), None)  # it came inside its message
    gone = files.keys() - await there(link, store, files.keys())
    if gone:
        went = await objects.collected(link, store, gone)
        first = min(gone)
        why = f"were {went[first]}" if first in went else "are not in the store"
        raise UsageError(
            f"version {restored.version.number} cannot be had again: the bytes of"
            f" {files[first].name!r} (sha256 {first.hex()}) {why}",
            hint="keep them longer: HEADGATE_RETENTION_DAYS; have the source send them again",
        )


async def _restored(link: Link, reverted: Facts, to: int | None) -> Facts | None:
    assert reverted.version is not None
    before = reverted.before.entry if reverted.before else None
    if to is not None:
        if not 0 < to < reverted.version.number:
            raise UsageError(
                f"--to {to}: readers see version {reverted.version.number}; go back to a lower one",
                hint=f"headgate publication show {reverted.entry}",
            )
        before = await link.fetchval(Q.version, reverted.entry, to)
    if before is None:
        return None
    (restored,) = await facts.of_publications(link, [before])
    if restored.version is not None and restored.version.retired:
        raise UsageError(
            f"version {restored.version.number} says that the object was retired; there is nothing"
            " of its own to bring back",
            hint=f"go back to the version before it: --to {restored.version.number - 1}",
        )
    return restored

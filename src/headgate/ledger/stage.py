"""Staging: the bytes of attempts become durable before anything refers to them (C5).

Touched in the ledger first, then looked for, then written: whoever collects what nobody needs sees
the touch, or has condemned the bytes before, and then they are written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from headgate.errors import Permanent
from headgate.model.entry import Point
from headgate.model.ports import Store
from headgate.model.verdict import Finalized, Quarantine, Verdict
from headgate.pg import Database

from . import object as objects
from .attempt import Attempt
from .run import in_thread

KEEPERS = 8

Generations = dict[bytes, tuple[int, bool]]
Judge = Callable[[Attempt, BaseException], Verdict]


class Stager:
    """Makes the bytes of one pipeline's attempts durable. `judge` says what a failure means."""

    def __init__(self, db: Database, number: int, store: Store, judge: Judge) -> None:
        self._db = db
        self._number = number
        self._store = store
        self._judge = judge

    async def stage(self, attempts: Sequence[Attempt]) -> None:
        """Make the bytes of these attempts durable. Doing it again is harmless."""
        attempts = [a for a in attempts if not a.staged]
        using = [
            a
            for a in attempts
            if (a.spools or a.needs) and isinstance(a.verdict, (Finalized, Quarantine))
        ]
        sizes = {d: s.size for a in using for d, s in (a.spools or {}).items() if d}
        sizes |= {d: size for a in using for d, size in (a.needs or {}).items()}
        generations = await objects.touch(self._db, self._number, sizes)
        if using:
            await in_thread(self._keep, using, generations)
        for attempt in attempts:
            attempt.staged = True
            if isinstance(attempt.verdict, Finalized) and not attempt.claim.removed:
                attempt.reach("staged", Point.STAGED)

    def _keep(self, using: list[Attempt], generations: Generations) -> None:
        """Several at a time: a disk syncs many files in hardly more time than one."""
        with ThreadPoolExecutor(min(len(using), KEEPERS), "keep") as keepers:
            list(keepers.map(partial(self._keep_one, generations), using))

    def _keep_one(self, generations: Generations, attempt: Attempt) -> None:
        try:
            spools = {d: s for d, s in (attempt.spools or {}).items() if d}
            for digest, spool in spools.items():
                if not self._is_there(generations, digest):
                    self._store.keep(spool)
            for digest in attempt.needs or ():
                if not self._is_there(generations, digest):
                    raise Permanent(
                        f"sha256:{digest.hex()} is no longer in {self._store.uri}",
                        reason="bytes_collected",
                        hint="Its retention is over: this version cannot be brought back.",
                    )
            used = {**spools, **(attempt.needs or {})}
            attempt.objects = [(digest, generations[digest][0]) for digest in used]
            if attempt.object is not None and attempt.content in spools:
                attempt.object.moved(self._store.path(attempt.content))
        except Exception as error:
            attempt.objects = None
            attempt.verdict = self._judge(attempt, error)

    def _is_there(self, generations: Generations, digest: bytes) -> bool:
        return generations[digest][1] and self._store.has(digest)

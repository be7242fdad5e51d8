"""The incident hook: tells somebody that entries were given up, a budget is spent, or an operation
is held that a person has to look at.

A web address gets a POST of one JSON document; anything else is a command that gets it on standard
input. It is called by the sweeper, at most once in a while for each pipeline and reason, and what
it does or fails to do never costs the work. Operations have no sweeper: the caller tells it.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict

import orjson

from headgate.errors import HeadgateError
from headgate.ledger import budget, incident
from headgate.model.mask import Masker
from headgate.pg import Database
from headgate.telemetry.log import get_logger

HOOK_SECONDS = 5.0
ROUND_SECONDS = 10.0
RUNBOOK = "docs/runbooks/reliability/trigger-retry-matrix.md"
log = get_logger("headgate.incident")
_MASKER = Masker()


class Hook:
    """Where incidents are told. Without an address nothing is told, and nothing counts as told."""

    def __init__(self, address: str, every_seconds: float, env: str) -> None:
        self._address = address
        self._every_seconds = every_seconds
        self._env = env
        self._turns: list[budget.Turn] = []

    def spent(self, turn: budget.Turn) -> None:
        """A pipeline's error budget is spent; told with the next round."""
        if self._address:
            self._turns.append(turn)

    async def tell(self, db: Database) -> None:
        """Tell what happened since the last time. What does not fit into a round waits for the
        next one: leases have to be looked after meanwhile.
        """
        until = time.monotonic() + ROUND_SECONDS
        while self._turns and time.monotonic() < until:
            turn = self._turns.pop(0)
            await self._call(
                {
                    "incident": "error_budget_spent",
                    **asdict(turn),
                    "look": f"headgate budget list; headgate status {turn.pipeline}",
                    "runbook": RUNBOOK,
                }
            )
        if not self._address:
            return
        for one in await incident.take(db, self._every_seconds):
            document = {
                "incident": "exhausted",
                **asdict(one),
                "look": f"headgate quarantine list --pipeline {one.pipeline} --reason {one.reason}",
                "runbook": RUNBOOK,
            }
            if time.monotonic() > until or not await self._call(document):
                await incident.untold(db, one)

    async def escalated(self, db: Database, pipeline: str, task: str, **more: object) -> None:
        """Tell that a caller of an operation calls for a person, unless somebody did lately."""
        if not self._address:
            return
        try:
            times = await incident.escalated(db, pipeline, task, self._every_seconds)
            if times is None:
                return
            document = {
                "incident": "escalated",
                "pipeline": _MASKER.text(pipeline),
                "task": _MASKER.text(task),
                "times": times,
                **{name: _MASKER.mask(value) for name, value in more.items()},
                "look": f"headgate operation show {more.get('key', 'KEY')}",
                "runbook": RUNBOOK,
            }
            if not await self._call(document):
                await incident.escalation_untold(db, pipeline, task)
        except HeadgateError as error:  # the caller has to hear that it was escalated, not this
            log.warning("an escalation was not told", why=str(error), operation=task)

    async def _call(self, document: Mapping[str, object]) -> bool:
        said = orjson.dumps({**document, "env": self._env})
        try:
            await asyncio.to_thread(self._post if self._is_web else self._run, said)
        except Exception as error:  # a hook may fail in any way
            # Not its address: it may carry a token.
            log.warning("the incident hook failed", why=type(error).__name__, what=document)
            return False
        return True

    @property
    def _is_web(self) -> bool:
        return self._address.startswith(("http://", "https://"))

    def _post(self, said: bytes) -> None:
        request = urllib.request.Request(self._address, said, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=HOOK_SECONDS):
            pass

    def _run(self, said: bytes) -> None:
        command = shlex.split(self._address)
        subprocess.run(
            command, input=said, timeout=HOOK_SECONDS, check=True, stdout=subprocess.DEVNULL
        )

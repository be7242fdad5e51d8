"""Rehearsal: what a pipeline says to an object and makes of it, with nothing kept.

Validators look at the object, and handlers of rows yield what they would. Transforms and free SQL
are left out: what they do cannot be shown without doing it. `run.call` is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Any, cast

import orjson

from headgate.errors import EffectRefused, SchemaError
from headgate.ledger.run import in_thread
from headgate.model.envelope import Envelope
from headgate.model.facts import Check
from headgate.model.identity import change_key
from headgate.model.mask import Masker
from headgate.model.object import Object
from headgate.model.pipeline import Pipeline
from headgate.model.rows import Encoder
from headgate.model.step import RowsStep, Step
from headgate.model.validation.outcomes import Outcomes
from headgate.model.verdict import checking, describe

STEP_SECONDS = 10.0
ROWS_AT_MOST = 10_000
ROWS_SHOWN = 20

Rows = dict[bytes, dict[str, Any]]


class _Run:
    """The run that handlers see. It does nothing outside."""

    id = "preview"
    entry = 0
    attempt = 1

    def __init__(self, pipeline: Pipeline, envelope: Envelope) -> None:
        self.key = change_key(envelope).hex()
        self.pipeline = pipeline.name
        self.version = pipeline.version
        self.params = pipeline.params

    def call(self, name: str, fn: Callable[..., Any], *, undo: object = None) -> Any:
        raise EffectRefused(f"run.call({name!r}): a preview does nothing outside")


async def checks(pipeline: Pipeline, envelope: Envelope) -> list[dict[str, Any]]:
    """What each validator says."""
    said = Outcomes(Masker(pipeline.mask).text, everything=True)
    for step in pipeline.validators:
        try:
            await _check(pipeline, step, envelope, said)
        except Exception as error:
            said.raised(step.name, error)
        else:
            said.ended(step.name)
    return [_shown(check) for check in said.said]


async def _check(pipeline: Pipeline, step: Step, envelope: Envelope, said: Outcomes) -> None:
    def look() -> Any:
        given = _call(pipeline, step, envelope, envelope.data or b"")
        return given if step.is_async else said.take(step.name, given)

    with checking(step.name):
        given = await _in_time(step, look)
        if step.is_async:
            said.take(step.name, given)


def _shown(check: Check) -> dict[str, Any]:
    shown: dict[str, Any] = {"check": check.name, "ok": check.passed}
    if check.examined is not None:
        shown |= {"examined": check.examined, "failed": check.failed}
    return shown if check.passed else {**shown, "reason": check.reason, "error": check.text}


async def effects(
    pipeline: Pipeline, envelope: Envelope, before: bytes | None
) -> list[dict[str, Any]]:
    """For each table, which rows the new bytes bring, change and take away."""
    masker = Masker(pipeline.mask)
    told: list[dict[str, Any]] = []
    for declared in pipeline.row_steps:
        table = declared.table.label
        try:
            new = await _rows(pipeline, declared, envelope, envelope.data or b"")
            old = {} if before is None else await _rows(pipeline, declared, envelope, before)
        except Exception as error:
            told.append({"table": table, "error": _words(error, masker)})
            continue
        differing = list(_differences(old, new))
        counts = {
            kind: sum(k == kind for k, _ in differing) for kind in ("add", "replace", "remove")
        }
        first = [{kind: masker.mask(row)} for kind, row in islice(differing, ROWS_SHOWN)]
        told.append({"table": table, **counts, "first": first})
    return told


def _differences(old: Rows, new: Rows) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in sorted(old.keys() | new.keys()):
        if key not in old:
            yield "add", new[key]
        elif key not in new:
            yield "remove", old[key]
        elif old[key] != new[key]:
            yield "replace", new[key]


async def _rows(pipeline: Pipeline, declared: RowsStep, envelope: Envelope, data: bytes) -> Rows:
    """The rows a handler makes of these bytes, by their key."""
    encoder, found = Encoder(declared.table), cast("Rows", {})

    def take(made: Any) -> None:
        for _, chunk, _ in encoder.encode(() if made is None else made, len(found)):
            for row in cast("list[dict[str, Any]]", orjson.loads(chunk)):
                found[orjson.dumps([row.get(name) for name in declared.table.key])] = row
            if len(found) > ROWS_AT_MOST:
                raise SchemaError(f"more than {ROWS_AT_MOST} rows are not compared")

    def make() -> Any:
        made = _call(pipeline, declared.step, envelope, data)
        return made if declared.step.is_async else take(made)

    given = await _in_time(declared.step, make)
    if declared.step.is_async:
        await asyncio.to_thread(take, given)
    return found


async def _in_time(step: Step, work: Callable[[], Any]) -> Any:
    """What a step gives, within its time: a plain one in a thread, an async one on the loop."""
    try:
        async with asyncio.timeout(STEP_SECONDS):
            if not step.is_async:
                return await in_thread(work)
            given = work()
            if inspect.isasyncgen(given):
                return [item async for item in given]
            return await cast("Awaitable[Any]", given)
    except TimeoutError:
        raise SchemaError(f"{step.name} gave no answer in {STEP_SECONDS:g} s") from None


def _call(pipeline: Pipeline, step: Step, envelope: Envelope, data: bytes) -> Any:
    obj = Object(
        uri=envelope.uri,
        digest=hashlib.sha256(data).digest(),
        size=len(data),
        body=data,
        envelope=lambda: envelope,
    )
    return step.function(*(obj, _Run(pipeline, envelope))[: step.takes])


def _words(error: Exception, masker: Masker) -> str:
    return masker.text(describe(error))[:2000]

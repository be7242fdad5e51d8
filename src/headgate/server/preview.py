"""Previews: what a call would change, without changing it.

The bytes are held against what readers see at their uri now, and the pipeline's validators look at
them. Nothing else of the pipeline runs: what it would do outside cannot be taken back. What is
shown is masked as everything else that leaves the ledger.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import orjson

from headgate.errors import EffectRefused, HeadgateError
from headgate.ledger.request import Head
from headgate.ledger.run import in_thread
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key
from headgate.model.object import Object
from headgate.model.pipeline import Pipeline, Step
from headgate.model.verdict import checking, describe
from headgate.stores import open_store
from headgate.telemetry.mask import Masker

CHANGES_AT_MOST = 200
COMPARED_BYTES = 1 << 20
CHECK_SECONDS = 10.0
LINE_CHARACTERS = 500


class _Rehearsal:
    """The run that validators see. It does nothing outside."""

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


async def look(
    pipeline: Pipeline, envelope: Envelope, head: Head | None
) -> tuple[dict[str, Any], bytes]:
    """What would change, as a document, and its digest."""
    data = envelope.data or b""
    content = hashlib.sha256(data).digest()
    masker = Masker(pipeline.mask)
    before = None if head is None else await asyncio.to_thread(_bytes_of, pipeline, head)
    shown: dict[str, Any] = {
        "pipeline": pipeline.name,
        "version": pipeline.version,
        "uri": envelope.uri,
        "action": _action(head, content),
        "current": None
        if head is None
        else {"version": head.version, "digest": f"sha256:{head.content.hex()}"},
        "next": {"digest": f"sha256:{content.hex()}", "size": len(data)},
        "changes": _changes(before, data, masker),
        "checks": [await _check(pipeline, step, envelope, masker) for step in pipeline.validators],
    }
    document = orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
    return shown, hashlib.sha256(b"headgate:preview:1\0" + document).digest()


def _action(head: Head | None, content: bytes) -> str:
    if head is None:
        return "create"
    return "unchanged" if head.content == content else "replace"


def _bytes_of(pipeline: Pipeline, head: Head) -> bytes | None:
    if head.data is not None:
        return head.data
    try:
        with open_store(pipeline.store).open(head.content) as stream:
            data = stream.read(COMPARED_BYTES + 1)
    except HeadgateError:
        return None
    return data if len(data) <= COMPARED_BYTES else None


def _changes(before: bytes | None, after: bytes, masker: Masker) -> list[dict[str, str]] | None:
    """By path for JSON, by line for other text, None for what cannot be compared."""
    if before is None and after:
        before = b""
    if before is None or len(after) > COMPARED_BYTES:
        return None
    try:
        was = orjson.loads(before) if before else None
        found = _by_path(was, orjson.loads(after), "")
    except orjson.JSONDecodeError:
        try:
            found = _by_line(before.decode(), after.decode())
        except UnicodeDecodeError:
            return None
    listed: list[dict[str, str]] = []
    for change in found:
        if len(listed) == CHANGES_AT_MOST:
            listed.append({"at": "…", "more": "not all changes are listed"})
            break
        listed.append(
            {k: v if k == "at" else _masked(change["at"], v, masker) for k, v in change.items()}
        )
    return listed


def _masked(at: str, value: str, masker: Masker) -> str:
    masked = cast("dict[str, object]", masker.mask({at.rpartition("/")[2] or "value": value}))
    return str(next(iter(masked.values())))[:LINE_CHARACTERS]


def _by_path(was: Any, now: Any, at: str) -> Iterator[dict[str, str]]:
    if isinstance(was, dict) and isinstance(now, dict):
        old, new = cast("dict[str, Any]", was), cast("dict[str, Any]", now)
        for name in sorted(old.keys() | new.keys()):
            below = f"{at}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in new:
                yield {"at": below, "was": _text(old[name])}
            elif name not in old:
                yield {"at": below, "is": _text(new[name])}
            else:
                yield from _by_path(old[name], new[name], below)
    elif was is None and now is not None and at == "":
        yield {"at": "", "is": _text(now)}
    elif was != now:
        yield {"at": at, "was": _text(was), "is": _text(now)}


def _by_line(was: str, now: str) -> Iterator[dict[str, str]]:
    for line in difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=0):
        if line.startswith(("+++", "---", "@@")):
            continue
        yield {"at": "", "was" if line[0] == "-" else "is": line[1:]}


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


async def _check(
    pipeline: Pipeline, step: Step, envelope: Envelope, masker: Masker
) -> dict[str, Any]:
    data = envelope.data or b""
    obj = Object(
        uri=envelope.uri,
        digest=hashlib.sha256(data).digest(),
        size=len(data),
        event_time=envelope.event_time,
        body=data,
        envelope=lambda: envelope,
    )
    arguments = (obj, _Rehearsal(pipeline, envelope))[: step.takes]
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            with checking(step.name):
                if step.is_async:
                    await step.function(*arguments)
                else:
                    await in_thread(step.function, *arguments)
    except TimeoutError:
        return {"check": step.name, "ok": False, "error": f"no answer in {CHECK_SECONDS:g} s"}
    except Exception as error:
        return {"check": step.name, "ok": False, "error": masker.text(describe(error))[:2000]}
    return {"check": step.name, "ok": True}

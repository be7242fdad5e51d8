"""Previews: what a call would change, without changing it.

The bytes are held against what readers see at their uri now, and so are the rows that the pipeline
makes of both; its validators are asked. What is shown is masked as everything else that leaves the
ledger.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
from collections.abc import Iterator
from typing import Any, cast

import orjson

from headgate.errors import HeadgateError
from headgate.ledger.request import Head
from headgate.model.envelope import Envelope
from headgate.model.mask import Masker
from headgate.model.pipeline import Pipeline
from headgate.stores import open_store

from .rehearsal import checks, effects

CHANGES_AT_MOST = 200
COMPARED_BYTES = 1 << 20
LINE_CHARACTERS = 500


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
        "rows": await effects(pipeline, envelope, before),
        "checks": await checks(pipeline, envelope),
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

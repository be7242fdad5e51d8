"""Results as bytes, and back. Every caller gets what was stored, also the first one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from headgate.errors import EffectRefused, UsageError


@dataclass(frozen=True, slots=True)
class Codec:
    """A way to store results. `name` is kept with each: who wrote a result reads it."""

    name: str
    dumps: Callable[[Any], bytes]
    loads: Callable[[bytes], Any]


JSON = Codec("json", orjson.dumps, orjson.loads)
BYTES = Codec("bytes", bytes, bytes)


def encoded(value: Any, codec: Codec | None, name: str) -> tuple[str, bytes]:
    """The name of the codec, and the result as bytes. Raises `EffectRefused`."""
    chosen = codec or (BYTES if isinstance(value, bytes | bytearray | memoryview) else JSON)
    try:
        return chosen.name, chosen.dumps(value)
    except Exception as error:
        raise EffectRefused(
            f"operation {name!r}: its result cannot be stored as {chosen.name}: {error}",
            hint="Give text, numbers, lists or mappings, bytes, or a codec= of your own.",
        ) from error


def decoded(stored: str, data: bytes, codec: Codec | None, name: str) -> Any:
    """The result that was stored. Raises `UsageError` when it was written by another codec."""
    for known in (codec, JSON, BYTES):
        if known is not None and known.name == stored:
            return known.loads(data)
    raise UsageError(
        f"operation {name!r}: its result was stored by the codec {stored!r}",
        hint="Give that codec= again; `headgate operation show KEY` shows the row.",
    )

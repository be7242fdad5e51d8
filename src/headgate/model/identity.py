"""Three questions, three keys (C2).

    change_key    was I already told?           uri + occurrence
    content       are these bytes new?          sha256 of the bytes
    effect_key    was this work already done?   everything the result depends on

Keys are SHA-256 over canonical JSON (RFC 8785) behind a prefix that names the question, so that
a key of one kind can never be mistaken for another. Parts are never joined into a string by hand:
`a:b` + `c` and `a` + `b:c` are different things.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import orjson

from .envelope import NUMBERED, REVERT, Envelope

Json = str | int | bool | None | Sequence["Json"] | Mapping[str, "Json"]

# Integers beyond 2^53 do not survive every JSON reader; RFC 8785 leaves them out.
SAFE_INTEGER = 2**53 - 1


def canonical(value: Json) -> bytes:
    """RFC 8785 for what our keys are made of: text, safe integers, booleans, null, ASCII names.

    orjson gives the same bytes as RFC 8785 on that subset and is twenty times faster;
    a property test holds the two together.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def occurrence(envelope: Envelope) -> tuple[str, str | int]:
    """What makes this change this change and no other one of the same uri.

    An ETag alone never does: A → B → A would end after B.
    """
    if envelope.version_id and envelope.strength == "immutable":
        return "version", envelope.version_id
    if envelope.generation is not None:
        return "generation", envelope.generation
    # A revert has the place of what it takes back, and is another change.
    if envelope.sequence is not None and envelope.source != REVERT:
        return "sequence", envelope.sequence
    return "event", envelope.event_id


def change_key(envelope: Envelope) -> bytes:
    """Was I already told? The envelope's `idempotency_key`."""
    # Spelled out, since every delivery pays for it: canonical({"uri": …, "occurrence": …}).
    what = orjson.dumps(occurrence(envelope)), orjson.dumps(envelope.uri)
    return hashlib.sha256(b'headgate:change:1\0{"occurrence":%b,"uri":%b}' % what).digest()


def fingerprint(envelope: Envelope) -> int:
    """64 bits of what a repeated delivery must repeat; others under one key are a conflict."""
    e = envelope
    told = orjson.dumps((e.kind, e.etag, e.version_id, e.md5, e.size))
    if e.data is not None:
        told = b"%b\0%b" % (told, e.data)
    return int.from_bytes(hashlib.sha256(told).digest()[:8], "big", signed=True)


def effect_key(
    *,
    pipeline: str,
    version: str,
    uri: str,
    generation: str,
    content: bytes,
    params: bytes,
    task: str = "path",
    dataset: str | None = None,
    partition: str | None = None,
    operation: str = "publish",
    period: str | None = None,
) -> bytes:
    """Was this work already done? Everything the result depends on; the code is evidence only."""
    return hashlib.sha256(
        _effect(
            pipeline=pipeline,
            task=task,
            dataset=dataset,
            partition=partition,
            operation=operation,
            version=version,
            uri=uri,
            generation=generation,
            checksum_in=content.hex(),
            params=params.hex(),
            period=period,
        )
    ).digest()


def _effect(**parts: str | None) -> bytes:
    return b"headgate:effect:1\0" + canonical(parts)


class EffectKey:
    """`effect_key` for all entries of one pipeline: what they share is rendered once."""

    def __init__(self, *, pipeline: str, version: str, params: bytes) -> None:
        # Names are sorted, so the parts that differ come in this order.
        marks = {name: f"\0{name}" for name in ("checksum_in", "generation", "uri")}
        whole = _effect(
            pipeline=pipeline,
            task="path",
            dataset=None,
            partition=None,
            operation="publish",
            version=version,
            params=params.hex(),
            period=None,
            **marks,
        ).decode()
        self._parts: list[str] = []
        for mark in marks.values():
            before, _, whole = whole.partition(orjson.dumps(mark).decode())
            self._parts.append(before)
        self._parts.append(whole)

    def __call__(self, uri: str, generation: str, content: bytes) -> bytes:
        """The key of what becomes of these bytes of this change."""
        begin, between, before_uri, end = self._parts
        quoted = orjson.dumps(uri).decode()
        whole = f'{begin}"{content.hex()}"{between}"{generation}"{before_uri}{quoted}{end}'
        return hashlib.sha256(whole.encode()).digest()


def params_digest(params: Mapping[str, Any]) -> bytes:
    """A pipeline's parameters as a digest. Fractions are hashed by their shortest text."""
    plain = canonical(_plain(params, "params"))
    return hashlib.sha256(b"headgate:params:1\0" + plain).digest()


def plain_digest(value: Any, what: str) -> bytes:
    """Any plain value as a digest; `what` names it in the error where it is none."""
    return hashlib.sha256(b"headgate:plain:1\0" + canonical(_plain(value, what))).digest()


def _plain(value: Any, where: str) -> Json:
    match value:
        case str():
            return _text(value, where)
        case bool() | None:
            return value
        case int():
            return value if abs(value) <= SAFE_INTEGER else {"int": str(value)}
        case float():
            return {"float": repr(value)}
        case datetime():
            return {"datetime": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case UUID():
            return {"uuid": str(value)}
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case Mapping():
            pairs = cast("Mapping[object, Any]", value)
            return {_name(k, where): _plain(v, f"{where}.{k}") for k, v in pairs.items()}
        case list() | tuple():
            items = cast("Sequence[Any]", value)
            return [_plain(v, f"{where}[{n}]") for n, v in enumerate(items)]
        case _:
            raise TypeError(
                f"{where} is a {type(value).__name__}: use text, numbers, lists, mappings"
            )


def _name(key: object, where: str) -> str:
    """A name in hex: ASCII, as `canonical` wants it, and never one of the tags above."""
    if not isinstance(key, str):
        raise TypeError(f"{where} has the name {key!r}: names are text")
    text = _text(key, where).encode()
    return f"{len(text)}:{text.hex()}"


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TypeError(f"{where} has half a surrogate in it, which is no text") from None
    return value


def partition_of(envelope: Envelope) -> str:
    """The part of the data a change belongs to: as its source says, else the folder of its uri."""
    return envelope.partition or envelope.uri.rpartition("/")[0]


def is_newer(
    sequence: str | None,
    event_time: datetime,
    entry: int,
    than_sequence: str | None,
    than_event_time: datetime,
    than_entry: int,
) -> bool:
    """Does this change of a uri come after the one its head stands for? Otherwise it is `stale`.

    The source's own sequence decides where both have one of the same kind; else event time; else
    admission. A bucket's events and a listing of it do not count alike.
    """
    if sequence is not None and than_sequence is not None and alike(sequence, than_sequence):
        return sequence > than_sequence
    return (event_time, entry) > (than_event_time, than_entry)


def alike(sequence: str, other: str) -> bool:
    """Can two sequences be compared? Those of the ledger say nothing about a source's own."""
    return sequence.startswith(NUMBERED) == other.startswith(NUMBERED)

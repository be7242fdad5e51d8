"""`headgate envelope`: what a document of a cloud, a queue or a neighbour says, as envelopes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO

import click

from headgate.errors import UsageError

from .asked import Asked, Group, pass_asked

if TYPE_CHECKING:
    from headgate.model.envelope import Refused
    from headgate.model.parse import Parsed

_CHUNK_BYTES = 1 << 20
_ENDS = {b"{": b"}", b"[": b"]"}


@click.group(cls=Group)
def envelope() -> None:
    """Read what a cloud, a queue or a neighbour said."""


@envelope.command()
@click.argument("file", type=click.File("rb"), metavar="FILE|-")
@click.option("--provider", metavar="NAME", help="Take only what this one sends. [by its shape]")
@pass_asked
@click.pass_context
def parse(ctx: click.Context, asked: Asked, *, file: BinaryIO, provider: str | None) -> None:
    """Print one line of JSON for each record: its envelope, or why it is refused.

    FILE holds one document, or one per line. Providers are s3, minio, sns, eventbridge,
    gcs, azure, cloudevents and headgate (our own JSON). The exit code is 1 when something
    was refused.
    """
    from headgate.model.parse import PROVIDERS
    from headgate.model.parse import parse as read

    if provider is not None and provider not in PROVIDERS:
        raise UsageError(
            f"there is no provider {provider!r}", hint=f"There are {', '.join(PROVIDERS)}."
        )
    limit = asked.settings().max_envelope_bytes
    refused = False
    out = sys.stdout.buffer
    for document in documents(file, limit):
        told = read(document, received_at=datetime.now(UTC), provider=provider, limit_bytes=limit)
        for is_refused, line in lines(told):
            refused = refused or is_refused
            out.write(line + b"\n")
    out.flush()
    if refused:
        ctx.exit(1)


def documents(file: BinaryIO, limit_bytes: int) -> Iterator[bytes]:
    """The documents of a file: its lines, when the first one is whole by itself and others follow.

    One that is too large is cut just above the limit: no more of it is held in memory.
    """
    first = _line(file, limit_bytes)
    while first is not None and not first.strip():
        first = _line(file, limit_bytes)
    if first is None:
        yield b""
        return
    told = first.strip()
    second = _line(file, limit_bytes)
    if told.endswith(_ENDS.get(told[:1], b"\0")) and second is not None:
        yield told
        while second is not None:
            if second.strip():
                yield second.strip()
            second = _line(file, limit_bytes)
        return
    whole = first + (second or b"")
    if second is not None and len(whole) <= limit_bytes:
        whole += file.read(limit_bytes + 1 - len(whole))
    yield whole[: limit_bytes + 1]


def _line(file: BinaryIO, limit_bytes: int) -> bytes | None:
    """The next line, cut above the limit; None at the end."""
    line = file.readline(limit_bytes + 2)
    if not line:
        return None
    rest = line
    while not rest.endswith(b"\n") and len(line) > limit_bytes:
        rest = file.readline(_CHUNK_BYTES)
        if not rest:
            break
    return line


def lines(told: Parsed) -> Iterator[tuple[bool, bytes]]:
    """What a document told, a line each, and whether that is a refusal."""
    import orjson

    from headgate.model.envelope import Envelope
    from headgate.model.output import output_json

    for record in told.records:
        if isinstance(record, Envelope):
            yield False, output_json(record)
        else:
            yield True, orjson.dumps({"refused": _refusal(record)})
    for _ in range(told.tests):
        yield False, orjson.dumps({"test": "s3:TestEvent"})
    for name in told.ignored:
        yield False, orjson.dumps({"ignored": name})
    if told.handshake is not None:
        yield False, orjson.dumps({"handshake": told.handshake})
    if told.confirmation is not None:
        yield False, orjson.dumps({"confirmation": told.confirmation})


def _refusal(record: Refused) -> dict[str, str]:
    return {
        "reason": record.reason,
        "field": record.field,
        "text": record.text,
        "sha256": hashlib.sha256(record.raw).hexdigest(),
    }

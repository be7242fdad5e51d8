"""The envelope: one observed change, in the words of its source. It does not claim to be new.

`version_hint` is a hint, never an identity: two hints may name the same bytes and one hint may
stand for different ones. What makes a change *this* change is its occurrence (see `identity`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

Provider = Literal["s3", "gcs", "azure", "http", "file", "log", "cron", "webhook"]
Detector = Literal["event", "etag", "manifest", "sse", "webhook", "cron", "log"]
Kind = Literal["created", "removed"]
Strength = Literal["immutable", "strong", "weak", "none"]
Clock = Literal["producer", "object", "notification", "received"]

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
# What an index of Postgres holds.
Uri = Annotated[str, Meta(min_length=1, max_length=2000)]
Instant = Annotated[datetime, Meta(tz=True)]

# Columns of the ledger's own. The stored document leaves them out, so nothing is kept twice.
COLUMNS = frozenset({"uri", "event_time", "received_at", "sequence", "idempotency_key", "data"})


class Envelope(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One observed change. Strict, immutable, no unknown fields."""

    event_id: Name
    source: Name
    provider: Provider
    detector: Detector
    kind: Kind = "created"
    uri: Uri
    etag: str | None = None
    version_id: str | None = None
    md5: str | None = None
    version_hint: str | None = None
    strength: Strength = "none"
    size: Annotated[int, Meta(ge=0)] | None = None
    content_type: str | None = None
    event_time: Instant
    clock: Clock = "producer"
    received_at: Instant
    subject: str | None = None
    sequence: str | None = None
    generation: Annotated[int, Meta(ge=1)] | None = None
    item: str | None = None
    dataset: str | None = None
    partition: str | None = None
    trace: str | None = None
    metadata: dict[str, str | int | bool | None] = {}
    data: bytes | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        # msgspec checks what it decodes, not what it is called with.
        msgspec.convert(self, _Whole, from_attributes=True, builtin_types=_AS_THEY_ARE)
        if self.data is not None and type(self.data) is not bytes:
            raise msgspec.ValidationError("Expected `bytes`, got `bytearray` - at `$.data`")
        if not self.uri.isascii() and any("\ud800" <= c <= "\udfff" for c in self.uri):
            raise msgspec.ValidationError("Half a surrogate is no text - at `$.uri`")

    def document(self, trace: str | None = None, queue: str | None = None) -> bytes:
        """What the ledger stores beside its columns: JSON, without what goes without saying.

        `trace` is where it was noticed, for one that came without; `queue` which source told it.
        """
        said = _documented(self)
        if queue is not None:
            said = [*said]
            said[_METADATA] = {QUEUE: queue, **self.metadata}
        written = _encode(_Document(*said))
        if trace is None or self.trace is not None:
            return written
        # An object's members have no order: one more is added at its end.
        return written[:-1] + _last_member(trace)

    @classmethod
    def restore(
        cls,
        document: bytes,
        *,
        uri: str,
        event_time: datetime,
        received_at: datetime,
        sequence: str | None,
        key: bytes,
        data: bytes | None,
    ) -> Envelope:
        """The inverse of `document`, from a row of the ledger."""
        return cls(
            **msgspec.structs.asdict(_decode(document)),
            uri=uri,
            # The driver gives the first and the last time there is without a zone.
            event_time=event_time if event_time.tzinfo else event_time.replace(tzinfo=UTC),
            received_at=received_at,
            sequence=sequence,
            idempotency_key=key.hex(),
            data=data,
        )

    def json(self) -> bytes:
        """All of it as JSON, without what goes without saying; bytes are base64."""
        return _encode(self)

    @classmethod
    def from_json(cls, document: bytes) -> Envelope:
        """The inverse of `json`. Raises `msgspec.ValidationError`, which names the field."""
        return msgspec.json.decode(document, type=cls)


def _like_envelope(
    name: str, without: frozenset[str], unsaid: Mapping[str, str] = MappingProxyType({})
) -> type[msgspec.Struct]:
    """A struct of the envelope's fields, required ones first: to be checked against, or stored.

    `unsaid` are values of required ones that go without saying.
    """
    hints = get_type_hints(Envelope, include_extras=True)
    required: list[Any] = []
    others: list[Any] = []
    for f in msgspec.structs.fields(Envelope):
        if f.name in without:
            continue
        if f.name == "metadata":
            others.append((f.name, hints[f.name], msgspec.field(default_factory=dict)))
        elif f.required and f.name not in unsaid:
            required.append((f.name, hints[f.name]))
        else:
            others.append((f.name, hints[f.name], unsaid.get(f.name, f.default)))
    fields = required + others
    return msgspec.defstruct(
        name, fields, frozen=True, omit_defaults=True, forbid_unknown_fields=True
    )


# A text that looks like a time is none.
_AS_THEY_ARE = (datetime, bytes, bytearray)
_Whole = _like_envelope("Envelope", frozenset())
# Most changes are told by an event, and there is one document for each.
_UNSAID = {"detector": "event"}
_Document = _like_envelope("Document", COLUMNS, _UNSAID)
_documented = attrgetter(*_Document.__struct_fields__)
_METADATA = _Document.__struct_fields__.index("metadata")
# Under this name the metadata say which source told it, where a pipeline has several.
QUEUE = "queue"


def stored(document: bytes) -> dict[str, Any]:
    """What a stored document says, and what goes without saying, as plain values."""
    said: dict[str, Any] = _UNSAID | msgspec.json.decode(document)
    return said


@lru_cache(8)
def _last_member(trace: str) -> bytes:
    return b',"trace":%b}' % _encode(trace)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Document).decode
# msgspec learns what a struct is like when it is first used, and two threads that are the first at
# once bring the process down: it is used here, before there are any.
for _struct in (Envelope, _Whole):
    msgspec.json.Decoder(_struct)


# What a refused record is filed under, with the digest of its bytes.
REFUSED = "refused://"


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is no envelope, and why. Its bytes are kept; nothing of them is believed.

    `reason` is stable and documented, `field` says where in the record.
    """

    reason: str
    field: str
    text: str
    raw: bytes


# The source of a change that takes a publication back.
REVERT = "headgate:revert"

# Begins the sequence of a change that the ledger has numbered, as no source's own does.
NUMBERED = "~"


def ordinal(number: int) -> str:
    """A source's integer sequence as text that sorts as the number does."""
    if number < 0 or number >= 10**19:
        raise ValueError(f"sequence {number} is outside 0 … 10^19")
    return f"{number:019d}"

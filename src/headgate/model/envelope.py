"""The envelope: one observed change, in the words of its source. It does not claim to be new.

`version_hint` is a hint, never an identity: two hints may name the same bytes and one hint may
stand for different ones. What makes a change *this* change is its occurrence (see `identity`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from .kept import kept_json

Provider = Literal["s3", "gcs", "azure", "http", "file", "log", "cron", "webhook"]
Detector = Literal["event", "etag", "manifest", "sse", "webhook", "cron", "log"]
Kind = Literal["created", "removed"]
Strength = Literal["immutable", "strong", "weak", "none"]
Clock = Literal["producer", "object", "notification", "received"]

# Columns of the ledger's own. The stored document leaves them out, so nothing is kept twice.
COLUMNS = frozenset({"uri", "event_time", "received_at", "sequence", "idempotency_key", "data"})


class Envelope(BaseModel):
    """One observed change. Strict, immutable, no unknown fields."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    event_id: str = Field(min_length=1, max_length=1024)
    source: str = Field(min_length=1, max_length=1024)
    provider: Provider
    detector: Detector
    kind: Kind = "created"
    uri: str = Field(min_length=1, max_length=2000)  # what an index of Postgres holds
    etag: str | None = None
    version_id: str | None = None
    md5: str | None = None
    version_hint: str | None = None
    strength: Strength = "none"
    size: int | None = Field(default=None, ge=0)
    content_type: str | None = None
    event_time: AwareDatetime
    clock: Clock = "producer"
    received_at: AwareDatetime
    subject: str | None = None
    sequence: str | None = None
    generation: int | None = Field(default=None, ge=1)
    item: str | None = None
    dataset: str | None = None
    partition: str | None = None
    trace: str | None = None
    metadata: dict[str, str | int | bool | None] = Field(default_factory=dict)
    data: bytes | None = None
    idempotency_key: str | None = None

    def document(self) -> bytes:
        """What the ledger stores beside its columns: JSON, without what is empty."""
        given, told = self.__dict__, self.model_fields_set
        return kept_json({n: v for n, usual in _USUAL if n in told and (v := given[n]) != usual})

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
        """The inverse of `document`, from a row of the ledger, which was checked on its way in."""
        fields: dict[str, Any] = cls.__pydantic_validator__.validate_json(
            document[:-1]
            + (b"," if len(document) > 2 else b"")
            + b'"uri":"x","event_time":"2000-01-01T00:00:00Z","received_at":"2000-01-01T00:00:00Z"}'
        ).__dict__
        return cls.model_construct(
            _fields_set=None,
            **{
                **fields,
                "uri": uri,
                "event_time": event_time,
                "received_at": received_at,
                "sequence": sequence,
                "idempotency_key": key.hex(),
                "data": data,
            },
        )


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is no envelope, and why. Its bytes are kept; nothing of them is believed.

    `reason` is stable and documented, `field` says where in the record.
    """

    reason: str
    field: str
    text: str
    raw: bytes


# What a document may say, and what goes without saying.
_USUAL = [
    (name, field.get_default(call_default_factory=True))
    for name, field in Envelope.model_fields.items()
    if name not in COLUMNS
]


def ordinal(number: int) -> str:
    """A source's integer sequence as text that sorts as the number does."""
    if number < 0 or number >= 10**19:
        raise ValueError(f"sequence {number} is outside 0 … 10^19")
    return f"{number:019d}"

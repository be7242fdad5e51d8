"""What reading a document gives, and why a record is refused: a closed list of reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..envelope import Envelope, Refused

# The way to a value: names of members and numbers of elements.
Path = tuple[str | int, ...]

Reason = Literal[
    # the bytes
    "too_large",
    "empty",
    "bom",
    "invalid_utf8",
    "not_json",
    "trailing_data",
    "duplicate_key",
    "not_a_number",
    "float_too_large",
    "integer_too_large",
    "too_deep",
    "lone_surrogate",
    "nul",
    # what they say
    "unknown_shape",
    "unknown_version",
    "unknown_source",
    "unknown_event",
    "missing_field",
    "unknown_field",
    "wrong_type",
    "out_of_range",
    "too_long",
    "uri_too_long",
    "bad_key",
    "bad_time",
    "bad_base64",
    "bad_sequencer",
    "contradiction",
]


@dataclass(frozen=True, slots=True)
class Handshake:
    """Event Grid asks whether we want its events. Answer with the code."""

    code: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """SNS asks whether we want a topic. Visiting the url confirms: only for a topic we know."""

    topic: str
    token: str
    url: str


@dataclass(slots=True)
class Parsed:
    """What one document told: its records in their order, and what is no record.

    `tests` counts a provider's test events, `ignored` names events that are not about an object's
    content. Both are acknowledged like the records.
    """

    records: list[Envelope | Refused] = field(default_factory=list[Envelope | Refused])
    tests: int = 0
    ignored: list[str] = field(default_factory=list[str])
    handshake: Handshake | None = None
    confirmation: Confirmation | None = None


class Bad(Exception):
    """This record cannot be believed: the reason, where in it, and the words for it."""

    def __init__(self, reason: Reason, path: Sequence[str | int], text: str) -> None:
        super().__init__(text)
        self.reason: Reason = reason
        self.path: Path = tuple(path)
        self.text = text


class Ignored(Exception):
    """This event is not about an object's content. Its name is the argument."""


def where(path: Sequence[str | int]) -> str:
    """A path as people write it: `Records[3].s3.object.key`; `$` is the whole document."""
    said = ""
    for part in path:
        if isinstance(part, int):
            said += f"[{part}]"
        else:
            name = part if part.isprintable() and part.isascii() and part else ascii(part)
            said += f".{name}" if said else name
        if len(said) > 200:
            return f"{said[:200]}…"
    return said or "$"

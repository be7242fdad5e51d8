"""Messages of SNS as it posts them and as it wraps them for a queue.

Whether a message is from SNS at all is decided by its signature, by whoever received it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..output import is_trace
from .result import Bad, Confirmation, Path
from .shape import Text, shaped


class Notification(msgspec.Struct):
    """A published message; what it says is in `Message`."""

    TopicArn: Text
    Message: str
    MessageId: str | None = None
    MessageAttributes: dict[str, Any] | None = None

    @property
    def trace(self) -> str | None:
        """The trace context, when the publisher attached it."""
        told = (self.MessageAttributes or {}).get("traceparent")
        value = told.get("Value") if isinstance(told, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return value if isinstance(value, str) and is_trace(value) else None


class _Question(msgspec.Struct):
    TopicArn: Text
    Token: Text
    SubscribeURL: Text


def notification(message: Any, path: Path) -> Notification:
    """A published message. Raises `Bad`."""
    return shaped(message, Notification, path)


def confirmation(message: Any, path: Path) -> Confirmation:
    """The question whether a subscription is wanted. Raises `Bad`."""
    asked = shaped(message, _Question, path)
    if not asked.SubscribeURL.startswith("https://"):
        text = "it is not an https address"
        raise Bad("out_of_range", (*path, "SubscribeURL"), text)
    return Confirmation(asked.TopicArn, asked.Token, asked.SubscribeURL)

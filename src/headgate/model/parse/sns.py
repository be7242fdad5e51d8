"""Messages of SNS as it posts them and as it wraps them for a queue.

Whether a message is from SNS at all is decided by its signature, by whoever received it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ..trace import Context, told
from .result import Bad, Confirmation, Path
from .shape import Text, shaped


class Notification(msgspec.Struct):
    """A published message; what it says is in `Message`."""

    TopicArn: Text
    Message: str
    MessageId: str | None = None
    MessageAttributes: dict[str, Any] | None = None

    @property
    def trace(self) -> Context | None:
        """The trace context, when the publisher attached it."""
        attached = (self.MessageAttributes or {}).items()
        said = {name: cast("Mapping[str, Any]", one) for name, one in attached if _is_mapping(one)}
        return told({name: one["Value"] for name, one in said.items() if _is_text(one)})


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_text(attribute: Mapping[str, Any]) -> bool:
    return isinstance(attribute.get("Value"), str)


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

"""What a source of the user's own says about an object: it is there in this version, or gone."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import get_args

from headgate.errors import PipelineError

from .envelope import Kind

MAX_URI = 2000


@dataclass(frozen=True, slots=True)
class Change:
    """An object as a source function sees it now. Whether that is news, the ledger decides.

    `version` is compared with what was said before; without one, `data` or `event_time` is. An
    object with none of them is read on every look. `data` are its bytes, when they are at hand.
    """

    uri: str
    _: KW_ONLY
    version: str | int | None = None
    event_time: datetime | None = None
    item: str | None = None
    kind: Kind = "created"
    size: int | None = None
    content_type: str | None = None
    data: bytes | None = None

    def __post_init__(self) -> None:
        for what, right in self._mistakes():
            raise PipelineError(f"Change({self.uri!r}): {what}", hint=right)

    def _mistakes(self) -> list[tuple[str, str]]:
        """What was given that cannot be used, and what to give instead."""
        given: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        uri, at, size = given["uri"], given["event_time"], given["size"]
        wrong: list[tuple[str, str]] = []
        if not isinstance(uri, str) or not 0 < len(uri) <= MAX_URI or "\0" in uri:
            wrong.append(("its uri cannot be used", f"text of 1 to {MAX_URI} characters"))
        if isinstance(given["version"], bool) or not isinstance(given["version"], str | int | None):
            wrong.append((f"version={given['version']!r}", "text or a whole number"))
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            right = "a datetime with a time zone: datetime(2026, 1, 5, tzinfo=UTC)"
            wrong.append((f"event_time={at!r}", right))
        if given["kind"] not in get_args(Kind):
            wrong.append((f"kind={given['kind']!r}", '"created" or "removed"'))
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
            wrong.append((f"size={size!r}", "how many bytes, or leave it out"))
        for name in ("item", "content_type"):
            if not isinstance(given[name], str | None):
                wrong.append((f"{name}={given[name]!r}", "text, or leave it out"))
        if not isinstance(given["data"], bytes | None):
            wrong.append((f"data is {type(given['data']).__name__}", 'bytes, as in b"…"'))
        return wrong

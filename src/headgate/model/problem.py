"""The form of a problem document (RFC 9457): what is answered when something is not done.

`type` and `reason` are stable: programs may rely on them. `detail` is for people, and never holds
anything of the payload, a secret or a signature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:headgate:problem:"


class Kind(NamedTuple):
    """A kind of problem: its status, its title, and what the caller can do."""

    status: int
    title: str
    hint: str


def document(
    reason: str, kind: Kind, *, detail: str = "", hint: str = "", **more: Any
) -> dict[str, Any]:
    """The document, with what is particular to this case."""
    return {
        "type": TYPE + reason,
        "title": kind.title,
        "status": kind.status,
        "detail": detail or kind.title,
        "reason": reason,
        "hint": hint or kind.hint,
        **more,
    }


def retry_after(seconds: float) -> str:
    """The value of a Retry-After header: whole seconds, at least one."""
    return str(max(1, round(seconds)))

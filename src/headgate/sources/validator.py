"""What a web server says about the version of a resource, as the hint the ledger keeps.

    etag:"33a64df5"                          strong: another tag, other bytes
    etag:W/"33a64df5"                        weak: other bytes may have the same tag
    modified:Wed, 21 Oct 2015 07:28:00 GMT   weak: to the second
    sha256:9f86d081…                         the server said nothing, so we looked at the bytes

A hint is all that is needed to ask "is it still this one?".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from headgate.model.envelope import Strength
from headgate.net.retry_after import http_date

# A longer tag costs the ledger more than a look at the bytes costs us.
LONGEST_TAG = 1024
# A resource can change twice within the second that Last-Modified tells.
FRESH = timedelta(seconds=2)


def hint_of(headers: Mapping[str, str]) -> str | None:
    """The hint in an answer's headers, or None when only the bytes can tell."""
    tag = headers.get("ETag", "").strip()
    if tag and len(tag) <= LONGEST_TAG and tag.isprintable():
        return f"etag:{tag}"
    modified = http_date(said := headers.get("Last-Modified", "").strip())
    if modified is None:
        return None
    asked = http_date(headers.get("Date", ""))
    if asked is not None and asked - modified < FRESH:
        return None
    return f"modified:{said}"


def conditions(hint: str) -> dict[str, str]:
    """The headers that ask whether it is still this one; none when a server cannot know."""
    kind, _, value = hint.partition(":")
    match kind:
        case "etag":
            return {"If-None-Match": value}
        case "modified":
            return {"If-Modified-Since": value}
        case _:
            return {}


def same(one: str, other: str) -> bool:
    """Do two hints name the same version? Tags are compared weakly: a proxy may weaken them."""
    return one == other or (
        one.startswith("etag:")
        and other.startswith("etag:")
        and one.removeprefix("etag:").removeprefix("W/")
        == other.removeprefix("etag:").removeprefix("W/")
    )


def strength_of(hint: str) -> Strength:
    """How much the hint is worth."""
    strong = hint.startswith("sha256:") or strong_tag(hint.removeprefix("etag:")) is not None
    return "strong" if strong else "weak"


def strong_tag(tag: str) -> str | None:
    """The tag when it is a strong one: then equal tags mean equal bytes."""
    return tag if len(tag) >= 2 and tag[0] == tag[-1] == '"' else None

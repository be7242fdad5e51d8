"""What a source shows, held against what the ledger knows and what is published of one uri.

Four things are found, and each has its way out:

    missing   the source shows it, and nobody ever told the ledger        admit it
    drifted   the source shows another version than the one that is known  admit it
    phantom   it is known or published, and its source shows it no more    look why; nothing deletes
    orphan    it is known or published, and no declared source covers it   declare one, or revert it

Everything else is in order or somebody's decision, and is only counted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from .parse.etag import etag

Found = Literal["missing", "drifted", "phantom", "orphan"]
State = Literal[
    Found, "agreed", "pending", "held", "decided", "kept", "elsewhere", "unsettled", "gone"
]
Cover = Literal["covered", "elsewhere", "nobody"]
FOUND: tuple[Found, ...] = ("missing", "drifted", "phantom", "orphan")
FIXED: tuple[Found, ...] = ("missing", "drifted")

# What is not found, in the words of a summary.
COUNTED: dict[State, str] = {
    "agreed": "published as the source shows them",
    "pending": "being worked on",
    "held": "in quarantine",
    "decided": "discarded or reverted by somebody",
    "kept": "gone from the source, and kept for readers as declared",
    "elsewhere": "told by sources that cannot be listed",
    "unsettled": "still being written",
}

# Clocks of object stores are rounded to seconds, and notifications follow the write.
_SAME_MOMENT = timedelta(seconds=2)


class Side(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a source shows of an object. `source` counts the declared ones."""

    uri: str
    source: int
    hint: str
    strength: str
    at: datetime
    size: int | None
    content_type: str | None
    clock: str
    settled: bool


class Line(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All three accounts of one uri, side by side; None where an account does not name it.

    `expected` is the generation that the showing source is known by, 0 if by none. `published` is
    the head; `reverted` says that a person took it back to something older. `doing` is the newest
    entry that is not done, `held` that it waits for a decision. `ended` says that an entry came
    and ended without a publication. `told` is the envelope the head was last compared with.
    """

    uri: str
    shown: Side | None = None
    expected: int = 0
    known_by: str | None = None
    known: str | None = None
    removed: bool = False
    published: int | None = None
    version: int | None = None
    retired: bool = False
    reverted: bool = False
    doing: int | None = None
    held: bool = False
    ended: bool = False
    told: bytes | None = None
    told_at: datetime | None = None


class Judged(msgspec.Struct, frozen=True, gc=False):
    """What is so with one uri, and on which evidence (`by`)."""

    state: State
    why: str = ""
    by: str = ""
    then: str = ""
    now: str = ""


def judge(
    line: Line, since: int, names: list[str], cover: Callable[[str, str | None], Cover]
) -> Judged:
    """Compare the accounts. Entries after number `since` came while the source was listed.

    `cover` says whether a declared source would show this uri, given who told of it.
    """
    newest = max(line.published or 0, line.doing or 0)
    if newest > since:
        return Judged("held" if line.held else "pending")
    if line.shown is None:
        return _not_shown(line, cover)
    if not line.shown.settled:
        return Judged("unsettled")
    return _shown(line, line.shown, names[line.shown.source])


def _not_shown(line: Line, cover: Callable[[str, str | None], Cover]) -> Judged:
    seen = line.known_by is not None
    visible = line.published is not None and not line.retired
    if line.removed or not (seen or visible):
        return Judged("kept" if visible else "held" if line.held else "gone")
    if not seen and line.doing is not None:
        return Judged("held" if line.held else "pending")
    covered = cover(line.uri, line.known_by)
    if covered == "elsewhere":
        return Judged("elsewhere")
    what = f"published as version {line.version}" if visible else "known, and not published"
    then = line.known or ""
    if covered == "covered":
        return Judged("phantom", f"{what}; its source shows it no more", then=then)
    by = f", last told by {line.known_by}" if seen else ""
    return Judged("orphan", f"{what}{by}; no declared source covers it", then=then)


def _shown(line: Line, shown: Side, name: str) -> Judged:
    nothing = line.published is None or line.retired
    if line.known_by is None and line.published is None and line.doing is None and not line.ended:
        return Judged("missing", "the source shows it; the ledger was never told", now=shown.hint)
    if line.reverted and (line.known_by is None or line.known == shown.hint):
        return Judged("decided")
    if line.removed or (line.known_by is None and line.retired):
        why = "it was gone when the ledger last heard of it, and is back"
        return Judged("missing", why, then=line.known or "", now=shown.hint)
    if line.known != shown.hint:
        by, then = "", ""
        if line.known is not None and line.known_by == name:
            by, then = differing(line.known, shown.hint), line.known
        elif line.told is not None and line.told_at is not None:
            by, then = _against_envelope(msgspec.json.decode(line.told), line.told_at, shown)
        if by:
            return Judged("drifted", f"another {by} than the ledger knows", by, then, shown.hint)
    if line.doing is not None:
        return Judged("held" if line.held else "pending")
    return Judged("decided" if nothing else "agreed")


def differing(before: str, after: str) -> str:
    """By what two hints of one source differ: the strongest thing that both of them name."""
    (kind, was, size), (now_kind, now, now_size) = _parts(before), _parts(after)
    if kind != now_kind:
        return now_kind
    if kind != "mtime":
        return kind if was != now else "size"
    return "size" if size != now_size else "mtime" if was != now else "inode"


def _parts(hint: str) -> tuple[str, str, str]:
    """What a hint names, its value, and the size that stands beside it."""
    kind, colon, rest = hint.partition(":")
    if colon:
        value, _, size = rest.rpartition(" ")
        return kind, value, size
    mtime, _, rest = hint.partition("-")
    return "mtime", mtime, rest.partition("-")[0]


def _against_envelope(told: dict[str, Any], told_at: datetime, shown: Side) -> tuple[str, str]:
    """By what the object differs from the change that was told of it, and how it was then.

    The strongest thing that both sides name decides; where they name nothing in common, nothing
    can be said against it.
    """
    if told.get("version_hint") == shown.hint:
        return "", ""
    kind, value, _ = _parts(shown.hint)
    for name, field in (("version", "version_id"), ("etag", "etag"), ("md5", "md5")):
        then = told.get(field)
        if kind == name and then:
            return ("", "") if _bare(then) == _bare(value) else (name, str(then))
    then = told.get("size")
    if then is not None and shown.size is not None and then != shown.size:
        return "size", str(then)
    if shown.clock == "object" and shown.at > told_at + _SAME_MOMENT:
        return "time", told_at.isoformat()
    return "", ""


def _bare(tag: str) -> str:
    """An ETag without what is written around it."""
    bare = etag(tag)
    return tag if bare is None else bare.value

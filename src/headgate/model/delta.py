"""The delta manifest: what one publication changed for readers, and how to take it back.

A delta says what was added, what was replaced and what was removed, each by digest. Applied to the
version before, it gives this version; inverted and applied, it gives the version before again.
Nothing in it depends on the clock, so the same publication has the same delta whenever it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from headgate.errors import UsageError

from .facts import Facts, File, Version
from .mask import mask_uri

Operation = Literal["publish", "retire", "remove", "revert", "replay"]
SCHEMA = "delta-manifest-v1"


@dataclass(frozen=True, slots=True)
class Replaced:
    """A file that took the place of another one of its name."""

    now: File
    was: File


@dataclass(frozen=True, slots=True)
class Delta:
    """What readers see afterwards that they did not see before."""

    adds: tuple[File, ...] = ()
    replaces: tuple[Replaced, ...] = ()
    removes: tuple[File, ...] = ()

    def inverse(self) -> Delta:
        """What takes this back."""
        swapped = tuple(Replaced(r.was, r.now) for r in self.replaces)
        return Delta(self.removes, swapped, self.adds)

    def apply(self, files: Mapping[str, File]) -> dict[str, File]:
        """The files after this delta. Raises `UsageError` where it does not fit what is there."""
        after = dict(files)
        for gone in (*self.removes, *(r.was for r in self.replaces)):
            if after.pop(gone.name, None) != gone:
                raise UsageError(
                    f"the delta replaces or removes {gone.name!r} sha256:{gone.digest}, "
                    "which is not what is there",
                    hint="apply it to the version it was made for: headgate publication show ENTRY",
                )
        for new in (*self.adds, *(r.now for r in self.replaces)):
            if new.name in after:
                raise UsageError(f"the delta adds {new.name!r}, and there is one already")
            after[new.name] = new
        return after


def between(before: Version | None, after: Version | None) -> Delta:
    """What changed from one version to another; None stands for nothing at all."""
    if before is None and after is not None:
        return Delta(tuple(sorted(after.files, key=attrgetter("name"))))
    old = {f.name: f for f in (before.files if before else ())}
    new = {f.name: f for f in (after.files if after else ())}
    return Delta(
        tuple(new[name] for name in sorted(new.keys() - old.keys())),
        tuple(
            Replaced(new[name], old[name])
            for name in sorted(new.keys() & old.keys())
            if new[name] != old[name]
        ),
        tuple(old[name] for name in sorted(old.keys() - new.keys())),
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows of a table there were, and are."""

    table: str
    before: int
    now: int


def rows(before: Version | None, after: Version | None) -> list[Rows]:
    """The tables in which either version has rows."""
    none: Mapping[str, int] = {}
    old, new = (before.rows if before else none), (after.rows if after else none)
    return [Rows(t, old.get(t, 0), new.get(t, 0)) for t in sorted({*old, *new})]


def operation(facts: Facts) -> Operation:
    """What kind of publication this is."""
    version = facts.version
    if facts.reverts is not None:
        return "revert"
    if facts.replays is not None:
        return "replay"
    if version is not None and version.removed:
        return "retire" if version.retired else "remove"
    return "publish"


def manifest(facts: Facts) -> dict[str, Any]:
    """The delta manifest of a publication, as `schemas/delta-manifest-v1.schema.json` has it."""
    version, before = facts.version, facts.before
    if version is None:
        raise UsageError(
            f"run {facts.run} published nothing, so it has no delta",
            hint=f"See how it ended: headgate entry explain {facts.entry}",
        )
    made = between(before, version)
    return {
        "schema": SCHEMA,
        "publication": facts.entry,
        "run": facts.run,
        "pipeline": facts.pipeline,
        "uri": mask_uri(facts.envelope.uri),
        "operation": operation(facts),
        "version": version.number,
        "predecessor": before.entry if before else None,
        "reverts": facts.reverts,
        "restores": facts.restores,
        "adds": [_file(f) for f in made.adds],
        "replaces": [{**_file(r.now), "was": _file(r.was)} for r in made.replaces],
        "removes": [_file(f) for f in made.removes],
        "rows": [
            {"table": r.table, "before": r.before, "now": r.now} for r in rows(before, version)
        ],
    }


def read(document: Mapping[str, Any]) -> Delta:
    """The delta that a manifest says: the inverse of `manifest`."""
    return Delta(
        tuple(_read(f) for f in document["adds"]),
        tuple(Replaced(_read(f), _read(f["was"])) for f in document["replaces"]),
        tuple(_read(f) for f in document["removes"]),
    )


def _file(file: File) -> dict[str, Any]:
    return {
        "name": file.name,
        "digest": f"sha256:{file.digest}",
        "size": file.size,
        "media_type": file.media_type,
    }


def _read(file: Mapping[str, Any]) -> File:
    digest = str(file["digest"]).removeprefix("sha256:")
    return File(file["name"], digest, file["size"], file["media_type"])

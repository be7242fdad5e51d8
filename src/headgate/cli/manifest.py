"""`headgate manifest`: compare two of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from . import show
from .asked import Command, Group, json_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headgate.model.listing import Difference, Row

    from .listing import Named

SHOWN = 20


@click.group(cls=Group)
def manifest() -> None:
    """Compare manifests: files that list objects and their versions."""


@manifest.command(cls=Command)
@click.argument("before", metavar="A", type=click.Path(exists=True, dir_okay=False))
@click.argument("after", metavar="B", type=click.Path(exists=True, dir_okay=False))
@json_option
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, *, as_json: bool) -> None:
    """What was added, changed and removed from manifest A to manifest B.

    Each is JSON (a list, a document with a list under "files", or an object on each
    line) or CSV with a line of column names. The order of the rows means nothing. Names
    are compared as they are written: a relative one is not resolved.

    Exit 0 when nothing differs, 1 when something does, 2 when one of them cannot be
    read or is not complete.
    """
    import gc

    from headgate.model.listing import difference

    from .listing import beside, named

    gc.disable()  # millions of small values, none of them in a cycle, and then we are done
    with beside(before) as reading:
        new = named(after)
        old = next(reading)
        found = difference(old.records, new.records)
    (_write if as_json else _show)((before, after), (old, new), found)
    ctx.exit(0 if found.empty else 1)


def _write(paths: tuple[str, str], listings: tuple[Named, Named], found: Difference) -> None:
    """One document, written as it is made: a million changes need not fit into memory twice."""
    import msgspec

    encode = msgspec.json.encode
    out = sys.stdout.buffer
    for name, path, one in zip(("before", "after"), paths, listings, strict=True):
        said = encode({"path": path, "hash": one.hash, "objects": one.objects})
        out.write(b'%b\n  "%b": %b' % (b"{" if name == "before" else b",", name.encode(), said))
    counts = {name: len(getattr(found, name)) for name in ("added", "changed", "removed")}
    out.write(b',\n  "counts": %b' % encode({**counts, "unchanged": found.unchanged}))
    for name, parts in _parts(paths, found):
        out.write(b',\n  "%b": [' % name.encode())
        comma = b"\n    "
        for part in parts:
            out.write(comma + encode(part))
            comma = b",\n    "
        out.write(b"\n  ]" if comma[0] == 44 else b"]")
    out.write(b"\n}\n")


def _parts(
    paths: tuple[str, str], found: Difference
) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    from .listing import rows_at

    yield "added", map(_object, rows_at(paths[1], found.added))
    yield "changed", _changed(paths, found.changed, found.changed_before)
    yield "removed", map(_object, rows_at(paths[0], found.removed))


def _changed(
    paths: tuple[str, str], places: Sequence[int], places_before: Sequence[int]
) -> Iterator[dict[str, Any]]:
    from .listing import rows_at

    then = {row.place: _version(row) for row in rows_at(paths[0], sorted(places_before))}
    for row, place in zip(rows_at(paths[1], places), places_before, strict=True):
        yield {"uri": row.uri, "before": then.pop(place), "after": _version(row)}


def _object(row: Row) -> dict[str, Any]:
    return {"uri": row.uri, **_version(row)}


def _version(row: Row) -> dict[str, Any]:
    """What the manifest says of it, and no more."""
    said = {"version": row.version, "size": row.size, "last_modified": row.modified}
    return {name: value for name, value in said.items() if value not in (None, "")}


def _show(paths: tuple[str, str], listings: tuple[Named, Named], found: Difference) -> None:
    for path, one in zip(paths, listings, strict=True):
        show.out(show.text(f"{path}: {show.many(one.objects, 'object')}, {one.hash}"))
    if found.empty:
        show.out(show.text("Nothing differs.", "green"))
        return
    from .listing import rows_at

    places = {"added": found.added, "changed": found.changed, "removed": found.removed}
    for name, some in places.items():
        if some:
            show.out("", show.heading(f"{name}: {len(some):,}"))
            path = paths[0] if name == "removed" else paths[1]
            for row in rows_at(path, some[:SHOWN]):
                show.out(show.indented(show.text(row.uri)))
            if len(some) > SHOWN:
                more = f"… and {len(some) - SHOWN:,} more (--json lists them)"
                show.out(show.indented(show.text(more)))
    show.note(f"\n{found.unchanged:,} unchanged.")

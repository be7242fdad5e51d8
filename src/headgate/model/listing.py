"""A listing: which objects there are, and in which version. Its order means nothing.

A row becomes a short record: 16 bytes of the SHA-256 of its uri, its state, and where it stands.
Sorted, these are the canonical listing: one that was merely shuffled is equal and has the same
hash, and a million records fit where a million rows would not. Whoever wants the rows of a
difference reads the listing once more (`at`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

_URI_BYTES = 16
_PLACE_BYTES = 8
_STATE_BYTES = 100
_BLOCK = 4096


class NotAListing(ValueError):
    """What was read is no complete listing. Nothing may be concluded from it."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One object of a listing, as it is named there.

    `named` says what `version` is: a version id, a sha256, a checksum, an etag, an md5. `place`
    is the line, or the number of the item, for whoever has to mend it.
    """

    uri: str
    version: str = ""
    named: str = ""
    size: int | None = None
    modified: datetime | None = None
    place: int = 0


def state(row: Row) -> bytes:
    """What of a row must differ for the object to have changed.

    The time counts only where there is no version: a copy of the same bytes is no change.
    """
    size = "" if row.size is None else row.size
    if row.version:
        told = f"{row.version}\n{size}\n".encode()
    else:
        at = row.modified.astimezone(UTC).isoformat() if row.modified else ""
        told = f"\n{size}\n{at}".encode()
    return told if len(told) <= _STATE_BYTES else sha256(told).hexdigest().encode()


@dataclass(frozen=True, slots=True)
class Listing:
    """The canonical form. `hash` is the same on every machine, and for every order of the rows."""

    hash: str
    records: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.records)


def canonical(rows: Iterable[Row], unit: str = "line") -> Listing:
    """The rows as a listing. The same object twice in one version counts once.

    Raises `NotAListing` when an object is there in two versions, with both places in `unit`s.
    """
    records = [
        sha256(row.uri.encode()).digest()[:_URI_BYTES]
        + state(row)
        + row.place.to_bytes(_PLACE_BYTES, "big")
        for row in rows
    ]
    records.sort()
    records = _without_repeats(records, unit)
    whole = sha256(b"headgate:listing:1\0")
    for at in range(0, len(records), _BLOCK):
        block = [record[:-_PLACE_BYTES] for record in records[at : at + _BLOCK]]
        whole.update(b"\0".join([*block, b""]))
    return Listing(f"sha256:{whole.hexdigest()}", records)


def _without_repeats(records: list[bytes], unit: str) -> list[bytes]:
    repeats = False
    uri, last = b"", b""
    for record in records:
        if record[:_URI_BYTES] == uri:
            if record[:-_PLACE_BYTES] != last[:-_PLACE_BYTES]:
                first, second = sorted((_place(last), _place(record)))
                raise NotAListing(
                    f"{unit}s {first:,} and {second:,} name the same object in two versions"
                )
            repeats = True
        uri, last = record[:_URI_BYTES], record
    if not repeats:
        return records
    firsts = {record[:-_PLACE_BYTES]: record for record in reversed(records)}
    return [record for record in records if firsts[record[:-_PLACE_BYTES]] is record]


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of one listing in another, by the places of the rows, in their order.

    `changed` holds the places in the later listing, `changed_before` those in the earlier one,
    pair by pair.
    """

    added: array[int]
    removed: array[int]
    changed: array[int]
    changed_before: array[int]
    unchanged: int

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.changed)


def difference(before: Iterable[bytes], after: Iterable[bytes]) -> Difference:
    """Compare the records of two listings. It takes one walk along both."""
    added, removed, changed = list[int](), list[int](), list[tuple[int, int]]()
    unchanged = 0
    old, new = iter(before), iter(after)
    a, b = next(old, None), next(new, None)
    while a is not None and b is not None:
        if a[:-_PLACE_BYTES] == b[:-_PLACE_BYTES]:
            unchanged += 1
            a, b = next(old, None), next(new, None)
        elif a[:_URI_BYTES] == b[:_URI_BYTES]:
            changed.append((_place(b), _place(a)))
            a, b = next(old, None), next(new, None)
        elif a < b:
            removed.append(_place(a))
            a = next(old, None)
        else:
            added.append(_place(b))
            b = next(new, None)
    removed += [_place(record) for record in _rest(a, old)]
    added += [_place(record) for record in _rest(b, new)]
    changed.sort()
    return Difference(
        array("Q", sorted(added)),
        array("Q", sorted(removed)),
        array("Q", [now for now, _ in changed]),
        array("Q", [then for _, then in changed]),
        unchanged,
    )


def at(rows: Iterable[Row], places: Sequence[int]) -> Iterator[Row]:
    """The rows at these places, which are sorted, as are the rows."""
    wanted = iter(places)
    place = next(wanted, None)
    for row in rows:
        if row.place == place:
            yield row
            place = next(wanted, None)
        if place is None:
            return


def _place(record: bytes) -> int:
    return int.from_bytes(record[-_PLACE_BYTES:], "big")


def _rest(head: bytes | None, more: Iterator[bytes]) -> Iterator[bytes]:
    if head is not None:
        yield head
        yield from more

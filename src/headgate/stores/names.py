"""What things are called inside a store, whatever it is made of."""

from __future__ import annotations

import re
from collections.abc import Collection

from headgate.errors import UsageError

OBJECTS = "staging/sha256"
DIGEST = re.compile(r"[0-9a-f]{64}")
_NOWHERE = frozenset(("", ".", ".."))


def object_name(digest: bytes) -> str:
    """Where an object lies: `staging/sha256/ab/abcd…`."""
    if len(digest) != 32:
        raise ValueError(f"a SHA-256 digest has 32 bytes, not {len(digest)}")
    name = digest.hex()
    return f"{OBJECTS}/{name[:2]}/{name}"


def checked_name(name: str, uri: str) -> str:
    """The name of a small file, if it stays inside the store and out of its objects."""
    parts = name.split("/")
    if parts[0] == "staging" or "\0" in name or not _NOWHERE.isdisjoint(parts):
        raise UsageError(
            f"{name!r} cannot name a file of store {uri}",
            hint='Use a relative name such as "ledger/anchor.json", outside of "staging/".',
        )
    return name


def counted(names: Collection[str]) -> str:
    """How an error names what was to be written or removed: the only name, or how many."""
    return next(iter(names)) if len(names) == 1 else f"{len(names)} files"

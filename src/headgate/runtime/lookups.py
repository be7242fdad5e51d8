"""Lookups of a pipeline, kept: each declared file has a copy in the store, by its digest.

Handlers never read the file itself. A worker that runs for days reads what it registered with, and
so does a replay a year later.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from headgate.errors import ObjectMissing, UsageError
from headgate.model.lookup import Lookup, kept_as
from headgate.model.ports import Store


def look(declared: Mapping[str, str | os.PathLike[str]]) -> dict[str, Lookup]:
    """The declared files as they are now. Raises `UsageError` when one cannot be read."""
    found: dict[str, Lookup] = {}
    for name, path in declared.items():
        try:
            content = Path(path).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(
                f"the lookup {name!r} cannot be read: {error}",
                hint=f"put the file there, or declare another: lookups={{{name!r}: …}}",
            ) from error
        digest = hashlib.sha256(content).hexdigest()
        found[name] = Lookup(name, digest, len(content), cache(partial(_local, content)))
    return found


def keep(declared: Mapping[str, str | os.PathLike[str]], store: Store) -> dict[str, Lookup]:
    """The same, with a copy of each in the store."""
    found = look(declared)
    for one in found.values():
        if store.read(kept_as(one.digest)) is None:
            store.project({kept_as(one.digest): one.read()})
    return found


def reopen(names: Mapping[str, str], store: Store) -> dict[str, Lookup]:
    """Lookups as they once were, by digest. Raises `ObjectMissing` when a copy is gone."""
    return {name: _reopened(name, digest, store) for name, digest in names.items()}


def _reopened(name: str, digest: str, store: Store) -> Lookup:
    content = store.read(kept_as(digest))
    if content is None or hashlib.sha256(content).hexdigest() != digest:
        raise ObjectMissing(
            f"the lookup {name!r} of that time (sha256 {digest}) is not in {store.uri} any more"
        )
    return Lookup(name, digest, len(content), cache(partial(_local, content)))


def _local(content: bytes) -> Path:
    """A file of this process's own, made when a handler first asks, and gone with the process."""
    made = tempfile.NamedTemporaryFile(prefix="headgate-lookup-")  # noqa: SIM115  (kept below)
    made.write(content)
    made.flush()
    _OPEN.append(made)
    return Path(made.name)


# Open as long as the process lives: closing one removes it.
_OPEN: list[object] = []

"""Bytes, by digest. `open_store` picks the store from how it is written."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote_to_bytes, urlsplit

from headgate.errors import ConfigError
from headgate.model.ports import Store
from headgate.net.buckets import is_bucket

from .cache import Local
from .files import FileSpool, FileStore

__all__ = ["FileSpool", "FileStore", "Local", "open_store"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_store(uri_or_path: str, local: Local | None = None) -> Store:
    """The store at a path, a `file://` uri, or in a bucket. Nothing is touched until it is used.

    `local` is where a store in a bucket keeps its copies on this machine.
    """
    scheme = _SCHEME.match(uri_or_path)
    if scheme is None:
        if not uri_or_path or "\0" in uri_or_path:
            raise ConfigError(f"store {uri_or_path!r} is not a path", hint='As in store="lake/".')
        return FileStore(uri_or_path)
    if is_bucket(uri_or_path):
        from .cloud import CloudStore

        return CloudStore(uri_or_path, local)
    if scheme[1].lower() != "file":
        raise ConfigError(
            f"there are no stores at {scheme[1]}://",
            hint='Use a folder, as in store="lake/", or a bucket: s3://, gs://, az://, abfss://.',
        )
    return FileStore(_local_path(uri_or_path))


def _local_path(uri: str) -> str:
    parts = urlsplit(uri)
    path = unquote_to_bytes(parts.path)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or b"\0" in path:
        raise ConfigError(
            f"store {uri} does not name a folder of this machine",
            hint="A file uri has three slashes, and ? and # are written %3F and %23: "
            "file:///srv/lake",
        )
    if not path.startswith(b"/"):
        raise ConfigError(f"store {uri} has no path", hint="As in file:///srv/lake")
    return os.fsdecode(path)

"""Where a manifest is, and where the objects may be that it names.

The manifest's own place was written by the pipeline's author. What stands in it was not: it is
data. So it may name what lies beside it (below its folder, in its bucket), what the author allowed,
and web addresses, which the egress guard judges. Nothing else is read, however it is spelled.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, cast
from urllib.parse import unquote, urljoin, urlsplit

from headgate.errors import ObjectChanged, ObjectMissing, PipelineError
from headgate.model.envelope import Envelope, Provider
from headgate.model.secret import Secret
from headgate.model.uri import normal_uri
from headgate.net import buckets

from .address import check_url
from .bucket import PROVIDERS, Listing, pinned
from .directory import Directory
from .walk import uri_of

Headers = Mapping[str, "str | Secret"]
MEMORY_BYTES = 8 << 20
_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match
_HINT = 'Name what it may also read from, as in allow=["s3://other-bucket/raw/"].'


def is_web(uri: str) -> bool:
    return uri.startswith(("https://", "http://"))


def place_of(where: str | os.PathLike[str]) -> str:
    """What the author wrote, as a uri. Raises `PipelineError`."""
    text = os.fspath(where)
    if is_web(text):
        check_url(text)
        return text
    if buckets.is_bucket(text):
        return _in_bucket(text)
    if text.startswith("file://"):
        return uri_of(os.path.abspath(unquote(text.removeprefix("file://"))))
    if "://" in text:
        raise PipelineError(
            f"{text!r} is neither a path nor an address",
            hint='As in "lists/manifest.csv", "https://…", "s3://bucket/manifest.json".',
        )
    return uri_of(os.path.abspath(os.path.expanduser(text)))


def _in_bucket(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    root = buckets.parse(f"{scheme}://{bucket}").root
    return normal_uri(f"{root}/{key}")


def provider_of(uri: str) -> Provider:
    """Who keeps the object."""
    if buckets.is_bucket(uri):
        return PROVIDERS[buckets.SCHEMES[uri.partition("://")[0].lower()]]
    return "http" if is_web(uri) else "file"


class Places:
    """What a manifest at `base` may name, and how that is read."""

    def __init__(self, base: str, allow: Iterable[str], headers: Headers) -> None:
        self._base = base
        self._headers = headers
        self._folders: dict[str, Directory] = {}
        self._buckets: list[str] = []
        self._open: dict[str, Listing] = {}
        self._scheme, _, rest = base.partition("://")
        if self._scheme == "file":
            self._add_folder(os.path.dirname(unquote(base.removeprefix("file://"))))
        elif buckets.is_bucket(base):
            self._buckets.append(f"{self._scheme}://{rest.partition('/')[0]}/")
        for text in allow:
            self._add(text)

    def _add(self, text: str) -> None:
        if buckets.is_bucket(text):
            self._buckets.append(_in_bucket(text))
        elif text.startswith("file://") and self._scheme == "file":
            self._add_folder(unquote(text.removeprefix("file://")))
        else:
            hint = "Web addresses are allowed by the setting egress_allow, not here."
            raise PipelineError(f"allow={text!r} is no place in a bucket or folder", hint=hint)

    def _add_folder(self, path: str) -> None:
        folder = Directory(path, settle=0)
        self._folders[folder.uri.rstrip("/") + "/"] = folder

    def resolve(self, reference: str) -> str:
        """The uri that is meant by what the manifest says."""
        if _scheme(reference):
            return normal_uri(reference) if buckets.is_bucket(reference) else reference
        if is_web(self._base):
            return urljoin(self._base, reference)
        # urljoin would drop empty parts, which are parts of a key like any other.
        scheme, _, rest = self._base.partition("://")
        root, *folders, _ = rest.split("/")
        parts = [root] if reference.startswith("/") else [root, *folders]
        for part in reference.removeprefix("/").split("/"):
            if part == "..":
                del parts[1 if len(parts) == 1 else -1 :]
            elif part != ".":
                parts.append(part)
        uri = f"{scheme}://{'/'.join(parts)}"
        return uri_of(unquote(uri.removeprefix("file://"))) if scheme == "file" else normal_uri(uri)

    def may_read(self, uri: str) -> bool:
        """Is this one of the places above?"""
        if is_web(uri):
            return True
        if uri.startswith("file://"):
            return any(folder.owns(uri) for folder in self._folders.values())
        return any(uri.startswith(prefix) and uri != prefix for prefix in self._buckets)

    def read(self, envelope: Envelope) -> Iterator[bytes]:
        """The object's bytes, as they are now."""
        uri = envelope.uri
        if not self.may_read(uri):
            raise ObjectMissing(f"{uri} is not where {self._base} may name objects", hint=_HINT)
        if is_web(uri):
            yield from self._web(uri)
        elif uri.startswith("file://"):
            folder = next(f for f in self._folders.values() if f.owns(uri))
            yield from folder.fetch(envelope)
        else:
            yield from self._bucket(uri, **pinned(envelope))

    def _web(self, uri: str) -> Iterator[bytes]:
        from headgate.net import loop
        from headgate.net.http import Limits, shared

        from .resume import Reading

        # Whoever writes the manifest does not learn our credentials by naming a host of theirs.
        ours = is_web(self._base) and urlsplit(uri)[:2] == urlsplit(self._base)[:2]
        headers: Headers = self._headers if ours else {}
        reading = Reading(shared(), uri, headers, Limits(), trusted=ours)
        try:
            while chunk := loop.wait(reading.chunk()):
                yield chunk
        finally:
            loop.wait(reading.close())

    def _bucket(self, uri: str, **pins: str | None) -> Iterator[bytes]:
        from headgate.net.objects import Objects

        scheme, _, rest = uri.partition("://")
        name, _, key = rest.partition("/")
        root = f"{scheme}://{name}"
        if root not in self._open:
            self._open[root] = cast("Listing", Objects(buckets.parse(root)))
        yield from self._open[root].read(unquote(key), **pins)

    @contextmanager
    def manifest(self) -> Generator[BinaryIO]:
        """The manifest itself, whole, as a file. Raises what reading an object may."""
        if self._scheme == "file":
            path = unquote(self._base.removeprefix("file://"))
            with open(path, "rb") as stream:
                before = os.fstat(stream.fileno())
                yield stream
                after = os.fstat(stream.fileno())
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise ObjectChanged(f"{self._base} changed while it was read")
            return
        with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as spool:
            pieces = self._web(self._base) if is_web(self._base) else self._bucket(self._base)
            for piece in pieces:
                spool.write(piece)
            spool.seek(0)
            yield cast("BinaryIO", spool)

"""A prefix as a source, wherever it is: in a bucket of S3, Google or Azure, or on this machine.

On this machine it is the folder of that name (`Directory`), so that a pipeline for a bucket can be
tried on files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from urllib.parse import unquote_to_bytes

from headgate.errors import PipelineError
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope
from headgate.model.ports import Known, Noticed, Scan, Shown
from headgate.net.buckets import is_bucket

from .bucket import Bucket, Wanted
from .directory import Directory
from .pattern import compile_pattern

_HINT = 'As in hg.Prefix("s3://bucket/raw/"), "gs://…", "az://…" or "file:///data/raw/".'


class Prefix:
    """The objects whose uri begins with `uri`, that end with `suffix` or match `pattern`."""

    name: str
    every_seconds: float

    def __init__(
        self,
        uri: str,
        *,
        suffix: str | None = None,
        pattern: str | None = None,
        every: str | float = "5m",
        name: str | None = None,
    ) -> None:
        if suffix is not None and pattern is not None:
            raise PipelineError(f"Prefix({uri!r}): give suffix or pattern, not both")
        self._there: Directory | Bucket
        if uri.startswith("file://"):
            chosen = "**/*" if suffix is None else f"**/*{_literal(suffix)}"
            path = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
            self._there = Directory(path, pattern=pattern or chosen, every=every, name=name)
        elif is_bucket(uri):
            every_seconds = seconds(every, "every")
            self._there = Bucket(uri, name or uri, every_seconds, _wanted(suffix, pattern))
        else:
            raise PipelineError(f"Prefix({uri!r}): that is no prefix", hint=_HINT)
        self.uri = self._there.uri
        self.name = self._there.name
        self.every_seconds = self._there.every_seconds
        if self.every_seconds == 0:
            raise PipelineError(f"{self.name}: every is 0", hint='Say how often, as in every="5m".')

    def check(self) -> None:
        """Raise `UsageError` when it cannot work as declared. No server is asked."""
        self._there.check()

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        """List and compare with what is known. Raises `Unavailable` rather than guess."""
        return self._there.scan(known, now)

    def everything(self, now: datetime) -> Iterator[Shown]:
        """All there is under the prefix. Raises `Unavailable` rather than leave some out."""
        return self._there.everything(now)

    def covers(self, uri: str) -> bool:
        """Would an object of this uri be picked up?"""
        return self._there.covers(uri)

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        """The change as an envelope, once the ledger has numbered it."""
        return self._there.envelope(change, generation, received_at)

    def owns(self, uri: str) -> bool:
        """Does the uri name something under the prefix?"""
        return self._there.owns(uri)

    def fetch(self, envelope: Envelope) -> Iterable[bytes | memoryview]:
        """The bytes of the version that was noticed."""
        return self._there.fetch(envelope)


def _wanted(suffix: str | None, pattern: str | None) -> Wanted:
    if pattern is not None:
        matches = compile_pattern(pattern).fullmatch
        return lambda key: matches(key) is not None
    return lambda key: key.endswith(suffix or "")


def _literal(suffix: str) -> str:
    """The suffix as part of a pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in suffix)

"""Objects of buckets that others tell us about: which are meant, and how their bytes are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING

from headgate.errors import ConfigError, ObjectMissing
from headgate.model.envelope import Envelope
from headgate.model.uri import split_uri

if TYPE_CHECKING:
    from headgate.model.envelope import Provider
    from headgate.net.objects import Objects

_CLOUDS = {"s3": "s3", "gcs": "gs", "azure": "az"}


class Stored:
    """The part of a source that reads objects of one provider, chosen by bucket and name.

    An object is read as it was told: by its version where there is one, else only while its ETag
    is the one that was told. For any number of threads.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        bucket: str | None = None,
        prefix: str | None = None,
        suffix: str | tuple[str, ...] | None = None,
    ) -> None:
        self._provider = provider
        self._bucket = bucket
        self._prefix = prefix or ""
        self._suffix = suffix or ""
        self._open: dict[str, Objects] = {}
        self._lock = Lock()

    def means(self, uri: str) -> bool:
        """Is this one of the objects that were asked for?"""
        found = split_uri(uri)
        if found is None:
            return False
        bucket, key = found
        return (
            (self._bucket is None or bucket == self._bucket)
            and key.startswith(self._prefix)
            and key.endswith(self._suffix)
        )

    def owns(self, uri: str) -> bool:
        """Can we read it? Only what was asked for: an address in a message opens nothing else."""
        return self._scheme_fits(uri) and self.means(uri)

    def fetch(self, envelope: Envelope) -> Iterable[bytes]:
        """The object's bytes in chunks.

        Raises `ObjectMissing`, `PermissionDenied`, `ObjectChanged`, `Unavailable`.
        """
        found = split_uri(envelope.uri)
        if found is None:
            raise ObjectMissing(f"{envelope.uri} is no object of a bucket")
        return self._read(*found, envelope)

    def _read(self, bucket: str, key: str, envelope: Envelope) -> Iterator[bytes]:
        etag = None
        if envelope.version_id is None and envelope.strength == "strong" and envelope.etag:
            etag = f'"{envelope.etag}"'
        try:
            objects = self._objects(bucket)
        except ConfigError as error:
            raise ObjectMissing(str(error), hint=error.hint) from None
        yield from objects.read(key, version=envelope.version_id, etag=etag)

    def _objects(self, bucket: str) -> Objects:
        from headgate.net.buckets import Address
        from headgate.net.objects import Objects

        with self._lock:
            if bucket not in self._open:
                self._open[bucket] = Objects(Address(_CLOUDS[self._provider], bucket, ""))
            return self._open[bucket]

    def _scheme_fits(self, uri: str) -> bool:
        if self._provider == "azure":
            return uri.startswith("https://")
        return uri.startswith(f"{_CLOUDS[self._provider]}://")

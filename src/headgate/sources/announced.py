"""An object of a bucket, read by what an envelope says of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headgate.errors import ObjectMissing
from headgate.model.envelope import Envelope
from headgate.model.uri import split_uri

if TYPE_CHECKING:
    from headgate.net.objects import Objects


def fetch(envelope: Envelope) -> Iterator[bytes]:
    """The object's bytes: of the version that was announced, where there are versions."""
    place = split_uri(envelope.uri)
    if place is None:
        raise ObjectMissing(f"{envelope.uri} is no object of a bucket")
    immutable = envelope.version_id if envelope.strength == "immutable" else None
    return _objects(_root(envelope.uri, place[0])).read(place[1], version=immutable)


def _root(uri: str, bucket: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "https":
        return f"{parts.scheme}://{bucket}"
    account = parts.netloc.partition(".")[0]
    return f"abfss://{bucket}@{account}.dfs.core.windows.net"


@lru_cache(maxsize=64)
def _objects(root: str) -> Objects:
    from headgate.net.objects import objects_at

    return objects_at(root)

"""An object of a bucket, read by what a notification says of it.

A version that was announced is read as it was. Without versions, what is there now is read: the
notification of a newer change is on its way, and will find the bytes known.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from headgate.errors import ObjectMissing
from headgate.model.envelope import Envelope
from headgate.model.uri import split_uri

if TYPE_CHECKING:
    from headgate.net.objects import Objects


def fetch(envelope: Envelope) -> Iterator[bytes]:
    """The object's bytes. Raises what `Source.fetch` may."""
    place = split_uri(envelope.uri)
    if place is None:
        raise ObjectMissing(f"{envelope.uri} is no object of a bucket")
    immutable = envelope.version_id if envelope.strength == "immutable" else None
    return _objects(root_of(envelope.uri)).read(place[1], version=immutable)


def is_about_one_version(envelope: Envelope) -> bool:
    """Was only a version of the object deleted? Mostly an old one that expired: the object that
    readers see may well be there, and must not be taken back for it.
    """
    return envelope.metadata.get("removed") == "version"


def root_of(uri: str) -> str:
    """The bucket of an object, as a uri."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


@lru_cache(maxsize=64)
def _objects(root: str) -> Objects:
    from headgate.net.objects import objects_at

    return objects_at(root)

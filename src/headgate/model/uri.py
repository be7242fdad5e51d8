"""How an object of a bucket is written as one uri, and read back: `s3://bucket/key`.

A key may hold any character, a uri may not. What RFC 3986 does not allow in a path is
percent-encoded (UTF-8, capital hex): `a b%.csv` is `s3://bucket/a%20b%25.csv`. Everything else
stays as it is, so ordinary keys read as they are, `+` is a plus sign, and two keys never share a
uri. Nothing is normalised: NFC and NFD, `//` and `..` are different keys.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, unquote_to_bytes

SCHEMES = {"s3": "s3", "gcs": "gs"}  # provider → scheme
PROVIDERS = {scheme: provider for provider, scheme in SCHEMES.items()}

_PLAIN = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/]*").fullmatch
_SAFE = "-._~!$&'()*+,;=:@/"
_AZURE_HOST = re.compile(r"([A-Za-z0-9-]+)\.(?:blob|dfs)(\.[A-Za-z0-9.:-]+)").fullmatch


def quoted(key: str) -> str:
    """A key as the path of a uri. The inverse is `urllib.parse.unquote`."""
    return key if _PLAIN(key) else quote(key, safe=_SAFE)


def object_uri(scheme: str, bucket: str, key: str) -> str:
    """The uri of an object; `split_uri` gives the bucket and the key back."""
    path = f"{bucket}/{key}"
    if not _PLAIN(path) or "/" in bucket:
        path = f"{quote(bucket, safe='')}/{quote(key, safe=_SAFE)}"
    return f"{scheme}://{path}"


def split_uri(uri: str) -> tuple[str, str] | None:
    """Bucket and key of an object's uri, or None when it is no object of a bucket.

    A blob of Azure is known by its web address; its bucket is the container.
    """
    scheme, colon, rest = uri.partition("://")
    if not colon:
        return None
    host, _, path = rest.partition("/")
    if scheme in ("http", "https"):
        if not _AZURE_HOST(host):
            return None
        host, _, path = path.partition("/")
    elif scheme not in PROVIDERS:
        return None
    return (unquote(host), unquote(path)) if host and path else None


def normal_uri(uri: str) -> str:
    """The same object, written as above. Other uris are left alone.

    A blob loses its query, which may hold a signature; the data lake's end point (`.dfs.`) becomes
    that of the blobs: two doors to one object. Raises `UnicodeDecodeError` for other than UTF-8.
    """
    scheme = uri.partition("://")[0]
    plain = uri if scheme in PROVIDERS else re.split("[?#]", uri, maxsplit=1)[0]
    found = split_uri(plain)
    if found is None:
        return uri
    unquote_to_bytes(plain).decode()
    if scheme in PROVIDERS:
        return object_uri(scheme, *found)
    host = _AZURE_HOST(plain.split("/", 3)[2])
    assert host is not None, "split_uri knows no other"
    return f"{scheme}://{host[1]}.blob{host[2]}".lower() + f"/{quoted(found[0])}/{quoted(found[1])}"

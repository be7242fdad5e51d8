"""How an object of a bucket is written as one uri, and read back: `s3://bucket/key`.

    s3://BUCKET/KEY
    gs://BUCKET/KEY
    abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY

A key may hold any character, a uri may not. What RFC 3986 does not allow in a path is
percent-encoded (UTF-8, capital hex): `a b%.csv` is `s3://bucket/a%20b%25.csv`. Everything else
stays as it is, so ordinary keys read as they are, `+` is a plus sign, and two keys never share a
uri. Nothing is normalised: NFC and NFD, `//` and `..` are different keys.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, unquote_to_bytes

PROVIDERS = {"s3": "s3", "gs": "gcs", "abfss": "azure"}  # scheme → provider
SCHEMES = {provider: scheme for scheme, provider in PROVIDERS.items()}

_SAFE = "-._~!$&'()*+,;=:@/"
_PLAIN = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/]*").fullmatch
_BLOB = re.compile(
    r"(?i)https?://(?P<account>[a-z0-9-]+)\.(?:blob|dfs)\.(?P<cloud>[a-z0-9.-]+)(?::\d+)?"
    r"/(?P<container>[^/?#]+)/(?P<key>[^?#]+)"
).match


def quoted(key: str) -> str:
    """A key as the path of a uri. The inverse is `urllib.parse.unquote`."""
    return key if _PLAIN(key) else quote(key, safe=_SAFE)


def object_uri(scheme: str, bucket: str, key: str) -> str:
    """The uri of an object; `split_uri` gives the bucket and the key back."""
    path = f"{bucket}/{key}"
    if not _PLAIN(path) or "/" in bucket:
        path = f"{quote(bucket, safe='')}/{quote(key, safe=_SAFE)}"
    return f"{scheme}://{path}"


def blob_uri(url: str) -> str | None:
    """The uri of the blob at a web address, or None when it is not the address of a blob.

    Azure has two doors to one object, `.blob.` and `.dfs.`; both have this uri. A query is left
    out: it may hold a signature. Raises `UnicodeDecodeError` for other than UTF-8.
    """
    found = _BLOB(url)
    if found is None:
        return None
    container = unquote_to_bytes(found["container"]).decode()
    key = unquote_to_bytes(found["key"]).decode()
    host = f"{found['account']}.dfs.{found['cloud']}".lower()
    return f"abfss://{quote(container, safe='$')}@{host}/{quoted(key)}"


def split_uri(uri: str) -> tuple[str, str] | None:
    """Bucket and key of an object's uri, or None when it is no object of a bucket."""
    scheme, _, rest = uri.partition("://")
    if scheme not in PROVIDERS:
        return None
    bucket, _, key = rest.partition("/")
    if scheme == "abfss":
        bucket, at, _ = bucket.partition("@")
        if not at:
            return None
    return (unquote(bucket), unquote(key)) if bucket and key else None


def normal_uri(uri: str) -> str:
    """The same object, written as above. Other uris are left alone.

    Raises `UnicodeDecodeError` for other than UTF-8.
    """
    found = split_uri(uri)
    if found is None:
        return uri
    unquote_to_bytes(uri).decode()
    scheme, _, rest = uri.partition("://")
    if scheme != "abfss":
        return object_uri(scheme, *found)
    host = rest.partition("/")[0].partition("@")[2].lower()
    return f"abfss://{quote(found[0], safe='$')}@{host}/{quoted(found[1])}"

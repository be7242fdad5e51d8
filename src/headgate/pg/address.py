"""Where a database is, in words that may be logged: never with its password."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs, unquote, urlsplit

_SECRET_PARAMETER = re.compile(r"(?i)\b((?:ssl)?password=)[^&\s]*")


def redact(url: str) -> str:
    """The url with every password replaced by `***`, for logs and messages."""
    head, slashes, rest = url.partition("://")
    if slashes:
        # The last @ before the path ends the credentials: a password may hold an unescaped @ or /.
        credentials, at, place = rest.rpartition("@")
        user, colon, _ = credentials.partition(":")
        rest = f"{user}:***@{place}" if at and colon else rest
    return _SECRET_PARAMETER.sub(r"\1***", head + slashes + rest)


def where(url: str) -> str:
    """Name database and host, as libpq would find them, for a message to the operator."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
    except ValueError:
        return f"the database at {redact(url)}"
    host = _last(query, "host") or parts.netloc.rpartition("@")[2] or os.environ.get("PGHOST", "")
    port = _last(query, "port") or ("" if _has_port(host) else os.environ.get("PGPORT", ""))
    database = (
        unquote(parts.path.lstrip("/"))
        or _last(query, "dbname")
        or _last(query, "database")
        or os.environ.get("PGDATABASE", "")
    )
    place = unquote(host) or "the local socket"
    named = f'database "{database}"' if database else "the default database"
    return f"{named} at {place}" + (f" port {port}" if port else "")


def _last(query: dict[str, list[str]], name: str) -> str:
    return query.get(name, [""])[-1]


def _has_port(host: str) -> bool:
    return re.search(r":\d+$", host) is not None

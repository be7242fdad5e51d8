"""Web addresses and headers as an author writes them: checked when they are declared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from headgate.errors import PipelineError
from headgate.model.secret import Secret

# What an index of Postgres holds.
LONGEST_URI = 2000
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_url(url: object) -> None:
    """Raise `PipelineError` for what cannot be asked, or should not be written down."""
    if not isinstance(url, str) or not 0 < len(url) <= LONGEST_URI:
        raise PipelineError(f"{str(url)[:80]!r} is not a web address, up to {LONGEST_URI} letters")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if "@" in parts.netloc:
        hint = 'Send it in a header: headers={"Authorization": hg.env("TOKEN", prefix="Bearer ")}.'
        raise PipelineError("the address carries a user name or a password", hint=hint)
    if parts.scheme not in ("http", "https") or not host:
        hint = 'As in "https://data.example/stations.csv".'
        raise PipelineError(f"{url!r} is not a web address", hint=hint)
    if "\\" in url or not url.isprintable() or " " in url or parts.fragment:
        hint = "Leave out spaces, backslashes and what follows a #."
        raise PipelineError(f"{url!r} cannot be asked as it is", hint=hint)


def check_headers(headers: Mapping[str, str | Secret]) -> dict[str, str | Secret]:
    """The headers, each with a name and a value that can be sent."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise PipelineError(f"{name!r} is not the name of a header")
        if isinstance(value, str) and not value.isprintable():
            raise PipelineError(f"the header {name} has line breaks or control characters")
    return dict(headers)

"""ETags, as stores and web servers write them, in one form."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEX = "0123456789abcdef"
_ENCODED = re.compile(r"-{1,2}gzip$")


class ETag(NamedTuple):
    """An ETag without its trimmings. A weak one may stand for several contents."""

    value: str
    weak: bool

    @property
    def md5(self) -> str | None:
        """The value when it looks like an MD5. That of an upload in parts (`…-N`) does not.

        A store that encrypts with a key of its own writes something else that looks like one:
        it is a hint like the ETag itself, and no checksum.
        """
        value = self.value.lower()
        return value if len(value) == 32 and not value.strip(_HEX) else None


def etag(raw: str) -> ETag | None:
    """Without quotes, `W/` and the `-gzip` that web servers append; None when nothing is left."""
    text = raw.strip()
    weak = text[:2] in ("W/", "w/")
    if weak:
        text = text[2:]
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    text = _ENCODED.sub("", text)
    return ETag(text, weak) if text else None

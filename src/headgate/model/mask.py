"""Masking: what must not be read by whoever reads logs, metrics, quarantine or records.

Everything of a payload, and every log line, goes through a `Masker` before it is written. It knows
a secret by the name it is kept under (`password`, `api_key`, …) and by its shape (a bearer token,
an AWS key, the password of a DSN). It is a net, not a proof: a secret that looks like nothing and
is called nothing is found only by the user's own function, `extra`.

When in doubt it masks: a word too many is lost to a reader, a secret too many to everyone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time
from functools import lru_cache
from typing import cast

MASK = "***"
# Deeper or longer than this is not worth a log line, and a bound keeps hostile data cheap.
DEPTH = 12
ITEMS = 200
LENGTH = 8192
# How far beyond a cut we look, so that a secret that straddles it is still seen as a whole.
MARGIN = 1024

_NAME = (
    r"(?:pass(?:word|wd|phrase)|secret|token|authorization|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|signature|cookie|credential)"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
# Too short to be looked for inside other words: `compass`, `author`.
_SECRET_WORDS = frozenset({"pass", "pwd", "auth", "sig"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# Quoted or bracketed: to its end, or, when it was cut short, to the end of the text. Otherwise up
# to what ends a bare value. Quotes may be escaped, as in JSON that is a string in JSON.
_VALUE = (
    r"""(?:\\+"[\s\S]*?(?:\\+"|\Z)|"(?:[^"\\]|\\[\s\S])*(?:"|\\?\Z)"""
    r"""|'(?:[^'\\]|\\[\s\S])*(?:'|\\?\Z)|[\[{][^\]}]*(?:[\]}]|\Z)"""
    r"""|(?:(?:basic|bearer|digest|token)\s{1,3})?[^\s&,;"'}\])]+)"""
)


def _rule(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile(pattern, flags)


# What is kept, if anything, is group 1.
_RULES: tuple[re.Pattern[str], ...] = (
    _rule(r"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)[\s\S]*?(?=-----END |\Z)"),
    # The last @ before the path ends the credentials: a password may hold one of its own.
    _rule(r"""(\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@?#"'<>]*:)[^\s/"'<>]*(?=@)""", re.I),
    # A header's value has spaces in it, so it ends with its line, or with the quote around it.
    _rule(
        r"""(\b(?:proxy-)?(?:authorization|(?:set-)?cookie)\\*["']?\s{0,3}:\s{0,3}\\*["']?)"""
        r"""[^\s"'\\\[{][^\r\n"'\\]*""",
        re.I,
    ),
    _rule(r"\b(bearer\s{1,3})[\w.~+/=-]{6,}", re.I),
    _rule(r"()(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _rule(r"()(?<![\w-])eyJ[\w-]{8,}\.[\w.~-]+"),
    _rule(r"()\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk_live_|sk-)[\w-]{16,}"),
    # By name comes after by shape: it takes one word, and what follows must be masked by then.
    _rule(rf"""({_NAME}[\w.-]{{0,40}}\\*["']?\s{{0,3}}[:=]\s{{0,3}}){_VALUE}""", re.I),
    _rule(rf"(<[\w:.-]{{0,40}}?{_NAME}[\w:.-]{{0,40}}>)[^<]+", re.I),
    _rule(rf"(--[\w-]{{0,40}}?{_NAME}[\w-]{{0,40}}\s)\S+", re.I),
)


# A text in which none of these stands, whatever its case, is what none of the rules looks for.
# Nearly every text is such a one, and asking costs a tenth of looking.
_SIGNS = (
    "password", "passwd", "passphrase", "secret", "token", "authorization",
    "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key",
    "privatekey", "private_key", "private-key", "signature", "cookie", "credential",
    "-----begin", "bearer", "akia", "asia", "abia", "acca", "eyj",
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "sk_live_", "sk-",
)  # fmt: skip
# And an @ that may end credentials: nothing between it and the scheme ends an authority.
_CREDENTIALS = _rule(r"""://[^\s/"'<>]*@""")


def is_harmless(text: str) -> bool:
    """Is there nothing in it that looks like a secret, whatever name it is kept under?"""
    plain = text.casefold()
    for sign in _SIGNS:
        if sign in plain:
            return False
    return "@" not in plain or _CREDENTIALS.search(plain) is None


class Masker:
    """The masking hook of a pipeline. `extra` sees every text after the rules above."""

    def __init__(self, extra: Callable[[str], str] | None = None) -> None:
        self._extra = extra

    def text(self, text: str) -> str:
        """The text without its secrets. Never raises: if `extra` does, nothing of it is shown."""
        if not is_harmless(text):
            for rule in _RULES:
                text = rule.sub(rf"\1{MASK}", text)
        if self._extra is None:
            return text
        try:
            return str(self._extra(text))
        except Exception as error:
            return f"{MASK} (the pipeline's mask raised {type(error).__name__})"

    def mask(self, value: object, depth: int = DEPTH) -> object:
        """The value as plain JSON types, without its secrets. Never raises."""
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, bytes | bytearray):
            return self.preview(bytes(value))
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            if depth == 0:
                return "…"
            if isinstance(value, Mapping):
                return self._mapping(cast("Mapping[object, object]", value), depth - 1)
            return self._items(cast("Iterable[object]", value), depth - 1)
        return self._short(_words(value))

    def preview(self, data: bytes, limit: int = 512) -> str:
        """The beginning of a payload: masked, printable, at most `limit` characters."""
        window = data[: limit + 4 * MARGIN]
        text = _decoded(window)
        if text is None:
            return _binary(data)[:limit]
        text = self.text(text)
        cut = len(window) < len(data)
        if cut:
            text = text[:-MARGIN]
        text = printable(text)
        if not cut and len(text) <= limit:
            return text
        end = f"… ({len(data)} bytes)"
        return (text[: max(0, limit - len(end))] + end)[:limit]

    def _short(self, text: str) -> str:
        if len(text) <= LENGTH:
            return self.text(text)
        return self.text(text[: LENGTH + MARGIN])[:LENGTH] + "…"

    def _mapping(self, value: Mapping[object, object], depth: int) -> dict[str, object]:
        masked: dict[str, object] = {}
        for count, (key, item) in enumerate(value.items()):
            if count == ITEMS:
                masked["…"] = len(value) - ITEMS
                break
            name = self._short(_words(key))
            # That a secret is not set is worth knowing, and none of its value.
            hidden = item is not None and is_secret(name)
            masked[name] = MASK if hidden else self.mask(item, depth)
        return masked

    def _items(self, value: Iterable[object], depth: int) -> list[object]:
        masked: list[object] = []
        for count, item in enumerate(value):
            if count == ITEMS:
                masked.append("…")
                break
            masked.append(self.mask(item, depth))
        return masked


_DEFAULT = Masker()
mask = _DEFAULT.mask
mask_text = _DEFAULT.text
preview = _DEFAULT.preview


def mask_url(url: str) -> str:
    """A string that is nothing but a DSN, however odd its password is."""
    head, slashes, rest = url.partition("://")
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return mask_text(f"{head}{slashes}{user}:{MASK}@{place}" if at and colon else url)


@lru_cache(1024)
def mask_uri(uri: str) -> str:
    """The uri of an object, without the password and the signatures that it may carry."""
    bare, mark, query = uri.partition("?")
    if mark:
        query = re.sub(r"([^&=#]+)=([^&#]+)", _masked_parameter, query)
    return mask_text(bare + mark + query)


def _masked_parameter(found: re.Match[str]) -> str:
    return f"{found[1]}={MASK}" if is_secret(found[1]) else found[0]


@lru_cache(4096)
def is_secret(name: str) -> bool:
    """Is what is kept under this name a secret?"""
    if _SECRET_NAME.search(name):
        return True
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


def _words(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _decoded(window: bytes) -> str | None:
    """The bytes as text, or None when they are not text: then nothing could be masked in them."""
    if window.startswith((b"\xff\xfe", b"\xfe\xff")):
        return window.decode("utf-16", "replace")
    if b"\0" in window:
        return None
    return window.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "backslashreplace")


def _binary(data: bytes) -> str:
    return f"binary, {len(data)} bytes, beginning with {data[:8].hex(' ')}"


def printable(text: str) -> str:
    """Control characters would let a payload write to the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )

"""Glob patterns over relative paths: `*` stays within a folder, `**` crosses folders.

`fnmatch` lets `*` cross a slash, and `glob.translate` is younger than the oldest Python we support.
"""

from __future__ import annotations

import re

from headgate.errors import PipelineError

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for `fullmatch` on a path relative to the root."""
    if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
        raise PipelineError(
            f"pattern {pattern!r} does not name files inside the folder",
            hint='Write it relative to the folder, as in "*.csv" or "**/*.csv".',
        )
    if re.search(r"[^/]\*\*|\*\*[^/]", pattern):
        raise PipelineError(
            f"pattern {pattern!r}: ** stands alone between slashes",
            hint='As in "**/*.csv" or "2024/**".',
        )
    return re.compile("".join(map(_translate, _TOKEN.findall(pattern))), re.DOTALL)


def depth_of(pattern: str) -> int | None:
    """How many folders deep a match can lie; None when the pattern does not say."""
    return None if "**" in pattern else pattern.count("/")


def _translate(token: str) -> str:
    match token:
        case "**/":
            return "(?:[^/]+/)*"
        case "**":
            return ".+"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _ if len(token) > 2 and token[0] == "[":
            negated = token[1] == "!"
            inside = token[2 if negated else 1 : -1].replace("\\", "\\\\").replace("[", "\\[")
            # "]" may only come first, where fnmatch takes it for itself too.
            inside = inside.replace("]", "\\]").replace("^", "\\^").replace("&&", "&\\&")
            return f"(?!/)[{'^' if negated else ''}{inside}]"
        case _:
            return re.escape(token)

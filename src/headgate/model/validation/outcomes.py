"""Outcomes: what the checks of one attempt said, and the failure that follows from it.

A validator may return, yield or raise. All of it becomes `Check` values, so that a reader of the
ledger, the metrics and the log see the same. Outcomes of one name are one check: their counts are
added, and the text that is kept does not depend on the order in which they came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import cache
from typing import Any, Literal, cast

from headgate.errors import Retryable, SchemaError
from headgate.model.facts import Check
from headgate.model.verdict import describe, line, reason_of

REASON = re.compile(r"[a-z][a-z0-9_]{0,62}")
RIGHT = "a check returns None, True, False or hg.Check, or yields them"
REFUSED = "validation"  # the reason of a check that gives none
MOST = 100
NAME_CHARACTERS = 200
TEXT_CHARACTERS = 500

Outcome = Literal["passed", "failed", "retried"]


class Outcomes:
    """What the checks of one attempt said, in the order in which they were declared.

    `clean` masks a text. `counted` has each declared check once: its name, and how it ended.
    Unless everything is to be told, checks that only passed, without a word, are not worth a line.
    """

    def __init__(self, clean: Callable[[str], str], *, everything: bool) -> None:
        self.counted: list[tuple[str, Outcome]] = []
        self._clean = clean
        self._tell = everything
        self._before: list[Check] = []
        self._now: dict[str, Check] = {}

    def take(self, declared: str, given: object) -> None:
        """Something that the check of this name gave. It may give several things, one by one."""
        if given is None or given is True:
            return  # a check that gave nothing has passed
        for check in outcomes_of(given, declared):
            name = declared if check.name == declared else self._bounded(check.name)
            told = self._cleaned(check, name)
            known = self._now.get(name)
            self._now[name] = told if known is None else together(known, told)
            if len(self._now) > MOST:
                raise TypeError(f"more than {MOST} checks; count rows by examined= and failed=")

    def ended(self, declared: str) -> list[Exception]:
        """The check of this name gave all it had; what that means for the object."""
        if not self._now:
            self._before.append(_passed(declared))
            self.counted.append((declared, "passed"))
            return []
        self._now = {name: _worded(check) for name, check in self._now.items()}
        failed = [check for check in self._now.values() if not check.passed]
        self._next(declared, "failed" if failed else "passed")
        return [SchemaError(f"{c.name}: {c.text}", reason=c.reason) for c in failed]

    def raised(self, declared: str, error: Exception) -> None:
        """The check of this name raised."""
        name = declared if declared not in self._now else f"{declared} raised"
        text = self._clean(describe(error))[:TEXT_CHARACTERS]
        self._now[name] = Check(name, False, reason=reason_of(error), text=text)
        self._next(declared, "retried" if isinstance(error, Retryable) else "failed")

    @property
    def said(self) -> list[Check]:
        """All of it."""
        return [*self._before, *self._now.values()]

    def told(self) -> list[dict[str, Any]] | None:
        """What the journal keeps: all of it, or nothing where there is nothing to tell."""
        return [as_dict(check) for check in self.said] if self._tell else None

    def _next(self, declared: str, outcome: Outcome) -> None:
        self._tell = self._tell or list(self._now.values()) != [_passed(declared)]
        self._before += self._now.values()
        self._now = {}
        self.counted.append((declared, outcome))

    def _cleaned(self, check: Check, name: str) -> Check:
        if check.passed and check.text is None:
            return check if check.name == name else replace(check, name=name)
        text = self._clean(line(check.text))[:TEXT_CHARACTERS] if check.text else None
        reason = None if check.passed else check.reason or REFUSED
        return replace(check, name=name, reason=reason, text=text)

    def _bounded(self, name: str) -> str:
        return self._clean(line(name))[:NAME_CHARACTERS]


@cache
def _passed(declared: str) -> Check:
    return Check(declared, True)


def outcomes_of(given: object, name: str) -> Iterator[Check]:
    """The outcomes in what the check of this name returned or yielded."""
    if given is None or _is_bool(given):
        passed = given is None or bool(given)
        yield Check(name, passed)
    elif isinstance(given, Check):
        _must_be_sound(given)
        yield given
    elif isinstance(given, list | tuple | Iterator):
        for one in cast("Iterable[object]", given):
            if isinstance(one, list | tuple | Iterator):
                raise TypeError(f"it gave lists in a list; {RIGHT}")
            yield from outcomes_of(one, name)
    else:
        raise TypeError(f"it gave a {type(given).__name__}; {RIGHT}")


def together(one: Check, other: Check) -> Check:
    """Two outcomes of one name as one. Which came first does not matter."""
    failing = [check for check in (one, other) if not check.passed]
    worst = min(failing, key=lambda check: (check.reason or "", check.text or ""), default=one)
    return replace(
        worst,
        examined=_sum(one.examined, other.examined),
        failed=_sum(one.failed, other.failed),
    )


def verdict_of(failures: list[Exception]) -> Exception:
    """Which of these an attempt ends with: the first that trying again cannot help."""
    return next((error for error in failures if not isinstance(error, Retryable)), failures[0])


def as_dict(check: Check) -> dict[str, Any]:
    """A check as the journal keeps it, without what it does not say."""
    plain = {name: value for name, value in asdict(check).items() if value is not None}
    if check.kind == "python":
        del plain["kind"]
    return plain


def _is_bool(given: object) -> bool:
    # What pandas says of a whole column is numpy's, and no bool.
    kind = type(given)
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def _must_be_sound(check: Check) -> None:
    for what in ("name", "kind", "reason", "text"):
        said = getattr(check, what)
        if not isinstance(said, str) and not (said is None and what in ("reason", "text")):
            raise TypeError(f"hg.Check({check.name!r}): {what}={said!r} is no text")
    if check.reason is not None and not REASON.fullmatch(check.reason):
        right = 'lower-case letters, digits and _, as in "out_of_range"'
        raise TypeError(f"hg.Check({check.name!r}): reason={check.reason!r}; use {right}")
    if not _is_bool(check.passed):
        raise TypeError(f"hg.Check({check.name!r}): passed={check.passed!r}; use True or False")
    for what in ("examined", "failed"):
        counted = getattr(check, what)
        if counted is not None and (type(counted) is not int or counted < 0):
            raise TypeError(f"hg.Check({check.name!r}): {what}={counted!r}; count from 0")


def _worded(check: Check) -> Check:
    """A check that failed has a text, once all that it counted is known."""
    if check.passed or check.text:
        return check
    total = "" if check.examined is None else f" of {check.examined}"
    text = "it said no" if check.failed is None else f"{check.failed}{total} failed"
    return replace(check, text=text)


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other

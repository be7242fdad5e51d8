"""The path of a handler, line by line, with what each line made; and where two paths part.

It is slow, so it is walked only after a difference was seen. A step is told when the next line
begins, so that what changed belongs to the line that changed it. Values are told in words that are
the same in every world: no addresses, sets in order, scratch folders by name.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from .scene import Line, Log, Scene, aside, owner
from .telling import Telling

STEPS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first line whose result differs, and what it made on either side.

    `name` is the variable; None for what was given back or for the way taken.
    """

    file: str
    line: int
    code: str
    name: str | None
    left: str
    right: str
    handler: str = ""
    uri: str = ""


class Tracer:
    """Writes the path of every handler of this process to a file."""

    def __init__(self, path: Path, log: Log, folders: Sequence[Path]) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._log = log
        self._telling = Telling(folders)
        self._globals: dict[CodeType, list[str]] = {}

    @contextmanager
    def following(self, scene: Scene) -> Generator[None]:
        """In this block, on this thread, the user's lines are followed."""
        walk = _walk_of(scene)
        before = sys.gettrace()

        def enter(frame: FrameType, event: str, arg: object) -> Any:
            if owner(frame.f_code.co_filename) != "user" or len(walk) > STEPS_MAX:
                return None
            self._given(frame, walk)
            return _Steps(frame, self, walk).step

        sys.settrace(enter)
        try:
            yield
        finally:
            sys.settrace(before)
            self._write(scene, walk)

    def _given(self, frame: FrameType, walk: list[list[Any]]) -> None:
        """What a function was called with was made by the line that calls it."""
        caller, code = frame.f_back, frame.f_code
        fresh = frame.f_lineno == code.co_firstlineno  # and not a generator that goes on
        if caller is None or not fresh or owner(caller.f_code.co_filename) != "user":
            return
        with aside():
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            given = [
                [name, self.value(frame.f_locals[name])]
                for name in names
                if name in frame.f_locals and not name.startswith(".")
            ]
            if given:
                walk.append([*self.place(caller, caller.f_lineno), given])

    def _write(self, scene: Scene, walk: list[list[Any]]) -> None:
        with aside():
            head = {
                "uri": self._telling.text(scene.uri or ""),
                "handler": scene.handler,
                "attempt": scene.attempt,
                "call": scene.number,
            }
            lines = [json.dumps(head | {"step": step}) for step in walk]
            os.write(self._fd, "".join(f"{line}\n" for line in lines).encode())
        walk.clear()

    def state(self, frame: FrameType) -> dict[str, str]:
        """What the frame can see and may change: its locals, and globals that hold plain values."""
        code = frame.f_code
        if code not in self._globals:
            self._globals[code] = [n for n in code.co_names if n in frame.f_globals]
        seen = {name: self._telling.value(v) for name, v in list(frame.f_locals.items())}
        for name in self._globals[code]:
            value = frame.f_globals.get(name)
            if not (inspect.ismodule(value) or callable(value)):
                seen[f"global {name}"] = self._telling.value(value)
        return seen

    def value(self, value: object) -> str:
        return self._telling.value(value)

    def place(self, frame: FrameType, line: int) -> Line:
        return self._log.line(frame.f_code.co_filename, line)


def _walk_of(scene: Scene) -> list[list[Any]]:
    return scene.kept.setdefault("walk", [])


class _Steps:
    """The lines of one frame, from where it was entered or resumed."""

    def __init__(self, frame: FrameType, tracer: Tracer, walk: list[list[Any]]) -> None:
        self._tracer = tracer
        self._walk = walk
        self._line = frame.f_lineno
        with aside():
            self._state = tracer.state(frame)

    def step(self, frame: FrameType, event: str, arg: object) -> Any:
        if len(self._walk) > STEPS_MAX:
            return None
        with aside():
            made = self._made(frame)
            if event == "return":
                made.append([None, self._tracer.value(arg)])
            place = self._tracer.place(frame, self._line)
            self._walk.append([*place, made])
        self._line = frame.f_lineno
        return self.step

    def _made(self, frame: FrameType) -> list[list[Any]]:
        before, self._state = self._state, self._tracer.state(frame)
        return [[n, v] for n, v in self._state.items() if before.get(n) != v]


def first_difference(left: Path, right: Path) -> Divergence | None:
    """Where two worlds' paths first part, for the same sample in the same handler."""
    ours, theirs = _walks(left), _walks(right)
    for key, walk in ours.items():
        if key in theirs and (found := _part(walk, theirs[key])) is not None:
            uri, handler = key
            file, line, code, name, one, other = found
            return Divergence(file, line, code, name, one, other, handler, uri)
    return None


_SENDS = re.compile(r"\.(?:execute|executemany|later|fetch|fetchrow|fetchval)\(")


def sending_lines(path: Path) -> set[tuple[str, int, str]]:
    """The lines on the way of any handler that send SQL."""
    steps = (step for walk in _walks(path).values() for step in walk)
    return {(step[0], step[1], step[2]) for step in steps if _SENDS.search(step[2])}


Walk = list[list[Any]]


def _walks(path: Path) -> dict[tuple[str, str], Walk]:
    """The last walk of each handler over each sample: earlier ones may have been cut short."""
    latest: dict[tuple[str, str], tuple[object, Walk]] = {}
    for told in _lines(path):
        key, call = (told["uri"], told["handler"]), (told["attempt"], told["call"])
        if key not in latest or latest[key][0] != call:
            latest[key] = (call, [])
        latest[key][1].append(told["step"])
    return {key: walk for key, (_, walk) in latest.items()}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:  # a kill in the middle of a write
                return


def _part(left: Walk, right: Walk) -> tuple[str, int, str, str | None, str, str] | None:
    last: list[Any] | None = None
    for one, other in zip(left, right, strict=False):
        if one[:2] != other[:2]:
            return _fork(last, one, other)
        if (differs := _differing(one[3], other[3])) is not None:
            name, a, b = differs
            return one[0], one[1], one[2], name, a, b
        last = one
    if len(left) != len(right) and last is not None:
        longer = left if len(left) > len(right) else right
        onward = longer[min(len(left), len(right))]
        return _fork(last, *((onward, None) if longer is left else (None, onward)))
    return None


def _fork(
    last: list[Any] | None, one: list[Any] | None, other: list[Any] | None
) -> tuple[str, int, str, str | None, str, str]:
    """The way parted after `last`: it decided, whatever it made."""
    at = last or one or other
    assert at is not None, "two walks part somewhere"

    def said(step: list[Any] | None) -> str:
        return "the end" if step is None else f"on to line {step[1]}"

    return at[0], at[1], at[2], None, said(one), said(other)


def _differing(left: Iterable[Any], right: Iterable[Any]) -> tuple[str | None, str, str] | None:
    ours, theirs = dict(map(tuple, left)), dict(map(tuple, right))
    # What was given back comes last: a variable says more.
    for name in sorted({*ours, *theirs}, key=lambda n: (n is None, str(n))):
        one, other = ours.get(name, "unchanged"), theirs.get(name, "unchanged")
        if one != other:
            return name, one, other
    return None

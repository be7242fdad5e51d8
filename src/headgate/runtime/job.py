"""What a child process is started with, and what it says to its supervisor.

The job travels as JSON by an inherited file, or in an environment variable: not in `ps`, where a
database URL would be seen.
Messages come back over an inherited pipe, one JSON document per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from .ledger_home import Ledger
from .tuning import Tuning

VARIABLE = "HEADGATE_CHILD_JOB"

# How a child ends that found the ledger away: it is worth starting another one.
LEDGER_AWAY = 75

Kind = Literal["check", "watch", "work", "serve", "project"]

# Where a child's main is. `serve` is a surface above the runtime: it is named, not imported.
MODULES: dict[Kind, str] = {
    "check": "headgate.runtime.child",
    "watch": "headgate.runtime.child",
    "work": "headgate.runtime.child",
    "serve": "headgate.server.child",
    "project": "headgate.runtime.child",
}


@dataclass(frozen=True, slots=True)
class Job:
    """One child's task."""

    kind: Kind
    targets: tuple[str, ...]  # files with user code; none for a child without
    ledger: Ledger
    tuning: Tuning
    control: int
    life: int
    marker: int = -1
    slots: int = 0
    name: str = ""
    log: tuple[str, str] = ("auto", "info")
    crash_at: str = ""
    pipelines: tuple[str, ...] = ()  # by name, for a child without user code

    def text(self) -> str:
        """The job as it travels."""
        document = asdict(self) | {"ledger": asdict(self.ledger) | {"home": str(self.ledger.home)}}
        return orjson.dumps(document).decode()

    @classmethod
    def parse(cls, text: str | bytes) -> Job:
        given: dict[str, Any] = orjson.loads(text)
        ledger: dict[str, Any] = given.pop("ledger")
        ledger["home"] = Path(ledger["home"])
        given["targets"] = tuple(given["targets"])
        given["pipelines"] = tuple(given["pipelines"])
        given["log"] = tuple(given["log"])
        tuning = Tuning(**given.pop("tuning"))
        return cls(**given, ledger=Ledger(**ledger), tuning=tuning)

    def descriptors(self) -> dict[str, int]:
        """The open files that it names."""
        named = {"control": self.control, "life": self.life, "marker": self.marker}
        return {name: fd for name, fd in named.items() if fd >= 0}

    def holding(self, fds: Sequence[int]) -> Job:
        """The same job where these are its open files, which have other numbers elsewhere."""
        return replace(self, **dict(zip(self.descriptors(), fds, strict=True)))


@dataclass(frozen=True, slots=True)
class Message:
    """What a child tells: exactly one of these is set, and with `quiet` what fails, if any.

    `lag` is why files beside the data wait; empty when nothing is in their way.
    """

    worker: int | None = None
    quiet: bool | None = None
    failing: str | None = None
    lag: str | None = None
    signals: str | None = None
    spans: str | None = None
    pipelines: list[dict[str, Any]] | None = None
    fatal: dict[str, str] | None = None

    def line(self) -> bytes:
        said = {k: v for k, v in asdict(self).items() if v is not None}
        return orjson.dumps(said) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Message:
        return cls(**orjson.loads(line))


@dataclass(slots=True)
class Lines:
    """Bytes from a pipe, cut into messages."""

    _rest: bytes = field(default=b"")

    def feed(self, data: bytes) -> list[Message]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [Message.parse(line) for line in whole if line]

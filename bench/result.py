"""What a go gives: rows beside the bare loop, figures by themselves, and the machine's facts."""

from __future__ import annotations

import json
import os
import platform
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .floors import CEILINGS, FLOORS

LATEST = Path(__file__).with_name("latest.json")


@dataclass(frozen=True, slots=True)
class Row:
    """A workload's median over the repetitions, as a share of the bare loop around it."""

    system: str
    workload: str
    events_per_s: float
    ratio: float
    lost: int
    double: int
    events: int
    repetitions: int
    lowest_ratio: float
    highest_ratio: float
    how: str

    @property
    def is_valid(self) -> bool:
        return self.lost == 0 and self.double == 0

    @property
    def floor(self) -> float | None:
        return FLOORS.get(self.workload) if self.system == "headgate" else None


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that is not a share of the bare loop."""

    name: str
    value: float
    unit: str
    how: str

    @property
    def ceiling(self) -> float | None:
        limit = CEILINGS.get(self.name)
        return limit[0] if limit else None


@dataclass(frozen=True, slots=True)
class Result:
    machine: dict[str, Any]
    rows: list[Row]
    figures: list[Figure]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Result:
        kept = json.loads(path.read_text())
        rows = [Row(**row) for row in kept["rows"]]
        return cls(kept["machine"], rows, [Figure(**figure) for figure in kept["figures"]])


def _built() -> str:
    """Where CPython was built by a plain `configure`, everything takes a third longer."""
    asked = sysconfig.get_config_var("CONFIG_ARGS") or ""
    plain = "--enable-optimizations" not in asked and sysconfig.get_config_var("PGO_PROF_USE_FLAG")
    return " built without optimizations" if plain else ""


def machine(server: dict[str, str], filesystem: str) -> dict[str, Any]:
    """What the figures were made on. No names."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "filesystem": filesystem,
        "python": f"{platform.python_version()}{_built()}",
        "postgres": server,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())

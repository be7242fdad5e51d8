"""Copies of what a pipeline lives among: its folder, and the samples.

Every world gets a copy of its own, so the folder has to be small. What belongs to tools, and what
Headgate keeps itself, is left out.
"""

from __future__ import annotations

import fnmatch
import mimetypes
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headgate.errors import UsageError
from headgate.sources.walk import uri_of

MOST_BYTES, MOST_FILES = 64 << 20, 5000
_TOOLS = frozenset({
    ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".headgate", ".idea", ".vscode",
})  # fmt: skip
# What a virtual environment, a store and a home of Headgate's have in them.
_MARKS = ("pyvenv.cfg", "staging/sha256", "postgres/keeper.lock")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample as its pipeline is told about it."""

    uri: str
    path: str
    event_time: str
    size: int
    media: str | None


class _TooMuch(Exception):
    pass


def copy_around(file: Path, to: Path, skip: Collection[str]) -> Path:
    """Copy the folder that the pipeline is run in: the current one, or else that of its file."""
    here = Path.cwd().resolve()
    folder = file.parent
    for root in [here, folder] if folder.is_relative_to(here) else [folder]:
        try:
            chosen = list(_chosen(root, skip))
        except _TooMuch as too_much:
            if root != folder:
                continue
            raise UsageError(
                f"{folder} holds too much to be copied for every world: {too_much}",
                hint="Put the pipeline into a folder of its own, or leave out: --skip 'data/*'",
            ) from None
        for path in chosen:
            (to / path.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, to / path)
        to.mkdir(exist_ok=True)
        return root
    raise AssertionError("the last root is copied or refused")


def _chosen(root: Path, skip: Collection[str]) -> Iterator[Path]:
    size = count = 0
    for at, folders, names in os.walk(root):
        below = Path(at).relative_to(root)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _TOOLS
            and not any(Path(at, name, mark).exists() for mark in _MARKS)
            and not _skipped(below / name, skip)
        )
        for name in sorted(names):
            path = Path(at, name)
            if name.endswith(".pyc") or _skipped(below / name, skip) or not path.is_file():
                continue
            size, count = size + path.stat().st_size, count + 1
            if size > MOST_BYTES or count > MOST_FILES:
                limit = f"{MOST_BYTES >> 20} MB" if size > MOST_BYTES else f"{MOST_FILES:,} files"
                raise _TooMuch(f"more than {limit}")
            yield below / name


def _skipped(path: Path, skip: Collection[str]) -> bool:
    return any(fnmatch.fnmatch(str(path), pattern.rstrip("/")) for pattern in skip)


def copy_samples(samples: Sequence[Path], to: Path) -> list[dict[str, Any]]:
    """Copies of the samples, and what is told of them."""
    to.mkdir(parents=True)
    told: list[dict[str, Any]] = []
    times: set[datetime] = set()
    for number, sample in enumerate(samples):
        copy = to / str(number)
        shutil.copyfile(sample, copy)
        changed = sample.stat().st_mtime_ns // 1000
        at = _EPOCH + timedelta(microseconds=changed)
        while at in times:  # of two events at one time the later entry counts: a matter of order
            at += timedelta(microseconds=1)
        times.add(at)
        media = mimetypes.MimeTypes().guess_type(sample.name)[0]
        size = copy.stat().st_size
        told.append(asdict(Sample(uri_of(str(sample)), str(copy), at.isoformat(), size, media)))
    return told

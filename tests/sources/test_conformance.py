"""The folder passes the suite that every polled source passes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.sources import Directory
from headgate.testing.sources import SourceConformance, World


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.source = Directory(path, settle="1s")
        self._ticks = 0

    def put(self, name: str, content: bytes) -> str:
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        # Finished a while ago, each a moment after the one before it.
        self._ticks += 1
        written = 1_700_000_000_000_000_000 + self._ticks * 1000
        os.utime(file, ns=(written, written))
        return file.as_uri()

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=60)

    @contextmanager
    def outage(self) -> Iterator[None]:
        away = self.path.rename(self.path.with_name("away"))
        yield
        away.rename(self.path)


class TestDirectory(SourceConformance):
    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return Folder(tmp_path / "in coming")

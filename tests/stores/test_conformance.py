"""The store in a folder passes the suite that every store passes."""

from pathlib import Path

import pytest

from headgate.model.ports import Store
from headgate.stores import FileStore
from headgate.testing.stores import StoreConformance


class TestFileStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FileStore(tmp_path / "a lake")

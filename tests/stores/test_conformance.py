"""The stores that come with Headgate pass the suite that every store passes."""

from pathlib import Path

import pytest
from tests.aws.emulator import Aws
from tests.stores.clouds import cloud_store

from headgate.model.ports import Store
from headgate.stores import FileStore
from headgate.testing.stores import StoreConformance


class TestFileStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FileStore(tmp_path / "a lake")


class TestS3(StoreConformance):
    opener = "tests.stores.clouds:open_cloud"
    large_mib = 96
    memory_mib = 90  # botocore and four parts of 8 MiB on their way

    @pytest.fixture
    def store(self, aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
        return cloud_store(f"s3://{aws.bucket()}/a lake", tmp_path / "cache", monkeypatch)

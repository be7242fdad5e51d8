"""Stores in clouds that run on this machine, and how another process opens them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.stores import Local
from headgate.stores.cloud import CloudStore

CACHE = "TEST_CLOUD_CACHE"


def open_cloud(uri: str) -> CloudStore:
    """The store, with its copies in the folder that the environment names."""
    return CloudStore(uri, Local(os.environ[CACHE]))


def cloud_store(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> CloudStore:
    """The store, with its copies in `folder`, here and in processes that are started from here."""
    monkeypatch.setenv(CACHE, str(folder))
    return open_cloud(uri)

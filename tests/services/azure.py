"""Azure's blob storage, as azurite speaks it, passes the suite that every store passes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.servers import azure, make_container
from tests.stores.clouds import cloud_store

from headgate.errors import ObjectChanged, ObjectMissing, StoreUnavailable
from headgate.model.ports import Store
from headgate.net.objects import objects_at
from headgate.testing.expect import raised
from headgate.testing.stores import StoreConformance, keep

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with azure(tmp_path_factory.mktemp("azurite")) as env:
        yield env


@pytest.fixture
def store(server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    name = f"lake-{next(_NUMBERS)}"
    make_container(server, name)
    for variable, value in server.items():
        monkeypatch.setenv(variable, value)
    return cloud_store(f"az://{name}/a lake", tmp_path / "cache", monkeypatch)


class TestAzure(StoreConformance):
    opener = "tests.stores.clouds:open_cloud"
    large_mib = 96
    memory_mib = 90


def test_a_container_is_listed_and_read(store: Store) -> None:
    """Sources read it: keys under a prefix, a pinned etag, what is missing."""
    digest = keep(store, b"rain")
    container = store.uri.split("/")[2]
    objects = objects_at(f"az://{container}")
    ((one,),) = (page for page in objects.pages("a lake/sta") if page)
    assert one.key.endswith(digest.hex())
    assert one.size == 4
    assert b"".join(objects.read(one.key, etag=one.etag)) == b"rain"
    raised(ObjectChanged, lambda: list(objects.read(one.key, etag='"0x1"')))
    raised(ObjectMissing, lambda: list(objects.read("nope")))
    assert [page for page in objects.pages("none/") if page] == []


def test_refusals_are_told_apart(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such container, and a wrong key, each by its name; the key is not repeated."""
    cache = Path(store.spool().path).parents[2]
    other = cloud_store("az://no-such-container", cache, monkeypatch)
    assert raised(StoreUnavailable, lambda: other.has(bytes(32))).reason == "no_such_bucket"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "aHVzaGh1c2hodXNo")
    wrong = cloud_store(store.uri, cache, monkeypatch)
    error = raised(StoreUnavailable, lambda: keep(wrong, b"x"))
    assert error.reason in ("credentials", "permission")
    assert "aHVzaGh1c2hodXNo" not in f"{error} {error!r} {wrong!r}"

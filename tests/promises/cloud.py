"""A pipeline whose store is a bucket keeps the promises it keeps with a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.aws.emulator import Aws
from tests.net.faults import faults, refusal
from tests.world import World, change

import headgate as hg
from headgate.stores import open_store


@pytest.fixture
def lake(aws: Aws, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A store in a bucket; copies stay within the test's folder."""
    # What looks without being told where copies are (the audit) looks under the home folder.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    world.tuning = replace(world.tuning, cache_folder=str(tmp_path / "cache"))
    return f"s3://{aws.bucket()}/lake"


async def test_an_object_is_archived_and_read(world: World, lake: str) -> None:
    """Bytes arrive from a folder, handlers read them, artifacts are there; the audit is clean."""
    p = world.pipeline(sources=[world.directory()], store=lake)
    seen: list[bytes] = []

    @p.transform
    def shout(obj: hg.Object) -> dict[str, bytes]:
        return {"loud": obj.read().upper()}

    @p.apply
    async def look(tx: hg.Transaction, obj: hg.Object) -> None:
        seen.append(obj.path().read_bytes())

    world.put("a.txt", "rain")
    await world.run(p)
    assert seen == [b"rain"]
    store = open_store(lake, world.tuning.local)
    assert {store.path(digest).read_bytes() for digest in store.digests()} == {b"rain", b"RAIN"}


async def test_a_bucket_that_is_away_delays_and_loses_nothing(
    world: World, lake: str, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket refuses for a while. The entry waits, is tried again, and has one effect."""
    with faults(aws.endpoint) as proxy, monkeypatch.context() as here:
        here.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        refused = [(403, refusal("AccessDenied"))] * 2
        proxy.rule = lambda method, path: refused.pop() if method == "PUT" and refused else None
        p = world.pipeline(store=lake)

        @p.transform
        def shout(obj: hg.Object) -> dict[str, bytes]:
            return {"loud": obj.read().upper()}

        await world.receive(p, change("a", b"rain"))
        await world.run(p)
        assert not refused
        assert await world.outcomes() == {"waiting:permission": 2, "finalized": 1}
        store = open_store(lake, world.tuning.local)
        assert {store.path(digest).read_bytes() for digest in store.digests()} >= {b"RAIN"}

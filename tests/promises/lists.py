"""Buckets that are polled and manifests that are followed, through to their effects."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from tests.aws.emulator import Aws
from tests.world import World, until

import headgate as hg


def counting(world: World, source: hg.Prefix | hg.Manifest, **declared: Any) -> hg.Pipeline:
    """A pipeline that writes down each object it saw, once per attempt that counted."""
    p = world.pipeline(sources=[source], **declared)

    @p.apply
    async def note(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute("INSERT INTO seen VALUES ($1)", obj.text())

    return p


async def seen(world: World) -> list[str]:
    return [text for (text,) in await world.rows("SELECT what FROM seen ORDER BY what")]


async def test_a_bucket_is_polled_and_each_version_has_one_effect(world: World, aws: Aws) -> None:
    """Two watchers look at once; an upload of the same bytes is no news, one of others is."""
    await world.db.execute("CREATE TABLE seen (what text)")
    name, s3 = aws.bucket("raw"), aws.client("s3")
    for key in ("in/a b.txt", "in/ü.txt", "elsewhere.txt"):
        s3.put_object(Bucket=name, Key=key, Body=key.encode())
    p = counting(world, hg.Prefix(f"s3://{name}/in/", every=0.2))
    await asyncio.gather(world.run(p), world.run(p))
    assert await seen(world) == ["in/a b.txt", "in/ü.txt"]
    s3.put_object(Bucket=name, Key="in/a b.txt", Body=b"in/a b.txt")
    s3.put_object(Bucket=name, Key="in/\u00fc.txt", Body=b"new")
    await world.run(p)
    assert await seen(world) == ["in/a b.txt", "in/ü.txt", "new"]


async def test_a_manifest_that_runs_ahead_of_its_objects_ends_well(
    world: World, tmp_path: Path
) -> None:
    """The list is published first, the bytes a moment later: the first try fails, the next fits."""
    await world.db.execute("CREATE TABLE seen (what text)")
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "a.txt").write_bytes(b"old")
    row = {"path": "a.txt", "sha256": hashlib.sha256(b"new").hexdigest()}
    (lists / "list.json").write_text(json.dumps([row]))
    # Time enough for us to see the first try fail.
    again = hg.RetryPlan("upstream-event", 8, 60, 1, 1, "equal")
    p = counting(world, hg.Manifest(lists / "list.json", every=0.1), retry=again)
    running = asyncio.create_task(world.run(p))
    await until(
        lambda: world.val("SELECT count(*) FROM headgate.journal WHERE outcome = 'waiting'")
    )
    (lists / "a.txt").write_bytes(b"new")
    await running
    assert await seen(world) == ["new"]

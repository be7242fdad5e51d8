"""Damage that takes more than a statement: to bytes, to anchors, to lines with their hashes."""

from __future__ import annotations

from pathlib import Path

import orjson
from tests.verify.world import World

from headgate.ledger import journal
from headgate.model.entry import Status


def object_file(world: World, digest: bytes) -> Path:
    return world.lake / "staging" / "sha256" / digest.hex()[:2] / digest.hex()


async def artifact_file(world: World, name: str) -> Path:
    text = await world.db.fetchval(
        "SELECT artifacts ->> 0 FROM headgate.publication WHERE entry = $1", world.entry(name)
    )
    path = object_file(world, bytes.fromhex(orjson.loads(text)["digest"]))
    path.chmod(0o600)
    return path


async def rewrite_a_line_and_its_hash(world: World) -> None:
    row = await world.db.fetchrow(
        "SELECT * FROM headgate.journal WHERE entry = $1", world.entry("c2")
    )
    assert row is not None
    line = journal.Line(
        row["entry"],
        row["fence"],
        Status.SKIPPED,
        1,
        row["worker"],
        "stale",
        row["steps"],
        row["doc"],
    )
    await world.db.execute(
        "UPDATE headgate.journal SET reason = 'stale', hash = $2 WHERE entry = $1",
        world.entry("c2"),
        line.hash(),
    )


async def finalize_again(world: World) -> None:
    p = await world.db.fetchrow(
        "SELECT * FROM headgate.publication WHERE entry = $1", world.entry("b1")
    )
    assert p is not None
    artifacts = orjson.dumps(
        [
            {k: a[k] for k in ("name", "digest", "size", "media_type")}
            for a in orjson.loads(p["artifacts"])
        ]
    )
    shown = journal.published(p["content"], p["effect"], artifacts.decode(), False)
    steps = "claimed:0 fetched:1 validated:1 staged:1 promoted:1 finalized:1"
    async with world.db.transaction() as link:
        line = journal.Line(p["entry"], 2, Status.FINALIZED, 2, 1, None, steps, None, shown)
        await journal.seal(link, p["pipeline"], [line])


async def delete_an_artifact(world: World) -> None:
    (await artifact_file(world, "a2")).unlink()


async def cut_an_artifact(world: World) -> None:
    path = await artifact_file(world, "a2")
    path.write_bytes(path.read_bytes()[:-1])


async def flip_a_byte(world: World) -> None:
    path = await artifact_file(world, "a2")
    path.write_bytes(b"X" + path.read_bytes()[1:])


async def delete_quarantined_bytes(world: World) -> None:
    digest = await world.db.fetchval(
        "SELECT content FROM headgate.quarantine WHERE entry = $1", world.entry("bad1")
    )
    object_file(world, digest).unlink()


def anchor_file(world: World) -> Path:
    return next((world.lake / "ledger").glob("*.anchor.json"))


async def anchor_another_chain(world: World) -> None:
    said = orjson.loads(anchor_file(world).read_bytes())
    anchor_file(world).write_bytes(orjson.dumps({**said, "chain": "00" * 32}))


async def spoil_the_anchor(world: World) -> None:
    anchor_file(world).write_text("{")


async def delete_an_item_file(world: World) -> None:
    next((world.lake / "stac").glob("rain/*/a.csv*.json")).unlink()


async def retouch_provenance(world: World) -> None:
    file = world.lake / "prov" / f"{world.entry('a2')}-1.prov.jsonld"
    file.write_text(file.read_text().replace("finalized", "finalised"))


async def leave_a_file_behind(world: World) -> None:
    (world.lake / "runs" / "999-1").mkdir()
    (world.lake / "runs" / "999-1" / "qa.json").write_text("{}")

"""What runs beside the work: whatever it meets, it neither stops the work nor dies unseen."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import pytest
from tests.promises.processes import Place
from tests.world import World, change

import headgate as hg
from headgate.ledger import anchor
from headgate.model.ports import Known, Noticed, Scan
from headgate.pg import Database
from headgate.runtime.ledger_home import Ledger
from headgate.runtime.supervise import up
from headgate.runtime.sweep import Sweeper
from headgate.runtime.verify import verify
from headgate.runtime.watch import Watcher
from headgate.sources.walk import MAX_URI

OTHER = """
import headgate as hg

other = hg.Pipeline("other", sources=[hg.Directory("beside", settle=0, every=0.05)], store="lake")


@other.transform
def busy(obj):
    raise hg.Unavailable("not now", upstream="nobody")
"""


def name_of(length: int) -> str:
    """A name that Postgres cannot make shorter by compressing it."""
    return "".join(random.Random(length).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))


async def test_up_ends_with_the_error_of_what_runs_beside_it(world: World) -> None:
    """Nothing dies unseen: a fault beside the work stops `up`, which stops its processes."""
    (world.folder / "quiet.py").write_text('import headgate as hg\np = hg.Pipeline("p")\n')

    async def broken(db: Database) -> None:
        raise RuntimeError("broken beside the work")

    with pytest.raises(RuntimeError, match="beside the work"):
        await up(
            [str(world.folder / "quiet.py")],
            Ledger(world.url, world.folder / "home"),
            world.tuning,
            log_to=("json", "warning"),
            on_tick=broken,
        )
    assert await world.count("headgate.worker WHERE buried_at IS NULL") == 0


def test_an_anchor_that_cannot_be_read_does_not_stop_up(place: Place) -> None:
    """It is left for a person to look at: the log names the file, and so does `verify`."""
    place.put("plain-0")
    place.run()
    (file,) = (place.lake / "ledger").glob("*.anchor.json")

    async def audit() -> list[str]:
        async with await Database.open(place.url) as db:
            return [f"{v.code} {v.text}" for v in (await verify(db)).violations]

    for n, garbage in enumerate([b"{half a docu", b"[]", b'{"pos": "soon"}', b"\xff"], 1):
        file.write_bytes(garbage)
        place.put(f"plain-{n}")
        ran = place.up(tuning={"anchor_seconds": 0.05})
        ran.ends()
        assert place.finalized() == n + 1, garbage
        assert file.name in ran.said(), garbage
        assert file.read_bytes() == garbage
        (found,) = asyncio.run(audit())
        assert found.startswith("anchor_unreadable"), garbage
        assert str(place.lake) in found
    file.unlink()
    place.run()
    place.is_exact([f"plain-{n}" for n in range(5)])


async def test_a_store_that_is_away_does_not_keep_others_from_their_anchors(world: World) -> None:
    """Two stores, one of them unusable: the other one's anchor names the head all the same."""
    stores = [world.folder / name for name in ("a", "b", "c")]
    pipelines = [world.pipeline(store.name, store=str(store)) for store in stores]
    for p in pipelines:
        await world.receive(p, change(p.name))
    await world.run(*pipelines)
    before = [read_anchors(store) for store in stores]
    away = stores[1].rename(world.folder / "away")
    stores[1].write_text("a file where the store was")
    await world.receive(pipelines[0], change("again"))
    await world.work(pipelines[0])
    await Sweeper(world.db, world.tuning).anchor()
    head = await anchor.head(world.db)
    assert head is not None
    for n in (0, 2):
        assert read_anchors(stores[n]) == [head.document()] != before[n]
    stores[1].unlink()
    away.rename(stores[1])


def read_anchors(store: Path) -> list[bytes]:
    return [file.read_bytes() for file in (store / "ledger").glob("*.anchor.json")]


def test_until_idle_ends_although_another_pipeline_has_work(place: Place) -> None:
    """Work of a pipeline that this `up` does not run is told as what stays, not waited for."""
    (place.folder / "beside").mkdir()
    (place.folder / "beside" / "one").write_text("1")
    (place.folder / "other.py").write_text(OTHER)
    place.run(targets=["other.py"], tuning={"max_wait_seconds": 0})
    place.query("UPDATE headgate.work SET due_at = now()")
    place.put("plain-1")
    said = place.run()
    assert said["left"] == [["other", 1, 0, 0, 0]]
    assert place.finalized() == 1


async def test_a_notebook_too_ends_although_another_pipeline_has_work(world: World) -> None:
    """The same in one process: the other pipeline's entry is still there, and is shown."""
    p, other = world.pipeline("p"), world.pipeline("other")
    await world.receive(p, change("a", "1"))
    await world.receive(other, change("b", "1"))
    left = await world.run(p)
    assert [(r.pipeline, r.ready) for r in left] == [("other", 1)]
    assert await world.run(p, other) == []


async def test_a_notebook_that_runs_again_and_again_leaves_no_files_open(world: World) -> None:
    """A cell may be run a thousand times in one process: none of its runs keeps a descriptor."""
    p = world.pipeline()
    await world.run(p)
    async with AsyncExitStack() as pool:  # full from here on: what is opened later is not its
        for _ in range(world.CONNECTIONS):
            await pool.enter_async_context(world.db.connection())
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        await world.run(p)
    assert len(os.listdir("/dev/fd")) <= before


def test_a_path_that_is_too_long_does_not_stop_its_neighbours(place: Place) -> None:
    """Its uri fits no index: it is left out aloud, and everything around it is published."""
    folder = place.incoming
    while len(str(folder)) < MAX_URI - 260:
        folder = folder / name_of(240)
        folder.mkdir()
    (folder / "plain-deep").write_text("deep")
    inner = folder / name_of(254)
    inner.mkdir()
    for n in range(3):
        (inner / f"{name_of(200)}-{n}").write_text("too deep")
    place.put("plain-1", "plain-2")
    ran = place.up()
    ran.ends()
    place.is_exact(["plain-1", "plain-2", "plain-deep"])
    assert f"more than {MAX_URI} characters" in ran.said()


class Shelf(hg.Directory):
    """A folder that tells of one thing more: something whose uri no index can hold."""

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        scan = super().scan(known, now)
        long = Noticed(f"{self.uri}/{name_of(3500)}", "created", "1", "weak", now, 0)
        return Scan([long, *scan.changes], scan.unsettled)


async def test_a_change_the_ledger_refuses_does_not_hold_up_its_batch(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a source makes up, its other changes are admitted, and the refusal is told once."""
    p = world.pipeline()
    at = await world.register(p)
    for n in range(3):
        os.utime(world.put(f"{n}", f"{n}"), (1, 1))
    watcher = Watcher(world.db, at, Shelf(world.incoming, settle=0, every=0.05))
    assert await watcher.look() == 3
    assert not watcher.quiet.scanned
    world.put("3", "3")
    assert await watcher.look() == 1
    assert await watcher.look() == 0
    assert watcher.quiet.scanned
    assert await world.count("headgate.entry") == 4
    (said,) = [m for m in caplog.messages if "change refused" in m]
    assert "index row" in said

"""The source, the ledger and what is published, held against one another: what differs is found."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.aws.emulator import Aws
from tests.world import World, change

import headgate as hg
from headgate.errors import Unavailable, UsageError
from headgate.ledger import quarantine, revert
from headgate.model.entry import Point
from headgate.model.envelope import Envelope
from headgate.model.ports import Polled, Shown
from headgate.runtime.load import load
from headgate.runtime.reconcile import Fixed, Reconciled, fix, reconcile
from headgate.runtime.watch import Watcher


def copying(world: World, *sources: object) -> hg.Pipeline:
    """A pipeline whose only effect is a row for each object."""
    p = world.pipeline(sources=[*sources])

    @p.validate
    def good(obj: hg.Object) -> None:
        if obj.read().startswith(b"bad"):
            raise hg.Permanent("bad")

    return p


def found(result: Reconciled) -> dict[str, str]:
    """What was found, by the end of the uri."""
    return {f.uri.rpartition("/")[2]: f.finding for f in result.findings()}


def counted(result: Reconciled) -> dict[str, int]:
    return {state: n for state, n in result.counts.items() if n}


async def test_what_agrees_is_only_counted(world: World) -> None:
    """After a run nothing differs; a touched file was looked at again, and agrees too."""
    p = copying(world, world.directory())
    for n in range(5):
        world.put(f"f{n}", f"text {n}")
    await world.run(p)
    assert counted(await reconcile(world.db, p)) == {"agreed": 5}
    os.utime(world.incoming / "f0")
    assert found(await reconcile(world.db, p)) == {"f0": "drifted"}
    await world.run(p)
    assert counted(await reconcile(world.db, p)) == {"agreed": 5}


async def test_each_kind_of_difference_is_found_with_its_evidence(world: World) -> None:
    """A lost one, a changed one, a vanished one, and one that no source covers any more."""
    before = copying(world, world.directory())
    for name in ("a.csv", "b.csv", "c.csv", "d.txt"):
        world.put(name, f"text of {name}")
    await world.run(before)
    p = copying(world, world.directory(pattern="*.csv"))
    world.put("new.csv", "never told")
    world.put("b.csv", "other text than before")
    (world.incoming / "c.csv").unlink()
    result = await reconcile(world.db, p)
    wanted = {"new.csv": "missing", "b.csv": "drifted", "c.csv": "phantom", "d.txt": "orphan"}
    assert found(result) == wanted
    assert counted(result) == {"agreed": 1, **dict.fromkeys(wanted.values(), 1)}
    by_name = {f.uri.rpartition("/")[2]: f for f in result.findings()}
    assert by_name["b.csv"].by == "size"
    assert by_name["b.csv"].then != by_name["b.csv"].now
    assert by_name["c.csv"].version == 1
    assert "version 1" in by_name["c.csv"].why
    assert p.sources[0].name in by_name["d.txt"].why


async def test_fix_admits_the_missing_and_the_drifted_and_deletes_nothing(world: World) -> None:
    """They go the ordinary way, with the name of who wanted it; the next look finds the rest."""
    p = copying(world, world.directory())
    for name in ("a", "b", "gone"):
        world.put(name, f"text of {name}")
    await world.run(p)
    world.put("new", "new text")
    world.put("b", "text of b, changed")
    (world.incoming / "gone").unlink()
    result = await reconcile(world.db, p)
    assert await fix(world.db, result, because="events were lost") == Fixed(2)
    # The same list once more, as after a crash that nobody noticed: all of it is known.
    assert await fix(world.db, result, because="events were lost") == Fixed(0, 2)
    await world.work(p)
    assert found(await reconcile(world.db, p)) == {"gone": "phantom"}
    versions = {name.rpartition("/")[2]: n for name, (n, _) in (await world.heads()).items()}
    assert versions == {"a": 1, "b": 2, "gone": 1, "new": 1}
    actions = await world.rows("SELECT verb, because, count(*) FROM headgate.action GROUP BY 1, 2")
    assert actions == [("reconcile", "events were lost", 2)]


async def test_a_watcher_and_a_fix_never_admit_the_same_change_twice(world: World) -> None:
    """Both saw the same files; whoever is first has the number, in whatever order they come."""
    p = copying(world, world.directory())
    at = await world.register(p)
    for n in range(1500):
        (world.incoming / f"f{n}").touch()
    result = await reconcile(world.db, p)
    assert counted(result) == {"missing": 1500}
    (source,) = p.sources
    assert isinstance(source, Polled)
    fixed, first, second = await asyncio.gather(
        fix(world.db, result, because="race"),
        Watcher(world.db, at, source).look(),
        Watcher(world.db, at, source).look(),
    )
    assert fixed.admitted + first + second == 1500
    assert fixed.admitted + fixed.known == 1500
    assert await world.count("headgate.entry") == 1500
    assert counted(await reconcile(world.db, p)) == {"pending": 1500}


async def test_what_came_while_the_source_was_listed_is_no_difference(world: World) -> None:
    """A file that a watcher takes in, or sees changed, in the middle of a listing is left alone."""

    class Slow(hg.Directory):
        def everything(self, now: datetime) -> Iterator[Shown]:
            yield from list(super().everything(now))
            meanwhile.set()
            assert done.wait(20)

    meanwhile, done = threading.Event(), threading.Event()
    p = copying(world, world.directory())
    world.put("old", "1")
    await world.run(p)
    slow = copying(world, Slow(world.incoming, settle=0, name=p.sources[0].name))
    looking = asyncio.create_task(reconcile(world.db, slow))
    await asyncio.to_thread(meanwhile.wait, 20)
    world.put("new", "2")
    world.put("old", "1, changed")
    await world.run(p)
    done.set()
    assert found(await looking) == {}


async def test_what_a_person_decided_is_no_difference(world: World) -> None:
    """Discarded, reverted and held objects are counted, and no fix admits them again."""
    p = copying(world, world.directory())
    for name, text in (("bad", "bad"), ("worse", "bad"), ("back", "1"), ("away", "1")):
        world.put(name, text)
    await world.run(p)
    world.put("back", "2")
    await world.run(p)
    by_name = {
        uri.rpartition("/")[2]: entry
        for uri, entry in await world.rows(
            "SELECT uri, entry FROM headgate.publication WHERE successor IS NULL"
            " UNION ALL SELECT uri, id FROM headgate.entry e"
            " JOIN headgate.quarantine q ON q.entry = e.id"
        )
    }
    await quarantine.discard(world.db, [by_name["worse"]], because="a test file")
    for name in ("back", "away"):
        await revert.ask(world.db, by_name[name], because="it was wrong")
    await world.work(p)
    result = await reconcile(world.db, p)
    assert counted(result) == {"held": 1, "decided": 3}
    assert await fix(world.db, result, because="nothing to do") == Fixed()


async def test_a_source_that_keeps_what_is_gone_has_no_phantoms(world: World) -> None:
    """The removal was told and the pipeline keeps its objects: that is as declared."""
    p = copying(world, world.directory())
    world.put("a", "1")
    world.put("b", "2")
    await world.run(p)
    away = (world.incoming / "b").rename(world.folder / "away")
    await world.run(p)
    assert counted(await reconcile(world.db, p)) == {"agreed": 1, "kept": 1}
    away.rename(world.incoming / "b")  # the very file
    result = await reconcile(world.db, p)
    assert found(result) == {"b": "missing"}
    assert await fix(world.db, result, because="it is back") == Fixed(1)
    await world.work(p)
    assert counted(await reconcile(world.db, p)) == {"agreed": 2}


async def test_a_lost_notification_is_found_by_listing_the_bucket(world: World, aws: Aws) -> None:
    """Events told of some objects and never of others; the prefix beside them shows which."""
    bucket, s3 = aws.bucket("raw"), aws.client("s3")
    tags = {
        key: s3.put_object(Bucket=bucket, Key=f"in/{key}", Body=key.encode())["ETag"]
        for key in ("told", "changed", "deleted", "lost")
    }
    told = [
        Envelope(
            event_id=key,
            source="s3:ObjectCreated:Put",
            provider="s3",
            detector="event",
            uri=f"s3://{bucket}/in/{key}",
            etag=tags[key].strip('"'),
            size=len(key),
            event_time=datetime.now(UTC),
            received_at=datetime.now(UTC),
            data=key.encode(),
        )
        for key in ("told", "changed", "deleted")
    ]
    p = copying(world, hg.Prefix(f"s3://{bucket}/in/"))
    await world.receive(p, *told, change("elsewhere", b"3"))
    await world.work(p)
    s3.put_object(Bucket=bucket, Key="in/changed", Body=b"CHANGED")
    s3.delete_object(Bucket=bucket, Key="in/deleted")
    result = await reconcile(world.db, p)
    assert found(result) == {
        "lost": "missing",
        "changed": "drifted",
        "deleted": "phantom",
        "elsewhere": "orphan",
    }
    assert counted(result)["agreed"] == 1
    assert {f.by for f in result.findings() if f.by} == {"etag"}
    assert await fix(world.db, result, because="notifications were off") == Fixed(2)
    await world.work(p)
    assert counted(await reconcile(world.db, p)) == {"agreed": 3, "phantom": 1, "orphan": 1}
    # Beside a source that tells events, what no prefix covers may be that source's.
    both = copying(world, hg.Prefix(f"s3://{bucket}/in/"), hg.Schedule("0 3 * * *"))
    assert counted(await reconcile(world.db, both)) == {"agreed": 3, "phantom": 1, "elsewhere": 1}


async def test_a_manifest_is_held_against_the_ledger(world: World, tmp_path: Path) -> None:
    """What the list names counts; one that contradicts itself is refused as a whole."""
    lists = tmp_path / "lists"
    lists.mkdir()
    for name in "abc":
        (lists / name).write_text(name)

    def publish(**rows: str) -> None:
        listed = [{"path": name, "etag": tag} for name, tag in rows.items()]
        (lists / "list.json").write_text(json.dumps(listed))

    p = copying(world, hg.Manifest(lists / "list.json"))
    publish(a="1", b="1")
    await world.run(p)
    assert counted(await reconcile(world.db, p)) == {"agreed": 2}
    publish(a="2", c="1")
    result = await reconcile(world.db, p)
    assert found(result) == {"a": "drifted", "b": "phantom", "c": "missing"}
    rows = [{"path": "a", "etag": "1"}, {"path": "a", "etag": "2"}]
    (lists / "list.json").write_text(json.dumps(rows))
    with pytest.raises(Unavailable, match="item 2 names an object a second time"):
        await reconcile(world.db, p)


async def test_a_source_that_cannot_be_read_says_nothing(world: World) -> None:
    """A folder that is away is an error, never a list of phantoms."""
    p = copying(world, world.directory())
    world.put("a", "1")
    await world.run(p)
    world.incoming.rename(world.folder / "away")
    with pytest.raises(Unavailable, match="cannot be read"):
        await reconcile(world.db, p)


async def test_a_pipeline_without_a_listing_is_refused(world: World) -> None:
    """Whoever only hears of changes cannot say what there is; and it says so."""
    p = world.pipeline(sources=[hg.Schedule("0 3 * * *")])
    with pytest.raises(UsageError, match="cannot be reconciled: it has Schedule"):
        await reconcile(world.db, p)


# A command whose process dies where it is told to, for the second time it comes there.
_DYING = """
import os, signal, sys
from headgate.cli.ending import run
from headgate.model import crash
from headgate.model.entry import Point
from headgate.runtime import reconcile

times = [0]

def die():
    times[0] += 1
    if times[0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)

reconcile.AT_ONCE = 3
crash.arm(Point(sys.argv[1]), die)
sys.exit(run(sys.argv[2:]))
"""


PIPELINE = """
import headgate as hg

load = hg.Pipeline("load", sources=[hg.Directory("incoming", settle=0, every=0.05)], store="lake")

@load.apply
def note(tx, obj):
    tx.execute("INSERT INTO applied VALUES ($1)", obj.uri.rpartition("/")[2])
"""


@pytest.mark.parametrize("point", [Point.BEFORE_RECEIVE, Point.AFTER_RECEIVE])
async def test_a_fix_killed_in_the_middle_is_run_again_and_nothing_happens_twice(
    world: World, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    """kill -9 between two batches of admissions: the second go admits what the first did not."""
    monkeypatch.chdir(world.folder)
    (world.folder / f"load_{world.folder.name}.py").write_text(PIPELINE)
    (p,) = load(f"load_{world.folder.name}.py")
    assert isinstance(p, hg.Pipeline)
    await world.db.execute("CREATE TABLE applied (name text)")
    world.put("first", "text")
    await world.run(p)
    names = [f"plain-{n}" for n in range(10)]
    for name in names:
        world.put(name, name)
    world.put("first", "other text")
    # Until it dies it admits one batch of three, or two.
    admitted = 3 if point is Point.BEFORE_RECEIVE else 6
    for where, code, entries in ((point, -signal.SIGKILL, admitted), (Point.ANCHORED, 0, 11)):
        command = [f"load_{world.folder.name}.py", "--fix", "--because", "it was down"]
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _DYING, where, "reconcile", *command),
            env={**os.environ, "HEADGATE_DATABASE_URL": world.url},
        )
        assert await done.wait() == code
        assert await world.count("headgate.entry") == 1 + entries
    await world.work(p)
    applied = Counter(name for (name,) in await world.rows("SELECT name FROM applied"))
    assert applied == {"first": 2, **dict.fromkeys(names, 1)}
    acted = "SELECT count(*), count(DISTINCT entry) FROM headgate.action WHERE verb = 'reconcile'"
    assert await world.rows(acted) == [(11, 11)]

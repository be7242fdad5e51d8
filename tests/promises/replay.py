"""The past can be run again: shown to be the same, or put in the place of what is published."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.world import NOON, World, change

import headgate as hg
from headgate.errors import UsageError
from headgate.ledger import explain, facts, quarantine, replay, replays, revert
from headgate.ledger.replay import Frozen, Mode, Otherwise, Wanted
from headgate.model import delta, frozen, signal
from headgate.runtime.again import gather
from headgate.runtime.again.report import Report
from headgate.runtime.again.verify import COLLECTED, FREE_SQL, OLDER_ROWS, OVERWRITTEN, verify
from headgate.runtime.gauges import Gauges
from headgate.runtime.load import load
from headgate.runtime.replays import pins_of
from headgate.stores import FileStore, Local

PIPELINE = """
import random
from typing import TypedDict

import headgate as hg

rain = hg.Pipeline(
    "rain",
    store="LAKE",
    params={"factor": 2},
    lookups={"stations": "STATIONS"},
    retry=hg.RetryPlan("upstream-event", 3, 60, 0.01, 0.02, "full"),
)


class Reading(TypedDict):
    station: str
    name: str
    mm: float
    drawn: int
    at: str


@rain.validate
def is_short(obj, run):
    return obj.size < 1000


@rain.rows("reading", key="station", schema=Reading)
def readings(obj, run):
    names = dict(line.split(",") for line in run.lookup("stations").text().split())
    dice = random.Random(run.seed)
    for line in obj.text().split():
        station, mm = line.split(",")
        yield {
            "station": station,
            "name": names.get(station[0], "?"),
            "mm": float(mm) * run.params["factor"],
            "drawn": dice.randrange(10**6),
            "at": run.now.isoformat(),
        }


@rain.transform
def shout(obj, run):
    return {"shout.txt": obj.text().upper().encode(), "run.txt": f"{run.id} {run.key}".encode()}
"""
PLAIN = """
from typing import TypedDict
import headgate as hg

rain = hg.Pipeline("rain", store="LAKE")


class Reading(TypedDict):
    station: str
    mm: float


@rain.rows("reading", key="station", schema=Reading)
def readings(obj):
    for line in obj.text().split():
        station, mm = line.split(",")
        yield {"station": station, "mm": float(mm)}
"""
STATIONS = "a,Ahlen\nb,Bern\n"
LOCAL = Local("~/.cache/headgate", 1 << 20)


class Place:
    """A pipeline in a file, as `headgate replay FILE.py` has it."""

    def __init__(self, world: World, text: str = PIPELINE) -> None:
        self.world = world
        self.file = world.folder / "rain.py"
        self.stations = world.folder / "stations.csv"
        self.stations.write_text(STATIONS)
        self.declare(text)

    def declare(self, text: str) -> None:
        """Write the file, and import it anew."""
        text = text.replace("LAKE", str(self.world.lake)).replace("STATIONS", str(self.stations))
        self.text = text
        self.file.write_text(text)
        self.reload()

    def change(self, old: str, new: str) -> None:
        """Somebody edits the file."""
        assert old in self.text
        self.declare(self.text.replace(old, new))

    def reload(self) -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).endswith("/rain.py"):
                del sys.modules[name]
        (found,) = load(str(self.file))
        assert isinstance(found, hg.Pipeline)
        self.pipeline = found

    async def ask(self, mode: Mode, **wanted: Any) -> Frozen:
        given = {"because": "it was wrong"} if mode == "publish" else {}
        return await replay.ask(
            self.world.db,
            Wanted("rain", mode, pins_of(self.pipeline), {}, **{**given, **wanted}),
        )

    async def verify(self, **wanted: Any) -> Report:
        made = await self.ask("verify", **wanted)
        return await verify(
            self.world.db, self.file, self.pipeline, made, pins_of(self.pipeline), LOCAL
        )

    async def publish(self, **wanted: Any) -> Frozen:
        """Ask for a replay and let it run."""
        made = await self.ask("publish", **wanted)
        await self.world.run(self.pipeline)
        return made

    async def seen(self) -> list[tuple[Any, ...]]:
        return await self.world.table("reading", "station", "name", "mm", "drawn", "at")


async def week(world: World, n: int = 7) -> Place:
    """A pipeline that took in an object a minute."""
    place = Place(world)
    changes = [change(f"day{i}", f"a{i},{i}.5 b{i},{i}", minute=i) for i in range(n)]
    await world.receive(place.pipeline, *changes)
    await world.run(place.pipeline)
    return place


def blames(report: Report) -> set[tuple[str, str]]:
    return {(d.what, d.blame) for d in report.divergences}


async def fates(world: World, id: int) -> dict[str, int]:
    rows = await world.db.fetch(replays.Q.fates, id)
    return {":".join(filter(None, (r["status"], r["reason"]))): r["entries"] for r in rows}


async def test_a_thousand_entries_come_out_the_same_to_the_byte(world: World) -> None:
    """Rows, artifacts, seeds and times: nothing differs, and nothing of the world is touched."""
    place = await week(world, 1000)
    before = await world.count("headgate.entry"), await place.seen()
    report = await place.verify()
    assert report.ok, report.divergences
    assert (report.inputs, report.same, report.outputs) == (1000, 1000, 4000)
    assert not +report.apart
    assert (await world.count("headgate.entry"), await place.seen()) == before
    assert await world.val("SELECT state FROM headgate.replay") == "done"


async def test_messages_of_which_there_are_only_rows_come_out_the_same(world: World) -> None:
    """How many rows there were is known of them too."""
    place = Place(world, PLAIN)
    await world.receive(place.pipeline, change("a", "a,1 b,2"), change("b", "c,3"), change("c", ""))
    await world.run(place.pipeline)
    report = await place.verify()
    assert report.ok, report.divergences
    assert report.same == 3


async def test_nothing_from_beyond_the_watermark_is_replayed(world: World) -> None:
    """Where more may still come a window is not complete; the manifest keeps how far it was."""
    place = Place(world)
    place.change(
        '    params={"factor": 2},', '    params={"factor": 2},\n    event_time=hg.EventTime("2m"),'
    )
    changes = [change(f"day{i}", f"a{i},1 b{i},2", minute=i) for i in range(6)]
    await world.receive(place.pipeline, *changes)
    await world.run(place.pipeline)
    made = await place.ask("publish")
    assert made.manifest["watermark"] == changes[3].event_time.isoformat()
    assert made.inputs == 4


async def test_a_window_is_half_open_by_event_time(world: World) -> None:
    """From its start on, before its end."""
    place = await week(world)
    start, end = NOON + timedelta(minutes=2), NOON + timedelta(minutes=5)
    report = await place.verify(start=start, end=end)
    assert report.same == report.inputs == 3


async def test_a_changed_line_of_code_is_named_and_refused_unless_accepted(world: World) -> None:
    """Without being told, nothing runs; told so, the report blames the code for what differs."""
    place = await week(world)
    place.change("upper()", "lower()")
    with pytest.raises(Otherwise, match="first run: code") as refused:
        await place.verify()
    assert "--accept code" in refused.value.hint
    with pytest.raises(Otherwise):
        await place.publish()
    assert await world.count("headgate.replay") == 0
    report = await place.verify(accepted=["code"])
    assert not report.ok
    assert blames(report) == {("artifact shout.txt", "code")}
    assert report.diverged == 7


async def test_code_that_makes_the_same_is_shown_to(world: World) -> None:
    """A change that changes nothing for readers can be proved to."""
    place = await week(world)
    place.change('names.get(station[0], "?")', 'names.get(station[:1], "?")')
    assert (await place.verify(accepted=["code"])).ok


async def test_how_replays_ended_is_measured(world: World) -> None:
    """Proved the same, diverged, published: the share of successes can be told."""
    place = await week(world, 2)
    await place.verify()
    place.change('"factor": 2', '"factor": 3')
    await place.verify(accepted=["params"])
    await place.publish(accepted=["params"])
    heard: dict[str, float] = {}
    stop = signal.listen(lambda s, value, labels: heard.update(_outcome(s, value, labels)))
    try:
        await Gauges(world.db).show()
    finally:
        stop()
    assert heard == {"same": 1, "diverged": 1, "published": 1}


def _outcome(s: signal.Signal, value: float, labels: dict[str, str]) -> dict[str, float]:
    return {labels["outcome"]: value} if s is signal.REPLAYED else {}


async def test_a_changed_parameter_is_named(world: World) -> None:
    """And what it changes is told row by row."""
    place = await week(world)
    place.change('"factor": 2', '"factor": 3')
    with pytest.raises(Otherwise, match="first run: params"):
        await place.verify()
    report = await place.verify(accepted=["params"])
    assert blames(report) == {("rows reading", "params")}
    assert report.divergences[1].text.endswith('such as ["a1"]')


async def test_a_changed_input_is_named(world: World) -> None:
    """Bytes in the store that are others by now cannot pass for those that were published."""
    place = Place(world)
    place.change('store="', 'sources=[hg.Directory("INCOMING", settle=0, every=0.05)], store="')
    place.declare(place.text.replace("INCOMING", str(world.incoming)))
    world.put("day1", "a1,1.5")
    world.put("day2", "a2,2.5")
    await world.run(place.pipeline)
    digest = await world.val("SELECT content FROM headgate.publication ORDER BY uri LIMIT 1")
    kept = FileStore(world.lake).path(digest)
    content = kept.read_bytes()
    kept.chmod(0o600)
    kept.write_bytes(b"a1,9.5")
    report = await place.verify()
    assert (report.same, blames(report)) == (1, {("input", "input")})
    kept.write_bytes(content)  # for the audit at the end


async def test_a_changed_seed_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has the seed of every run that asked for one."""
    place = await week(world, 2)
    assert set(await world.rows("SELECT length(drawn::text) > 3 FROM reading")) == {(True,)}
    module = sys.modules["headgate.runtime.again.verify"]
    monkeypatch.setattr(module, "seed_of", lambda key: frozen.seed_of(key + b"other"))
    report = await place.verify()
    assert blames(report) == {("seed", "seed")}


async def test_a_lookup_of_that_time_is_read_again(world: World) -> None:
    """The file has changed since, and a copy was kept. Publishing with another is refused."""
    place = await week(world)
    place.stations.write_text("a,Aachen\nb,Basel\n")
    assert (await place.verify()).ok
    with pytest.raises(Otherwise, match="first run: lookups stations"):
        await place.publish()
    await place.publish(accepted=["lookups"])
    assert {name for _, name, *_ in await place.seen()} == {"Aachen", "Basel"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import time; time.time()", "is_short reads the clock at rain.py:"),
        ("import random; random.random()", "is_short draws a number at rain.py:"),
        (
            "import socket\n    try: socket.create_connection(('203.0.113.1', 80), 1)\n"
            "    except OSError: pass",
            "is_short speaks to somebody at rain.py:",
        ),
    ],
    ids=["clock", "chance", "network"],
)
async def test_a_validator_that_is_not_pure_is_caught(world: World, line: str, said: str) -> None:
    """Its line is named, also when it changed nothing this time."""
    place = Place(world)
    place.change("return obj.size", f"{line}\n    return obj.size")
    await world.receive(place.pipeline, change("day1", "a1,1"))
    await world.run(place.pipeline)
    report = await place.verify()
    assert (report.diverged, report.ok) == (0, False)
    assert report.impure[0].startswith(said)


async def test_what_reads_the_clock_is_blamed_for_what_differs(world: World) -> None:
    """A row with the time of day in it cannot be made again; the line says so."""
    place = Place(world)
    place.change("run.now.isoformat()", "__import__('time').time_ns().__str__()")
    await world.receive(place.pipeline, change("day1", "a1,1"))
    await world.run(place.pipeline)
    (one,) = (await place.verify()).divergences
    assert one.what == "rows reading"
    assert one.blame.startswith("readings reads the clock at rain.py:")


async def test_what_cannot_be_compared_is_said(world: World) -> None:
    """Free SQL; rows that newer versions or other objects have replaced; bytes that are gone."""
    place = Place(world)
    place.change(
        "@rain.transform", "@rain.apply\ndef free(tx, obj):\n    pass\n\n\n@rain.transform"
    )
    for minute, text in enumerate(["a1,1 x,1", "a1,2 x,2", "a2,3"]):
        await world.receive(place.pipeline, change("day1", text, minute=minute))
        await world.run(place.pipeline)
    await world.receive(place.pipeline, change("other", "a2,9", minute=9))
    await world.run(place.pipeline)
    report = await place.verify(every=True)
    assert report.ok, report.divergences
    assert +report.apart == {FREE_SQL.format("free"): 4, OLDER_ROWS: 2, OVERWRITTEN: 1}


async def test_a_foreign_call_is_answered_as_it_was_and_not_made_again(world: World) -> None:
    """Neither a verification nor a replay rings twice."""
    place = Place(world)
    rung = world.folder / "rung"
    place.change(
        "    dice =",
        f"    run.call('ring', lambda: open('{rung}', 'a').write('x'))\n    dice =",
    )
    await world.receive(place.pipeline, change("day1", "a1,1"))
    await world.run(place.pipeline)
    assert (await place.verify()).ok
    await place.publish()
    assert rung.read_text() == "x"


async def test_publishing_again_supersedes_and_says_so(world: World) -> None:
    """One more version each, no row beside another; who asked and why is kept."""
    place = await week(world)
    drawn = [(station, seed, at) for station, _, _, seed, at in await place.seen()]
    place.change("float(mm) *", "100 * float(mm) *")
    made = await place.publish(accepted=["code"], because="the gauge was off")
    rows = await place.seen()
    assert [(station, seed, at) for station, _, _, seed, at in rows] == drawn, "the same chance"
    assert {mm for _, _, mm, _, _ in rows} == {
        100.0 * i for i in [*range(0, 14, 2), *range(1, 14, 2)]
    }
    assert {version for version, _ in (await world.heads()).values()} == {2}
    assert await fates(world, made.id) == {"finalized": 7}
    assert await world.val("SELECT state FROM headgate.replay") == "done"
    (told,) = await facts.of_publications(world.db, [8])
    assert told.before is not None
    assert (told.replays, delta.operation(told)) == (told.before.entry, "replay")
    said = " ".join(s.text for s in await explain.explain(world.db, 8))
    assert f"runs publication {told.replays} again" in said
    assert "because: the gauge was off" in said
    assert (await place.verify()).ok, "what was published anew can be verified too"


async def test_replaying_the_same_twice_asks_for_it_twice(world: World) -> None:
    """A second replay is one of its own: its keys are, and it supersedes the first."""
    place = await week(world, 3)
    await place.publish()
    await place.publish()
    assert {version for version, _ in (await world.heads()).values()} == {3}
    assert len(await place.seen()) == 6


async def test_a_newer_head_is_not_overwritten(world: World) -> None:
    """What changed between asking and running is left alone, and recorded."""
    place = await week(world, 3)
    made = await place.ask("publish")
    await world.receive(place.pipeline, change("day1", "a1,77", minute=50))
    await world.run(place.pipeline)
    assert await fates(world, made.id) == {"finalized": 2, "skipped:superseded": 1}
    assert ("a1", 154.0) in await world.rows("SELECT station, mm FROM reading")


async def test_a_replay_is_no_newer_than_what_it_replays(world: World) -> None:
    """What comes late between the two is as new as it would have been, and what was stale stays."""
    place = Place(world)
    await world.receive(place.pipeline, change("day1", "a1,1", minute=1))
    await world.run(place.pipeline)
    await world.receive(place.pipeline, change("day1", "a1,1", minute=5))  # unchanged: it saw 5
    await world.run(place.pipeline)
    await place.publish()
    await world.receive(place.pipeline, change("day1", "a1,3", minute=3))
    await world.run(place.pipeline)
    assert (await world.outcomes())["skipped:stale"] == 1
    await world.receive(place.pipeline, change("day1", "a1,6", minute=6))
    await world.run(place.pipeline)
    assert (await world.heads())["day1"][0] == 3


async def test_reverts_and_replays_live_together(world: World) -> None:
    """A replay can be taken back, and what a revert brought back can be replayed."""
    place = Place(world)
    for minute, text in enumerate(["a1,1", "a1,2"]):
        await world.receive(place.pipeline, change("day1", text, minute=minute))
        await world.run(place.pipeline)
    first = await place.seen()
    await place.publish()

    async def back() -> None:
        head = await world.val("SELECT max(entry) FROM headgate.publication")
        await revert.ask(world.db, head, because="it was wrong")
        await world.run(place.pipeline)

    await back()
    assert await place.seen() == first, "rows are derived with the seed and the time they had"
    await place.publish()
    assert await place.seen() == first
    assert (await place.verify()).ok
    assert (await world.heads())["day1"][0] == 5


async def test_a_replay_passes_the_gates(world: World) -> None:
    """What would not be let in today is not published again: it is set aside."""
    place = await week(world, 3)
    place.change("return obj.size < 1000", "return b'1.5' not in obj.read()")
    made = await place.publish(accepted=["code"])
    assert await fates(world, made.id) == {"finalized": 2, "quarantined:validation": 1}
    (aside,) = await world.rows("SELECT entry FROM headgate.quarantine")
    await quarantine.discard(world.db, aside, because="rightly refused")


async def test_free_sql_without_undo_is_not_replayed_and_says_so(world: World) -> None:
    """It would be applied twice. With an undo it is taken back first."""
    place = Place(world)
    await world.db.execute("CREATE TABLE tally (n int); INSERT INTO tally VALUES (0)")
    plus = "\n\n@rain.apply{}\ndef plus(tx, obj):\n    tx.execute('UPDATE tally SET n = n + 1')\n"
    minus = "\n\ndef minus(tx, obj):\n    tx.execute('UPDATE tally SET n = n - 1')\n"
    place.declare(place.text + plus.format(""))
    await world.receive(place.pipeline, change("day1", "a1,1"))
    await world.run(place.pipeline)
    with pytest.raises(UsageError, match="has not said how to take it back"):
        await place.publish()
    place.declare(place.text.replace(plus.format(""), minus + plus.format("(undo=minus)")))
    await world.run(place.pipeline)
    await place.publish(accepted=["code", "config"])
    assert await world.val("SELECT n FROM tally") == 1


async def test_live_work_goes_first(world: World) -> None:
    """A replay's inputs become work in portions: what comes in meanwhile does not queue behind."""
    place = await week(world, 300)
    await place.ask("publish", per_second=50.0)
    await world.receive(place.pipeline, change("live", "a999,1", minute=999))
    await world.run(place.pipeline, max_wait_seconds=0)
    order = await world.rows(
        "SELECT e.replay IS NULL FROM headgate.journal j JOIN headgate.commit c USING (batch)"
        " JOIN headgate.entry e ON e.id = j.entry WHERE j.entry > 300 ORDER BY c.pos, j.n"
    )
    assert [live for (live,) in order].index(True) < 100


async def test_a_rate_is_kept(world: World) -> None:
    """A replay of 40 at 20 a second takes about two seconds, however fast it could go."""
    place = await week(world, 40)
    await place.publish(per_second=20.0)
    seconds = await world.val(
        "SELECT extract(epoch FROM ended_at - asked_at)::float8 FROM headgate.replay"
    )
    assert 1.5 < seconds < 15


async def test_a_worker_with_other_code_leaves_a_replay_alone(world: World) -> None:
    """What was frozen is run by what was frozen, or not at all; it goes on when that is back."""
    place = await week(world, 3)
    made = await place.ask("publish")
    text = place.text
    place.change("upper()", "lower()")
    await world.run(place.pipeline)
    assert await fates(world, made.id) == {}
    place.declare(text)
    await world.run(place.pipeline)
    assert await fates(world, made.id) == {"finalized": 3}


async def test_a_stopped_replay_admits_nothing_more(world: World) -> None:
    """What it has done stays."""
    place = await week(world, 3)
    made = await place.ask("publish")
    assert await replay.stop(world.db, made.id, because="not now") == (0, 3)
    assert await replay.stop(world.db, made.id, because="not now") is None
    await world.run(place.pipeline)
    assert await fates(world, made.id) == {}


async def test_objects_that_were_never_seen_come_in_once(world: World) -> None:
    """A folder full of old files is brought in; whoever else finds them is too late."""
    place = Place(world)
    place.change('store="', f'sources=[hg.Directory("{world.incoming}", settle=0)], store="')
    for n in range(5):
        world.put(f"old{n}", f"a{n},{n}")
    await world.register(place.pipeline)
    window = gather.Window(None, None)
    unseen = await gather.never_seen(world.db, place.pipeline, window)
    assert len(unseen) == 5
    made = await place.ask("publish", known=False, unseen=unseen)
    await world.run(place.pipeline)  # its source looks as well
    assert await world.outcomes() == {"finalized": 5}
    assert await gather.never_seen(world.db, place.pipeline, window) == []
    assert sum((await fates(world, made.id)).values()) <= 5
    assert len(await place.seen()) == 5


async def test_a_manifest_names_objects_to_bring_in(world: World) -> None:
    """Only those of the window, and only those that a source of the pipeline can read."""
    place = Place(world)
    place.change('store="', f'sources=[hg.Directory("{world.incoming}", settle=0)], store="')
    world.put("a.txt", "a1,1")
    world.put("b.txt", "b1,1")
    listed = world.incoming / "list.csv"
    listed.write_text("uri,last_modified\na.txt,2026-01-01T12:00:00Z\nb.txt,2026-02-01T12:00:00Z\n")
    window = gather.Window(NOON - timedelta(days=1), NOON + timedelta(days=1))
    unseen = gather.named_in(listed, place.pipeline, window)
    assert [one.noticed.uri.rpartition("/")[2] for one in unseen] == ["a.txt"]
    listed.write_text("uri,last_modified\n/elsewhere/c.txt,2026-01-01T12:00:00Z\n")
    with pytest.raises(UsageError, match="no source of rain reads"):
        gather.named_in(listed, place.pipeline, window)
    listed.unlink()
    await world.register(place.pipeline)
    await place.publish(known=False, unseen=unseen)
    assert ("a1",) in await world.rows("SELECT station FROM reading")


async def test_partitions_are_kept_by_a_replay(world: World) -> None:
    """A limit that holds for live work holds for replayed work."""
    place = Place(world)
    place.change('store="', 'per_partition=1, store="')
    await world.receive(place.pipeline, *(change(f"f/{n}", f"a{n},1") for n in range(5)))
    await world.run(place.pipeline)
    made = await place.publish()
    assert await fates(world, made.id) == {"finalized": 5}


async def test_a_verification_that_was_broken_off_goes_on(world: World) -> None:
    """What was found so far is kept; the same question is the same replay."""
    place = await week(world, 60)
    first = await place.ask("verify")
    report = replace(Report(), inputs=50, same=50)
    assert await world.val(replay.Q.verified, first.id, 0, 50, report.document())
    report = await place.verify()
    assert (report.inputs, report.same, await world.count("headgate.replay")) == (60, 60, 1)


async def test_bytes_that_were_collected_are_said_to_be_gone(world: World) -> None:
    """Nobody claims to have compared what is not there."""
    place = Place(world)
    place.change(
        'store="', f'sources=[hg.Directory("{world.incoming}", settle=0, every=0.05)], store="'
    )
    world.put("day1", "a1,1")
    await world.run(place.pipeline)
    digest = await world.val("SELECT content FROM headgate.publication")
    kept = FileStore(world.lake).path(digest)
    content = kept.read_bytes()
    kept.unlink()
    report = await place.verify()
    assert +report.apart == {COLLECTED: 1}
    kept.write_bytes(content)


def test_a_seed_is_a_number_every_reader_has() -> None:
    """And another for another key."""
    seeds = {frozen.seed_of(bytes([n]) * 32) for n in range(200)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**53 for seed in seeds)

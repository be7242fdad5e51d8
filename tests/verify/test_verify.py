"""`headgate verify` on ledgers that somebody broke by hand: each is found, and named."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from tests.verify.world import GOOD, Copy, World, archive, rain

from headgate.ledger import journal
from headgate.ledger.finding import HINTS
from headgate.model.entry import Status
from headgate.pg import Database
from headgate.runtime import inline
from headgate.runtime.tuning import Tuning
from headgate.runtime.verify import Report, verify

LIVE = (
    "INSERT INTO headgate.worker (name, host, pid, alive_until)"
    " VALUES ('w', 'h', 1, now() + interval '{after}') RETURNING id;"
)


@dataclass(frozen=True)
class Broken:
    """What somebody did to a ledger (`sql` or `by`), and what verify must say about it."""

    name: str
    codes: set[str]
    entry: str | None = None
    sql: str = ""
    by: Callable[[World], Awaitable[None]] | None = None
    deep: bool = False


async def _apply(world: World, broken: Broken) -> None:
    if broken.by is not None:
        await broken.by(world)
    if broken.sql:
        await world.db.execute(broken.sql.format(**world.entries))


def _object(world: World, digest: bytes) -> Path:
    return world.lake / "staging" / "sha256" / digest.hex()[:2] / digest.hex()


async def _artifact(world: World, name: str) -> Path:
    text = await world.db.fetchval(
        "SELECT artifacts ->> 0 FROM headgate.publication WHERE entry = $1", world.entry(name)
    )
    path = _object(world, bytes.fromhex(orjson.loads(text)["digest"]))
    path.chmod(0o600)
    return path


async def _rewrite_a_line_and_its_hash(world: World) -> None:
    row = await world.db.fetchrow(
        "SELECT * FROM headgate.journal WHERE entry = $1", world.entry("c2")
    )
    assert row is not None
    line = journal.Line(
        row["entry"], row["fence"], Status.SKIPPED, 1, row["worker"], "stale", row["steps"]
    )
    await world.db.execute(
        "UPDATE headgate.journal SET reason = 'stale', hash = $2 WHERE entry = $1",
        world.entry("c2"),
        line.hash(),
    )


async def _finalize_again(world: World) -> None:
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
        batch = await link.fetchval(journal.Q.next_batch)
        line = journal.Line(p["entry"], 2, Status.FINALIZED, 2, 1, None, steps, None, shown)
        await journal.seal(link, batch, [line])


async def _delete_an_artifact(world: World) -> None:
    (await _artifact(world, "a2")).unlink()


async def _cut_an_artifact(world: World) -> None:
    path = await _artifact(world, "a2")
    path.write_bytes(path.read_bytes()[:-1])


async def _flip_a_byte(world: World) -> None:
    path = await _artifact(world, "a2")
    path.write_bytes(b"X" + path.read_bytes()[1:])


async def _delete_quarantined_bytes(world: World) -> None:
    digest = await world.db.fetchval(
        "SELECT content FROM headgate.quarantine WHERE entry = $1", world.entry("bad1")
    )
    _object(world, digest).unlink()


def _anchor(world: World) -> Path:
    return next((world.lake / "ledger").glob("*.anchor.json"))


async def _anchor_another_chain(world: World) -> None:
    said = orjson.loads(_anchor(world).read_bytes())
    _anchor(world).write_bytes(orjson.dumps({**said, "chain": "00" * 32}))


async def _spoil_the_anchor(world: World) -> None:
    _anchor(world).write_text("{")


_CLAIM = (
    "WITH w AS (" + LIVE.rstrip(";") + ") UPDATE headgate.work SET worker = (SELECT id FROM w),"
    " fence = fence + 1, attempts = attempts + 1 WHERE id "
)

BROKEN = [
    Broken(
        "live work vanished",
        {"entry_lost"},
        "slow1",
        "DELETE FROM headgate.work WHERE id = {slow1}",
    ),
    Broken(
        "a finished entry is live work again",
        {"entry_in_two_states"},
        "b1",
        "INSERT INTO headgate.work (pipeline, id, subject)"
        " SELECT pipeline, id, 1 FROM headgate.entry WHERE id = {b1}",
    ),
    Broken(
        "an entry is live work and in quarantine",
        {"entry_in_two_states"},
        "bad1",
        "INSERT INTO headgate.work (pipeline, id, subject)"
        " SELECT pipeline, id, 1 FROM headgate.entry WHERE id = {bad1}",
    ),
    Broken(
        "a waiting entry has no time to be retried",
        {"state_mismatch"},
        "slow1",
        "UPDATE headgate.work SET due_at = NULL WHERE id = {slow1}",
    ),
    Broken(
        "a journal line skips a step",
        {"line_altered", "journal_not_a_path"},
        "b1",
        "UPDATE headgate.journal SET steps = 'claimed:0 fetched:1 finalized:2' WHERE entry = {b1}",
    ),
    Broken(
        "a journal line was reworded",
        {"line_altered"},
        "c2",
        "UPDATE headgate.journal SET reason = 'stale' WHERE entry = {c2}",
    ),
    Broken(
        "a journal line was reworded and its hash made to fit",
        {"chain_broken"},
        by=_rewrite_a_line_and_its_hash,
    ),
    Broken(
        "a journal line was deleted",
        {"batch_incomplete", "entry_lost"},
        "c2",
        "DELETE FROM headgate.journal WHERE entry = {c2}",
    ),
    Broken(
        "a commit row was deleted",
        {"commit_gap", "journal_uncommitted"},
        sql="DELETE FROM headgate.commit WHERE pos = 2",
    ),
    Broken(
        "the end of the journal was cut off",
        {"anchor_ahead", "entry_lost"},
        "junk1",
        "DELETE FROM headgate.journal WHERE batch ="
        " (SELECT batch FROM headgate.commit ORDER BY pos DESC LIMIT 1);"
        "DELETE FROM headgate.commit WHERE pos = (SELECT max(pos) FROM headgate.commit)",
    ),
    Broken(
        "the chain was written anew",
        {"chain_broken", "anchor_mismatch"},
        sql="UPDATE headgate.commit SET chain = sha256(chain)"
        " WHERE pos = (SELECT max(pos) FROM headgate.commit)",
    ),
    Broken("the anchor is another ledger's", {"anchor_mismatch"}, by=_anchor_another_chain),
    Broken("the anchor cannot be read", {"anchor_unreadable"}, by=_spoil_the_anchor),
    Broken(
        "a publication was deleted",
        {"publication_missing", "rows_unowned"},
        "b1",
        "DELETE FROM headgate.publication WHERE entry = {b1}",
    ),
    Broken(
        "what was never finalized is published",
        {"publication_unearned"},
        "bad1",
        "INSERT INTO headgate.publication"
        " (entry, pipeline, version, deployment, content, effect, uri)"
        " SELECT q.entry, q.pipeline, 1, q.deployment, q.content, q.content, e.uri"
        " FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry"
        " WHERE q.entry = {bad1}",
    ),
    Broken(
        "a publication speaks of another uri",
        {"publication_mismatch"},
        "b1",
        "UPDATE headgate.publication SET uri = 'file:///elsewhere' WHERE entry = {b1}",
    ),
    Broken(
        "a publication was changed",
        {"line_altered"},
        "b1",
        "UPDATE headgate.publication SET effect = sha256(effect) WHERE entry = {b1}",
    ),
    Broken(
        "two publications of a uri are current",
        {"head_twice", "link_broken"},
        "a2",
        "DROP INDEX headgate.publication_head;"
        "UPDATE headgate.publication SET successor = NULL WHERE entry = {a1}",
    ),
    Broken(
        "publications follow each other in a circle",
        {"head_missing", "link_broken", "rows_left_behind"},
        "a2",
        "UPDATE headgate.publication SET successor = {a1} WHERE entry = {a2}",
    ),
    Broken(
        "a version was left out",
        {"version_broken"},
        "a2",
        "UPDATE headgate.publication SET version = 3 WHERE entry = {a2}",
    ),
    Broken(
        "a head went back to an older change",
        {"head_went_back"},
        "a2",
        "UPDATE headgate.entry SET sequence = '0' WHERE id = {a2}",
    ),
    Broken(
        "a publication names code that nobody deployed",
        {"deployment_unknown"},
        "b1",
        "UPDATE headgate.publication SET deployment = 99 WHERE entry = {b1}",
    ),
    Broken("an artifact's bytes are gone", {"object_missing"}, "a2", by=_delete_an_artifact),
    Broken("an artifact was cut short", {"object_damaged"}, "a2", by=_cut_an_artifact),
    Broken("a byte of an artifact flipped", {"object_damaged"}, "a2", by=_flip_a_byte, deep=True),
    Broken("quarantined bytes are gone", {"object_missing"}, "bad1", by=_delete_quarantined_bytes),
    Broken(
        "a published object may be collected",
        {"object_not_kept"},
        "b1",
        "UPDATE headgate.object SET state = 'staged' WHERE digest ="
        " (SELECT content FROM headgate.publication WHERE entry = {b1})",
    ),
    Broken(
        "a published object is unknown",
        {"object_unknown"},
        "b1",
        "DELETE FROM headgate.object WHERE digest ="
        " (SELECT content FROM headgate.publication WHERE entry = {b1})",
    ),
    Broken(
        "work of an entry that is not there",
        {"dangling_work"},
        sql="INSERT INTO headgate.work (pipeline, id, subject) VALUES (1, 999, 1)",
    ),
    Broken(
        "an entry was deleted",
        {"dangling_journal", "dangling_publication", "counter_mismatch"},
        "b1",
        "DELETE FROM headgate.entry WHERE id = {b1}",
    ),
    Broken(
        "redeliveries of an entry that is not there",
        {"dangling_redelivery"},
        sql="INSERT INTO headgate.redelivery VALUES (999, 1, 0, now())",
    ),
    Broken(
        "a conflict of an entry that is not there",
        {"dangling_conflict"},
        sql="INSERT INTO headgate.conflict (entry, fingerprint, envelope) VALUES (999, 0, '{{}}')",
    ),
    Broken(
        "a call of an entry that is not there",
        {"dangling_call"},
        sql="INSERT INTO headgate.call (entry, name, key) VALUES (999, 'post', 'k')",
    ),
    Broken(
        "an entry in quarantine that is not there",
        {"dangling_quarantine"},
        sql="UPDATE headgate.quarantine SET entry = 999 WHERE entry = {bad1};"
        "INSERT INTO headgate.quarantine SELECT {bad1}, pipeline, subject, fence, attempts, class,"
        " reason, error, preview, content, deployment, failures, first_at, last_at"
        " FROM headgate.quarantine WHERE entry = 999",
    ),
    Broken(
        "an entry belongs to no pipeline",
        {"pipeline_unknown", "publication_mismatch", "counter_mismatch"},
        "b1",
        "UPDATE headgate.entry SET pipeline = 9 WHERE id = {b1}",
    ),
    Broken(
        "a fence fell",
        {"fence_fell"},
        "slow1",
        "UPDATE headgate.work SET fence = 0, attempts = 0 WHERE id = {slow1}",
    ),
    Broken(
        "an attempt left no trace",
        {"attempt_missing"},
        "slow1",
        "UPDATE headgate.work SET fence = 5 WHERE id = {slow1}",
    ),
    Broken(
        "more attempts are charged than were made",
        {"attempts_mismatch"},
        "slow1",
        "UPDATE headgate.work SET attempts = 7 WHERE id = {slow1}",
    ),
    Broken(
        "a lease ended and nobody freed the work",
        {"lease_expired"},
        "slow1",
        _CLAIM.format(after="-1 second", slow1="{slow1}") + "= {slow1}",
    ),
    Broken(
        "a buried worker still holds work",
        {"lease_of_buried"},
        "slow1",
        "UPDATE headgate.work SET worker = (SELECT min(id) FROM headgate.worker"
        " WHERE buried_at IS NOT NULL), fence = fence + 1 WHERE id = {slow1}",
    ),
    Broken(
        "an unknown worker holds work",
        {"worker_unknown"},
        "slow1",
        "UPDATE headgate.work SET worker = 999, fence = fence + 1 WHERE id = {slow1}",
    ),
    Broken(
        "two entries of one subject are claimed",
        {"subject_claimed_twice"},
        sql="UPDATE headgate.work SET subject = 7;" + _CLAIM.format(after="1 hour") + "> 0",
    ),
    Broken(
        "an admission was counted twice",
        {"counter_mismatch"},
        sql="UPDATE headgate.tally SET admitted = admitted + 1, received = received + 1"
        " WHERE source = 'test'",
    ),
    Broken(
        "more was told again than was received",
        {"counter_mismatch"},
        sql="UPDATE headgate.redelivery SET times = 99",
    ),
    Broken(
        "a recorded conflict was deleted",
        {"counter_mismatch"},
        sql="DELETE FROM headgate.conflict",
    ),
    Broken(
        "rows of a replaced version are left",
        {"rows_left_behind"},
        "a1",
        "UPDATE reading SET _headgate_entry = {a1} WHERE station = 'a'",
    ),
    Broken(
        "rows of nobody's are left",
        {"rows_unowned"},
        "bad1",
        "UPDATE reading SET _headgate_entry = {bad1} WHERE station = 'b'",
    ),
    Broken(
        "a key does not belong to its envelope",
        {"key_mismatch"},
        "slow1",
        "UPDATE headgate.entry SET key = sha256(key) WHERE id = {slow1}",
        deep=True,
    ),
    Broken(
        "inline bytes were changed",
        {"key_mismatch", "content_mismatch"},
        "event1",
        "UPDATE headgate.entry SET data = 'x' WHERE id = {event1}",
        deep=True,
    ),
    Broken(
        "a line of the journal finalizes a second time",
        {"finalized_twice"},
        "b1",
        by=_finalize_again,
    ),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.name.replace(" ", "_"))
def test_a_broken_ledger_is_found_and_named(copy_of_world: Copy, broken: Broken) -> None:
    """Whatever was done behind Headgate's back, verify says what, and to which entry."""

    async def go() -> None:
        async with copy_of_world() as world:
            await _apply(world, broken)
            report = await verify(world.db, deep=broken.deep)
            assert {v.code for v in report.violations} == broken.codes, _shown(report)
            assert not report.ok
            assert all(v.text and v.hint for v in report.violations)
            if broken.entry is not None:
                named = [v for v in report.violations if v.entry == world.entry(broken.entry)]
                assert named, _shown(report)
                if "deleted" not in broken.name:
                    assert all(v.uri for v in named)

    asyncio.run(go())


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_ledger_has_no_violations(copy_of_world: Copy, deep: bool) -> None:
    """Finished, skipped, waiting, quarantined, discarded: an honest ledger passes."""

    async def go() -> None:
        async with copy_of_world() as world:
            seen: list[tuple[str, int, int]] = []
            report = await verify(world.db, deep=deep, progress=lambda *told: seen.append(told))
            assert report.ok, _shown(report)
            assert report.violations == report.notes == []
            assert report.checked["entries"] == len(world.entries)
            assert report.checked["anchors"] == 1
            assert report.checked["objects"] > report.checked["publications"]
            assert {"chain", "entries", "tables", "rows", "objects"} == {
                what for what, _, _ in seen
            }
            assert all(done <= of for _, done, of in seen)

    asyncio.run(go())


def test_a_removed_object_is_sound(copy_of_world: Copy) -> None:
    """An object that vanished upstream leaves a publication without bytes of its own."""

    async def go() -> None:
        async with copy_of_world() as world:
            kept = world.folder / "archive"
            kept.mkdir()
            (kept / "old.csv").write_text("old")
            await inline.run(world.db, [archive(world.folder)], Tuning(), until_idle=True)
            (kept / "old.csv").unlink()
            await inline.run(world.db, [archive(world.folder)], Tuning(), until_idle=True)
            assert await world.db.fetchval(
                "SELECT count(*) FROM headgate.publication WHERE removed"
            )
            report = await verify(world.db, deep=True)
            assert report.ok, _shown(report)

    asyncio.run(go())


def test_an_auditor_who_may_only_read_can_verify(copy_of_world: Copy) -> None:
    """Verify changes nothing: it runs as a user who could not."""

    async def go() -> None:
        async with copy_of_world() as world:
            await world.db.execute(
                "CREATE ROLE auditor LOGIN; GRANT USAGE ON SCHEMA headgate TO auditor;"
                "GRANT SELECT ON ALL TABLES IN SCHEMA headgate, public TO auditor"
            )
            try:
                url = re.sub("//[^:@/]+", "//auditor", world.db.url)
                async with await Database.open(url) as db:
                    assert await db.fetchval("SELECT current_user") == "auditor"
                    report = await verify(db, deep=True)
                    assert report.ok, _shown(report)
                    assert not report.notes
            finally:
                await world.db.execute("DROP OWNED BY auditor; DROP ROLE auditor")

    asyncio.run(go())


def test_a_ledger_at_work_has_no_violations(copy_of_world: Copy) -> None:
    """Verify may run while workers do: it sees one moment, and that moment is sound."""

    async def go() -> None:
        async with copy_of_world() as world:
            working = asyncio.create_task(
                inline.run(
                    world.db, [rain(world.folder)], Tuning(anchor_seconds=0.05), until_idle=False
                )
            )
            seen: set[int] = set()
            written = itertools.count()
            try:
                while len(seen) < 6:
                    for n in itertools.islice(written, 40):
                        text = GOOD.format(f"n{n % 30}", n)
                        (world.folder / "incoming" / f"n{n % 100}.csv").write_text(text)
                    report = await verify(world.db)
                    assert report.ok, _shown(report)
                    seen.add(report.checked["entries"])
                    assert not working.done()
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
            assert (await verify(world.db, deep=True)).ok

    asyncio.run(go())


def test_what_cannot_be_checked_is_said(copy_of_world: Copy) -> None:
    """A dropped table and a missing anchor are no violations, and no silence either."""

    async def go() -> None:
        async with copy_of_world() as world:
            await world.db.execute("DROP TABLE reading")
            _anchor(world).unlink()
            report = await verify(world.db)
            assert report.ok, _shown(report)
            assert any("table reading" in note and "not there" in note for note in report.notes)
            assert any("anchor" in note for note in report.notes)

    asyncio.run(go())


def test_every_code_has_a_ledger_that_shows_it() -> None:
    """No code of verify is promised and never seen."""
    shown = set[str]().union(*(broken.codes for broken in BROKEN))
    assert shown | {"store_unreadable"} == set(HINTS)


def test_a_store_that_cannot_be_read_is_named_once(copy_of_world: Copy) -> None:
    """Verify run on the wrong machine says so, instead of naming every object."""

    async def go() -> None:
        async with copy_of_world() as world:
            await world.db.execute("UPDATE headgate.store SET uri = 's3://bucket/lake'")
            report = await verify(world.db)
            assert [v.code for v in report.violations] == ["store_unreadable"]

    asyncio.run(go())


def test_a_ledger_broken_everywhere_is_reported_within_bounds(copy_of_world: Copy) -> None:
    """A million violations do not fill the memory: the first of each code, and how many more."""

    async def go() -> None:
        async with copy_of_world() as world:
            await world.db.execute(
                "INSERT INTO headgate.work (pipeline, id, subject)"
                " SELECT 1, g, g FROM generate_series(10000, 11500) g"
            )
            report = await verify(world.db)
            assert len([v for v in report.violations if v.code == "dangling_work"]) == 1000
            assert report.omitted["dangling_work"] >= 1

    asyncio.run(go())


def _shown(report: Report) -> str:
    return "\n".join(f"{v.code} {v.entry}: {v.text}" for v in report.violations)

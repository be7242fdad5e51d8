"""`headgate verify`: what is broken is found and named, and what is sound is left in peace."""

from __future__ import annotations

import asyncio
import itertools
import re

import pytest
from tests.verify.broken import BROKEN, Broken
from tests.verify.broken_operations import BROKEN_OPERATIONS
from tests.verify.damage import anchor_file
from tests.verify.world import GOOD, Copy, archive, rain

from headgate.ledger import audit_operation
from headgate.ledger.finding import HINTS
from headgate.pg import Database
from headgate.runtime import inline
from headgate.runtime.tuning import Tuning
from headgate.runtime.verify import Report, verify


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.name.replace(" ", "_"))
def test_a_broken_ledger_is_found_and_named(copy_of_world: Copy, broken: Broken) -> None:
    """Whatever was done behind Headgate's back, verify says what, and to which entry."""

    async def go() -> None:
        async with copy_of_world() as world:
            await broken.happen(world)
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


@pytest.mark.parametrize("broken", BROKEN_OPERATIONS, ids=lambda b: b.name.replace(" ", "_"))
def test_a_broken_operation_is_found_and_named(copy_of_world: Copy, broken: Broken) -> None:
    """Nobody can change what an operation did, or leave one behind, without verify saying so."""

    async def go() -> None:
        async with copy_of_world() as world:
            await broken.happen(world)
            report = await verify(world.db, deep=broken.deep)
            assert {v.code for v in report.violations} == broken.codes, _shown(report)
            assert len(report.violations) == len(broken.codes), _shown(report)
            assert all("operation" in v.text and v.hint for v in report.violations)

    asyncio.run(go())


def test_a_lease_or_a_lock_that_ran_out_stops_nobody(copy_of_world: Copy) -> None:
    """A caller that died is no violation where nothing is left of it: the next one takes over."""

    async def go() -> None:
        async with copy_of_world() as world:
            past = "lease_until = now() - interval '1h'"
            await world.db.execute(
                f"DELETE FROM headgate.operation_call; UPDATE headgate.operation_lock SET {past};"
                f"UPDATE headgate.operation SET {past} WHERE status = 'running'"
            )
            report = await verify(world.db)
            assert report.ok, _shown(report)
            assert not report.notes
            await world.db.execute("UPDATE headgate.operation_lock SET operation = 1")
            report = await verify(world.db)
            assert report.ok, _shown(report)
            assert any("nobody waits" in note for note in report.notes)

    asyncio.run(go())


def test_operations_are_read_a_page_at_a_time(
    copy_of_world: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages end inside a journal and between operations, and nothing is lost or told twice."""

    async def go() -> None:
        async with copy_of_world() as world:
            for page, lines in itertools.product((1, 2, 6), (1, 2, 3)):
                monkeypatch.setattr(audit_operation, "PAGE", page)
                monkeypatch.setattr(audit_operation, "LINES_PAGE", lines)
                report = await verify(world.db)
                assert report.ok, _shown(report)
                assert report.checked["operation lines"] == 8

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
            assert report.checked["operations"] == 7
            assert report.checked["operation lines"] == 8
            assert report.checked["objects"] > report.checked["publications"]
            assert {what for what, _, _ in seen} == {
                "chain", "entries", "items", "operations", "tables", "watermarks", "flow", "rows",
                "objects",
            }  # fmt: skip
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
            anchor_file(world).unlink()
            report = await verify(world.db)
            assert report.ok, _shown(report)
            assert any("table reading" in note and "not there" in note for note in report.notes)
            assert any("anchor" in note for note in report.notes)

    asyncio.run(go())


def test_every_code_has_a_ledger_that_shows_it() -> None:
    """No code of verify is promised and never seen."""
    shown = set[str]().union(*(broken.codes for broken in [*BROKEN, *BROKEN_OPERATIONS]))
    assert shown | {"store_unreadable"} == set(HINTS)


def test_a_store_that_cannot_be_read_is_named_once(copy_of_world: Copy) -> None:
    """Verify run on the wrong machine says so, instead of naming every object."""

    async def go() -> None:
        async with copy_of_world() as world:
            elsewhere = "'s3://bucket/lake'"
            await world.db.execute(
                f"UPDATE headgate.store SET uri = {elsewhere};"
                f"UPDATE headgate.operation SET store = {elsewhere} WHERE store IS NOT NULL"
            )
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

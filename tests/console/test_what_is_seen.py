"""What the pages of changes, entries and quarantine show to whom."""

from __future__ import annotations

import re

import pytest
from tests.console.visit import visitor
from tests.server.doors import app_of
from tests.world import World, change

import headgate as hg
from headgate.ledger import revert

SECRET = "nest-of-the-eagle"
HIDDEN = ("/changes", "/quarantine", "/changes/{shown}", "/entries/{shown}", "/entries/{aside}",
          "/quarantine/{aside}", "/redrives", "/replays")  # fmt: skip


async def nests(world: World, access: str) -> dict[str, int]:
    """A dataset with this label: one thing published, one set aside; their entries."""
    p = world.pipeline(
        "nests",
        dataset=hg.Dataset("nests", title="Nests", license="CC-BY-4.0", access=access),  # pyright: ignore[reportArgumentType]
    )

    @p.validate
    def sound(obj: hg.Object) -> None:
        if b"bad" in obj.read():
            raise hg.Permanent(f"{SECRET} has no eggs")

    await world.receive(p, change(f"{SECRET}/good.json", b'{"a": 1}'))
    await world.receive(p, change(f"{SECRET}/worse.json", f'{{"bad": "{SECRET}"}}'))
    await world.run(p)
    return {"shown": 1, "aside": 2}


@pytest.mark.parametrize("path", HIDDEN)
async def test_a_viewer_reads_no_name_and_no_error_of_what_is_restricted(
    world: World, path: str
) -> None:
    """That something happened, when and how it ended; not what it is called or what it says."""
    entries = await nests(world, "restricted")
    app = await app_of(world.db)
    page = await (await visitor(app, world.db, "viewer")).page(path.format(**entries))
    assert SECRET not in page
    assert SECRET.upper() not in page.upper()


async def test_a_steward_reads_it_and_so_does_everybody_where_it_is_public(world: World) -> None:
    """Redaction is by label and role: what nobody restricted is there to be read."""
    entries = await nests(world, "restricted")
    app = await app_of(world.db)
    steward = await visitor(app, world.db, "steward")
    for path in HIDDEN[:-2]:
        assert SECRET in await steward.page(path.format(**entries))


async def test_what_is_restricted_is_not_found_by_its_name(world: World) -> None:
    """A list that is shorter by a filter would tell; so does a search that finds."""
    await nests(world, "restricted")
    app = await app_of(world.db)
    viewer = await visitor(app, world.db, "viewer")
    assert "good.json" not in await viewer.page(f"/changes?uri=test://{SECRET}")
    assert "No entry is known by that" in await viewer.page(f"/find?q=test://{SECRET}/good.json")
    assert (await viewer.get("/changes/1/run/summary.md")).status == 404


async def test_what_is_none_of_theirs_is_not_there(world: World) -> None:
    """A session that is limited to one pipeline sees neither entries nor figures of another."""
    entries = await nests(world, "public")
    app = await app_of(world.db)
    limited = await visitor(app, world.db, "steward", pipelines=["rain"])
    for path in ("/changes/{shown}", "/entries/{shown}", "/quarantine/{aside}"):
        assert (await limited.get(path.format(**entries))).status == 404
    for path in ("/changes", "/quarantine"):
        assert SECRET not in await limited.page(path)


async def test_a_change_says_why_it_cannot_be_undone_from_there(world: World) -> None:
    """What was replaced is taken back from what readers see now: the page leads there."""
    p = world.pipeline("rain")
    for text in (b"1", b"2"):
        await world.receive(p, change("a", text))
        await world.run(p)
    page = await (await visitor(await app_of(world.db), world.db, "steward")).page("/changes/1")
    assert "Not from here" in page
    assert 'href="/changes/2?to=1#undo"' in page


async def test_looking_at_a_preview_changes_nothing(world: World) -> None:
    """A page that shows what a revert would do does not even touch the bytes it would need."""
    p = world.pipeline("rain")

    @p.transform
    def upper(obj: hg.Object) -> dict[str, bytes]:
        return {"upper.txt": obj.read().upper()}

    for text in (b"a", b"b"):
        await world.receive(p, change("a", text))
        await world.run(p)
    before = await world.rows("SELECT digest, touched_at FROM headgate.object ORDER BY 1")
    page = await (await visitor(await app_of(world.db), world.db, "steward")).page("/changes/2")
    assert "What would change for readers" in page
    assert await world.rows("SELECT digest, touched_at FROM headgate.object ORDER BY 1") == before


async def test_the_life_of_an_entry_has_every_step_with_its_row(world: World) -> None:
    """Told twice, tried, published, taken back: each is there, and so is what proves it."""
    p = world.pipeline("rain")
    first = change("a", b"1")
    await world.receive(p, first)
    await world.receive(p, first)
    await world.run(p)
    await revert.ask(world.db, 1, because="it was wrong", actor="anna")
    await world.run(p)
    steward = await visitor(await app_of(world.db), world.db, "steward")
    page = _plain(await steward.page("/entries/1"))
    for said in ("Told again", "redelivery 1", "Attempt 1: finalized", "journal 1/1, commit 1"):
        assert said in page
    assert "anna, because: it was wrong" in _plain(await steward.page("/entries/2"))


async def test_a_change_is_found_by_its_place_in_the_feed(world: World) -> None:
    """The id that the API gives a change leads to its page."""
    p = world.pipeline("rain")
    await world.receive(p, change("a", b"1"))
    await world.run(p)
    steward = await visitor(await app_of(world.db), world.db, "steward")
    answer = await steward.get("/changes/1-1")
    assert (answer.status, answer.headers["location"]) == (303, "/changes/1")
    assert (await steward.get("/changes/9-9")).status == 404
    assert (await steward.get("/changes/nonsense")).status == 404


def _plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))

"""Search looks up what it needs, however many items there are."""

from __future__ import annotations

import random
from datetime import timedelta

from tests.server.shelf import point, shelf
from tests.world import NOON, World, change

import headgate as hg
from headgate.ledger import search
from headgate.ledger.search import Look, Question
from headgate.pg import Link

ITEMS = 50_000
# Items a minute apart, all over the world; nothing but the rows that a search reads.
FILL = f"""
    INSERT INTO headgate.item (entry, pipeline, collection, item, starts, ends, bbox)
    SELECT n, 1, 'c' || n % 5, 'i' || n, $1::timestamptz + n * interval '1 minute',
           $1::timestamptz + n * interval '1 minute',
           box(point(n % 360 - 180, n / 360 % 160 - 80),
               point(n % 360 - 179.5, n / 360 % 160 - 79.5))
    FROM generate_series(1, {ITEMS}) AS n
"""
READ = """
    SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::int
    FROM pg_stat_xact_user_tables WHERE schemaname = 'headgate'
"""
WORLD = (((-180.0, -90.0), (180.0, 90.0)), ((180.0, -90.0), (540.0, 90.0)))
VILLAGE = (((5.1, 40.1), (5.2, 40.2)), ((365.1, 40.1), (365.2, 40.2)))


def _days(first: float, last: float) -> dict[str, object]:
    return {"since": NOON + timedelta(days=first), "until": NOON + timedelta(days=last)}


QUESTIONS = {
    "everything": Question(),
    "a collection": Question(collections=("c3",)),
    "the world": Question(boxes=WORLD),
    "a village": Question(boxes=VILLAGE),
    "an hour": Question(**_days(9, 9.05)),  # pyright: ignore[reportArgumentType]
    "for ever": Question(**_days(-9, 999)),  # pyright: ignore[reportArgumentType]
    "an hour of the world": Question(boxes=WORLD, **_days(9, 9.05)),  # pyright: ignore[reportArgumentType]
    "a village for ever": Question(boxes=VILLAGE, **_days(-9, 999)),  # pyright: ignore[reportArgumentType]
    "a village too early": Question(boxes=VILLAGE, **_days(-9, -8)),  # pyright: ignore[reportArgumentType]
    "names": Question(ids=("i17", "i4711", "nobody")),
}


async def _rows_read(link: Link, look: Look, asked: Question, after: search.Place | None) -> int:
    before = await link.fetchval(READ)
    await look.search(asked, after, 100)
    return await link.fetchval(READ) - before


async def test_a_search_reads_little_of_many_items(world: World):
    """By place, by time, by both, by name, and on every page: the indexes say where to look."""
    await world.register(shelf("c0", world.lake))
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(FILL, NOON)
        look = Look(link, {1: hg.Dataset("c0")})
        for what, asked in QUESTIONS.items():
            for after in (None, ("c2", "i3")):
                read = await _rows_read(link, look, asked, after)
                assert read < 5_000, f"{what} after {after} reads {read} rows"
        await link.execute("ROLLBACK")


async def test_what_is_hidden_does_not_slow_what_is_shown(world: World):
    """A reader of a few public items does not wait for the many that are not theirs."""
    await world.register(shelf("c0", world.lake))
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(FILL, NOON)
        await link.execute(
            "INSERT INTO headgate.item SELECT entry + 1000000, 2, 'z', item, starts, ends, bbox"
            " FROM headgate.item WHERE entry <= 50"
        )
        look = Look(link, {2: hg.Dataset("z")}, everything=False)
        for what in ("everything", "names"):
            read = await _rows_read(link, look, QUESTIONS[what], None)
            assert read < 500, f"{what} reads {read} rows"
        assert len(await look.search(Question(), None, 100)) == 50
        assert list(await look.collections()) == ["z"]
        await link.execute("ROLLBACK")


async def test_both_ways_to_a_page_find_the_same(world: World, monkeypatch):
    """Gathered and sorted, or met on a walk: the same items in the same order."""
    await world.register(shelf("c0", world.lake))
    dice = random.Random(7)
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(FILL.replace(str(ITEMS), "2000"), NOON)
        look = Look(link, {1: hg.Dataset("c0")})
        for _ in range(30):
            x, y = dice.uniform(-180, 100), dice.uniform(-80, -70)
            box = ((x, y), (x + 60, y + 9))
            asked = Question(
                boxes=(box, ((x + 360, y), (x + 420, y + 9))),
                since=NOON + timedelta(minutes=dice.randrange(1000)),
            )
            after = dice.choice([None, ("c2", "i3"), ("c4", "i99")])
            found = []
            for enough in (0, 10_000):
                monkeypatch.setattr(search, "ENOUGH", enough)
                found.append(await look.search(asked, after, 20))
            assert found[0] == found[1]
        await link.execute("ROLLBACK")


async def test_an_item_of_several_objects_is_found_once(world: World):
    """Wherever one of its objects is, and with all of them."""
    p = hg.Pipeline("tiles", store=str(world.lake), dataset="tiles")

    @p.item(item=lambda obj: "tile")
    def where(item: dict, obj: hg.Object) -> None:
        x = float(obj.text())
        item["geometry"], item["bbox"] = point(x, 0), [x, 0, x, 0]

    await world.receive(p, change("a", b"1"), change("b", b"50"), change("c", b"100"))
    await world.work(p)
    async with search.look(world.db, restricted=False) as look:
        (one,) = await look.search(Question(), None, 10)
        assert len(one.entries) == 3
        for x in (1, 50, 100):
            box = ((x - 1, -1), (x + 1, 1))
            (found,) = await look.search(Question(boxes=(box, ((900, 0), (901, 1)))), None, 10)
            assert found == one
        assert await look.search(Question(), one.place, 10) == []

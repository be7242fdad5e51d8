"""What comes late, renamed, several at once or under another name still has one right end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypedDict

from tests.world import World, change

import headgate as hg


class Row(TypedDict):
    name: str
    text: str


def texts(world: World, name: str = "p", **declared: object) -> hg.Pipeline:
    """A pipeline that keeps the text of each object."""
    pipeline = world.pipeline(name, **declared)

    @pipeline.rows("texts", key="name", schema=Row)
    def rows(obj: hg.Object):
        yield {"name": obj.name, "text": obj.text()}

    return pipeline


async def test_a_change_older_than_one_that_brought_the_same_bytes_is_stale(world: World):
    """A, A again, then late B from between them: A is the truth, and stays."""
    pipeline = texts(world)
    for data, sequence in (("A", 1), ("A", 3), ("B", 2)):
        await world.receive(pipeline, change("x", data, sequence=sequence))
        await world.run(pipeline)
    assert await world.table("texts", "text") == [("A",)]
    assert await world.outcomes() == {
        "finalized": 1,
        "skipped:unchanged": 1,
        "skipped:stale": 1,
    }


async def test_changes_of_one_uri_in_one_batch_are_done_in_the_order_they_were_told(world: World):
    """A → B → A, all in one delivery: three publications, and A is what readers see."""
    pipeline = texts(world)
    told = [change("x", data, sequence=n) for n, data in enumerate("ABA", 1)]
    others = [change(f"other-{n}", "o") for n in range(50)]
    await world.receive(pipeline, *told[:1], *others[:25], told[1], *others[25:], told[2])
    await world.run(pipeline)
    assert (3, "x") in [
        (version, uri.removeprefix("test://"))
        for version, uri in await world.rows(
            "SELECT version, uri FROM headgate.publication WHERE successor IS NULL"
        )
    ]
    assert ("x", "A") in await world.table("texts", "name", "text")


async def test_a_source_that_is_renamed_goes_on_where_it_was(world: World):
    """The folder is the same, its source is called something else: no later change is lost."""
    pipeline = texts(world, sources=[world.directory(settle=0)])
    for text in ("one", "two", "three"):
        world.put("a.txt", text)
        await world.run(pipeline)
    renamed = texts(world, sources=[world.directory(settle=0, name="inbox")])
    world.put("a.txt", "four")
    await world.run(renamed)
    assert await world.table("texts", "text") == [("four",)]


async def test_a_new_column_that_was_rolled_back_harms_nobody(world: World):
    """The batch that adds a column fails; what comes after is written as ever."""
    pipeline = world.pipeline()

    @pipeline.rows("texts", key="name", schema=Row, new_columns="add")
    def rows(obj: hg.Object):
        extra = {"more": "x"} if "new" in obj.name else {}
        yield {"name": obj.name, "text": obj.text(), **extra}

    await world.run(pipeline)
    await world.db.execute("ALTER TABLE texts ADD CHECK (text <> 'bad')")
    await world.receive(pipeline, change("new-1", "ok"), change("plain-1", "bad"))
    await world.run(pipeline)
    await world.receive(pipeline, *(change(f"plain-{n}", "ok") for n in range(2, 6)))
    await world.run(pipeline)
    assert await world.count("texts") == 5
    assert len(await world.quarantined()) == 1


async def test_many_changes_of_one_uri_under_different_subjects_all_end(world: World):
    """Sources that name subjects of their own may claim one uri several times at once."""
    pipeline = texts(world)
    told = [change("x", f"{n}", sequence=n, subject=f"s{n}") for n in range(1, 6)]
    await world.receive(pipeline, *told)
    await world.run(pipeline)
    assert await world.table("texts", "text") == [("5",)]


async def test_while_something_is_down_another_entry_can_always_look(world: World):
    """The older of two entries of one subject is due later: the lane does not stand still."""
    pipeline = texts(world)
    await world.receive(pipeline, change("x", "1", sequence=1))
    await world.receive(pipeline, change("x", "2", sequence=2))
    past = datetime.now(UTC) - timedelta(seconds=60)
    await world.db.execute(
        "UPDATE headgate.work SET upstream = 7,"
        " due_at = $1::timestamptz - make_interval(secs => id)",
        past,
    )
    path, worker = await world.path(pipeline), await world.worker()
    first = await world.claim(path, worker, 10)
    assert [c.sequence[-1] for c in first if c.sequence] == ["1"]
    assert await world.claim(path, worker, 10) == []
    await world.finish(path, first)
    second = await world.claim(path, worker, 10)
    assert len(second) == 1
    await world.finish(path, second)

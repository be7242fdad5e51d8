"""Facts: what the ledger tells about an attempt, and what a delta makes of two versions."""

from __future__ import annotations

from tests.world import World, change

import headgate as hg
from headgate.ledger import facts
from headgate.model import delta


async def test_facts_hold_both_versions_and_what_replaced_them(world: World) -> None:
    """What was published, what it replaced and what replaced it are read from one place."""
    p = world.pipeline(dataset="soil")

    @p.transform
    def upper(obj: hg.Object) -> dict[str, bytes]:
        return {"upper.txt": obj.read().upper()}

    await world.receive(p, change("a", b"one", minute=1))
    await world.run(p)
    await world.receive(p, change("a", b"two", minute=2))
    await world.run(p)

    first, second = await facts.page(world.db, [1], 0, 100)
    assert first.version is not None
    assert second.version is not None
    assert first.before is None
    assert second.before == first.version
    assert (first.successor, second.successor) == ((second.entry, second.run), None)
    assert first.dataset == hg.Dataset("soil")
    assert [(f.name, f.size) for f in second.version.files] == [("data", 3), ("upper.txt", 3)]

    made = delta.read(delta.manifest(second))
    before = {f.name: f for f in first.version.files}
    after = {f.name: f for f in second.version.files}
    assert made.apply(before) == after
    assert made.inverse().apply(after) == before


async def test_a_failure_says_which_code_failed_on_which_bytes(world: World) -> None:
    """What was set aside can be told as fully as what was published."""
    p = world.pipeline(version="7")

    @p.validate
    def never(obj: hg.Object) -> None:
        raise hg.Permanent("no good")

    await world.receive(p, change("a", b"one"))
    await world.run(p)

    (failed,) = await facts.of_entry(world.db, 1)
    assert (failed.outcome, failed.error_class, failed.version) == ("quarantined", "schema", None)
    assert failed.pipeline_version == "7"
    assert failed.content is not None
    assert failed.error is not None


async def test_a_later_declaration_does_not_rewrite_what_was_done(world: World) -> None:
    """What a run tells of its pipeline is what was declared then, on what it ran on then."""
    first = world.pipeline(dataset=hg.Dataset("soil", title="Soil"))
    await world.receive(first, change("a", b"one", minute=1))
    await world.run(first)
    again = world.pipeline(dataset=hg.Dataset("soil", title="Soil moisture"))
    await world.receive(again, change("a", b"two", minute=2))
    await world.run(again)

    titles = [f.dataset.title for f in await facts.page(world.db, [1], 0, 100) if f.dataset]
    assert titles == ["Soil", "Soil moisture"]

"""The live channel: what moves on the console's pages."""

from __future__ import annotations

from tests.server.doors import app_of, ask
from tests.server.streaming import Reader, served
from tests.world import World, change

import headgate as hg
from headgate.ledger import redrive
from headgate.ledger import token as tokens
from headgate.model.redrive import Terms


async def _reads_until(reader: Reader, stream: object, name: str) -> None:
    while not reader.told(name):
        assert await reader.read(stream, 1)  # type: ignore[arg-type]


async def test_pages_are_told_what_moves(world: World):
    """Figures at once and when they change; each change; each plan."""
    p = world.pipeline()

    @p.validate
    def good(obj):
        assert obj.read() != b"bad"

    await world.receive(p, change("a", b"1"))
    token = (await tokens.make(world.db, "test", "viewer", 60)).token
    async with served(await app_of(world.db)) as port:
        reader = Reader(port, token, "/live")
        stream = await reader.open()
        await _reads_until(reader, stream, "flow")
        (before,) = reader.told("flow")
        assert (before["pipeline"], before["new"], before["finalized"]) == ("p", 1, 0)
        await world.receive(p, change("b", b"bad"))
        await world.run(p)
        while len(reader.told("change")) < 2:
            assert await reader.read(stream, 1)
        assert {c["outcome"] for c in reader.told("change")} == {"finalized", "quarantined"}
        while reader.told("flow")[-1]["finalized"] < 1:
            assert await reader.read(stream, 1)
        await redrive.plan(world.db, redrive.Wanted(), Terms(), because="a test", actor="me")
        await _reads_until(reader, stream, "redrive")
        (plan,) = reader.told("redrive")
        assert (plan["state"], plan["total"], plan["pipelines"]) == ("planned", 1, ["p"])


async def test_nobody_is_told_about_pipelines_that_are_not_theirs(world: World):
    """A token for one pipeline sees that one move; what is restricted is not named."""
    soil = world.pipeline("soil", dataset=hg.Dataset("soil", access="restricted"))
    rain = world.pipeline("rain")
    token = (await tokens.make(world.db, "test", "viewer", 60, pipelines=["soil"])).token
    await world.register(soil)
    await world.register(rain)
    app = await app_of(world.db)
    async with served(app) as port:
        reader = Reader(port, token, "/live")
        stream = await reader.open()
        await _reads_until(reader, stream, "flow")
        await world.receive(rain, change("a", b"1"))
        await world.run(rain)
        await world.receive(soil, change("secret", b"1"))
        await world.run(soil)
        await _reads_until(reader, stream, "change")
    assert {c["pipeline"] for c in reader.told("change")} == {"soil"}
    assert {c["source_uri"] for c in reader.told("change")} == {"restricted"}
    assert {f["pipeline"] for f in reader.told("flow")} == {"soil"}
    assert (await ask(app, "GET", "/live")).reason == "token_needed"

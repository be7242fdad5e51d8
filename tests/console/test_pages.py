"""Pages as any browser gets them: complete without a script."""

from __future__ import annotations

from importlib import resources

import pytest
from tests.console.visit import visitor
from tests.server.doors import app_of
from tests.world import World, change


async def test_an_empty_ledger_says_how_to_begin(world: World) -> None:
    """The first page of a new ledger is no error and no blank: it names the command."""
    page = await (await visitor(await app_of(world.db), world.db)).page("/")
    assert "No pipeline has run on this ledger yet." in page
    assert "headgate up FILE.py" in page


async def test_what_is_wrong_comes_first(world: World) -> None:
    """An entry in quarantine is named with its reason, before any figure."""
    p = world.pipeline("rain")

    @p.validate
    def sound(obj: object) -> bool:
        raise ValueError("no gauge")

    await world.receive(p, change("a", b"1"))
    await world.run(p)
    page = await (await visitor(await app_of(world.db), world.db)).page("/")
    said = page.index("rain: 1 entry in quarantine")
    assert said < page.index("Received")
    assert "headgate quarantine list --pipeline rain" in page


@pytest.mark.parametrize("name", ["console.css", "live.js", "icon.svg"])
def test_its_files_come_with_the_package(name: str) -> None:
    """What a page needs is where an installed package looks for it."""
    found = resources.files("headgate.server.console") / "static" / name
    assert found.read_bytes()

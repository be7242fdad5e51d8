"""Pages as any browser gets them: complete without a script."""

from __future__ import annotations

from importlib import resources

import pytest
from tests.server.doors import app_of, ask
from tests.world import World, change

HERE = ("127.0.0.1", 4711)
BROWSER = {"accept": "text/html,application/xhtml+xml", "host": "127.0.0.1:8420"}


async def test_an_empty_ledger_says_how_to_begin(world: World) -> None:
    """The first page of a new ledger is no error and no blank: it names the command."""
    app = await app_of(world.db)
    answer = await ask(app, "GET", "/", BROWSER, client=HERE)
    assert answer.status == 200
    page = answer.body.decode()
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
    page = (await ask(await app_of(world.db), "GET", "/", BROWSER, client=HERE)).body.decode()
    said = page.index("rain: 1 entry in quarantine")
    assert said < page.index("Received")
    assert "headgate quarantine list --pipeline rain" in page


@pytest.mark.parametrize("name", ["console.css", "live.js", "icon.svg"])
def test_its_files_come_with_the_package(name: str) -> None:
    """What a page needs is where an installed package looks for it."""
    found = resources.files("headgate.server.console") / "static" / name
    assert found.read_bytes()

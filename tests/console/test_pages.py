"""Pages as any browser gets them: complete without a script."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.console.visit import hidden, visitor
from tests.server.doors import app_of, ask
from tests.world import World, change

from headgate.ledger import quarantine
from headgate.server.console.page import static

ROOT = Path(__file__).parents[2]


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


def test_a_wheel_has_all_that_pages_need(tmp_path: Path) -> None:
    """Templates, the style sheet and the script are in what people install."""
    building = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(building, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        names = set(built.namelist())
    folder = ROOT / "src" / "headgate" / "server" / "console"
    needed = [p for part in ("static", "templates") for p in (folder / part).iterdir()]
    assert len(needed) > 10
    assert {str(path.relative_to(ROOT / "src")) for path in needed} <= names


async def test_a_file_is_kept_for_as_long_as_it_is_the_same(world: World) -> None:
    """Its address has its digest: a browser asks again only after an upgrade."""
    app = await app_of(world.db)
    where = static("console.css")
    first = await ask(app, "GET", where)
    assert first.status == 200
    assert "immutable" in first.headers["cache-control"]
    assert first.headers["content-type"].startswith("text/css")
    bare = where.partition("?")[0]
    again = await ask(app, "GET", bare, {"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["cache-control"] == "no-cache"
    assert (await ask(app, "GET", "/console/static/page.py")).status == 404


async def test_a_spent_budget_is_overridden_from_its_page(world: World) -> None:
    """An operator goes on, with a reason that Activity shows; a viewer has no button for it."""
    await world.register(world.pipeline("rain"))
    await world.db.execute("UPDATE headgate.pipeline SET spent_at = clock_timestamp()")
    app = await app_of(world.db)
    operator, viewer = (
        await visitor(app, world.db, "operator"),
        await visitor(app, world.db, "viewer"),
    )
    assert "Go on all the same" not in await viewer.page("/pipelines/rain")
    assert "rain: too many attempts fail" in await viewer.page("/")
    page = await operator.page("/pipelines/rain")
    said = {"csrf": hidden(page, "csrf"), "pipeline": "rain", "seconds": "900", "because": "calm"}
    done = await operator.post("/console/actions/budget_override", said)
    assert (done.status, done.headers["location"]) == (303, "/pipelines/rain")
    assert "overridden" in await operator.page("/pipelines/rain")
    told = await viewer.page("/activity")
    assert "night shift" in told
    assert "calm" in told


async def test_a_deed_about_many_is_told_once(world: World) -> None:
    """Forty entries that were released at once are one line, and the next page goes on after it."""
    p = world.pipeline("rain")

    @p.validate
    def sound(obj: object) -> bool:
        raise ValueError("no gauge")

    await world.receive(p, *[change(f"{n}", b"1") for n in range(40)])
    await world.run(p)
    held = [row[0] for row in await world.rows("SELECT entry FROM headgate.quarantine")]
    await quarantine.discard(world.db, held, because="test data", actor="ann")
    page = await (await visitor(await app_of(world.db), world.db)).page("/activity")
    assert "40 entries" in page
    assert page.count("test data") == 1


async def test_two_deeds_with_the_same_words_stay_two(world: World) -> None:
    """Whoever signs in twice is told twice."""
    for _ in range(2):
        await world.db.execute(
            "INSERT INTO headgate.action (actor, verb, because) VALUES ('ann', 'look', 'a hunch')"
        )
    page = await (await visitor(await app_of(world.db), world.db)).page("/activity")
    assert page.count("a hunch") == 2

"""The examples that use operations in other people's frameworks do what they say.

Airflow and Celery are not installed for the tests: without them the files are plain Python, and
their task functions are called as functions.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
from tests.shop import serving
from tests.world import World

import headgate as hg

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def shared_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def make_table(world: World, module: ModuleType) -> None:
    """As its first lines say."""
    lines = (module.__doc__ or "").splitlines()
    (create,) = [line for line in lines if "CREATE TABLE" in line]
    await world.db.execute(create)


async def test_the_airflow_task_loads_a_day_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleared and run again, it returns the first result; another day is another load."""
    monkeypatch.setenv("SALES_FOLDER", str(tmp_path))
    airflow = example("airflow_task")
    await make_table(world, airflow)
    for day in ("2026-11-15", "2026-11-16"):
        (tmp_path / f"{day}.csv").write_text("shop,cents\nnorth,100\nsouth,250\n")
    assert airflow.load_sales("2026-11-15") == {"day": "2026-11-15", "rows": 2}
    (tmp_path / "2026-11-15.csv").unlink()
    assert airflow.load_sales("2026-11-15") == {"day": "2026-11-15", "rows": 2}
    airflow.load_sales("2026-11-16")
    assert await world.count("sales") == 4
    with pytest.raises(FileNotFoundError):
        airflow.load_sales("2026-11-17")
    assert await world.count("sales") == 4


async def test_the_celery_task_charges_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivered twice, also after a crash behind the bank's back: one payment, one key."""
    celery = example("celery_task")
    await make_table(world, celery)
    asked: list[str] = []

    def bank(key: str, order_id: str, cents: int) -> str:
        asked.append(key)
        if len(asked) == 1:
            raise ConnectionError
        return "receipt"

    monkeypatch.setattr(celery, "ask_bank", bank)
    with pytest.raises(ConnectionError):
        celery.charge("o1", 500)
    first, again = celery.charge("o1", 500), celery.charge("o1", 500)
    assert first == again == {"order": "o1", "receipt": "receipt"}
    assert len(asked) == 2
    assert len(set(asked)) == 1
    with pytest.raises(hg.Conflict):
        celery.charge("o1", 700)
    assert await world.table("payments", "order_id", "cents") == [("o1", 500)]


async def test_the_fastapi_example_takes_an_order_once(world: World) -> None:
    """The curl of its first lines, twice: one order, and the second answer says so."""
    module = example("fastapi_idempotency")
    await make_table(world, module)

    async def post(path: str, key: str | None, body: Any = None) -> tuple[int, Any, bool]:
        headers = {"Idempotency-Key": key} if key else {}
        async with session.post(url + path, json=body, headers=headers) as got:
            return got.status, await got.json(), "Idempotent-Replayed" in got.headers

    order = {"item": "book", "pieces": 1}
    async with serving(module.app) as url, aiohttp.ClientSession() as session:
        assert await post("/orders", "8e03978e", order) == (
            201,
            {"order": 1, "item": "book"},
            False,
        )
        assert await post("/orders", "8e03978e", order) == (201, {"order": 1, "item": "book"}, True)
        assert (await post("/orders", "8e03978e", {**order, "pieces": 2}))[0] == 409
        assert (await post("/orders", None, order))[0] == 400
        for replayed in (False, True):
            assert await post("/orders/1/cancel", "c1") == (200, {"cancelled": 1}, replayed)
            assert (await post("/orders/1/cancel", "c2"))[::2] == (404, replayed)
    assert await world.count("orders") == 0


def test_every_file_of_the_examples_is_run_here() -> None:
    """A file that no test runs would rot."""
    here = Path(__file__).read_text()
    assert not [f.name for f in EXAMPLES.glob("*.py") if f'"{f.stem}"' not in here]

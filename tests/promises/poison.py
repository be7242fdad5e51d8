"""Bad work among good: it is set aside with its reason, and the good work does not notice."""

from __future__ import annotations

import hashlib
import random
from typing import Any, TypedDict

import orjson
import pytest
from tests.world import World, change

import headgate as hg


class Row(TypedDict):
    id: int


async def test_one_percent_of_poison_harms_nobody(world: World) -> None:
    """Every hundredth of 3,000 files is broken in one of five ways; 2,970 are published."""
    p = world.pipeline()
    ways = ["not a number", "refused", "crash", "missing field", "retryable"]

    @p.validate
    def acceptable(obj: hg.Object) -> None:
        if obj.text() == "refused":
            raise hg.Permanent("refused by its validator", reason="refused")

    @p.rows("item", key="id", schema=Row)
    def item(obj: hg.Object) -> Any:
        text = obj.text()
        if text == "crash":
            raise ZeroDivisionError("a bug in the handler")
        if text == "retryable":
            raise hg.Retryable("never works", reason="flaky")
        yield {} if text == "missing field" else {"id": text}

    told = [change(f"o{n}", ways[n // 100 % 5] if n % 100 == 50 else str(n)) for n in range(3000)]
    random.Random(4).shuffle(told)
    await world.receive(p, *told)
    await world.work(p, workers=2)
    assert await world.count("item") == 2970
    reasons: dict[str, int] = {}
    for _, reason, _ in await world.quarantined():
        reasons[reason] = reasons.get(reason, 0) + 1
    assert reasons == {"schema": 12, "refused": 6, "ZeroDivisionError": 6, "flaky": 6}
    good = "SELECT max(attempt) FROM headgate.journal WHERE outcome = 'finalized'"
    assert await world.val(good) == 1


@pytest.mark.parametrize("step", ["transform", "apply"])
async def test_what_is_quarantined_says_enough_to_decide(world: World, step: str) -> None:
    """Class, reason, error, the beginning of the payload, its digest and the failures before."""
    p = world.pipeline()

    def fail(obj: hg.Object, run: hg.Run) -> None:
        raise ValueError(f"attempt {run.attempt} failed")

    if step == "transform":
        p.transform(fail)
    else:
        p.apply(lambda tx, obj, run: fail(obj, run))
    await world.receive(p, change("a", "the payload"))
    await world.run(p)
    row = await world.db.fetchrow("SELECT * FROM headgate.quarantine")
    assert row is not None
    assert (row["class"], row["reason"], row["attempts"]) == ("exhausted", "ValueError", 3)
    assert row["error"] == "ValueError: attempt 3 failed"
    assert "the payload" in row["preview"]
    assert row["content"] == hashlib.sha256(b"the payload").digest()
    failures = [f["error"] for f in orjson.loads(row["failures"])]
    assert failures == [f"ValueError: attempt {n} failed" for n in (1, 2, 3)]


async def test_an_error_text_that_no_database_can_hold_still_quarantines(world: World) -> None:
    """NUL characters, half surrogates and megabytes in an error cost nothing but the error."""
    p = world.pipeline()

    class Awful(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even a text")

    errors: list[Exception] = [
        ValueError("nul \0 and \ud800 and " + "long " * 100_000),
        Awful(),
        hg.Permanent("nul \0", reason="with \0 nul"),
    ]

    @p.transform
    def fail(obj: hg.Object) -> None:
        if obj.text() != "good":
            raise errors[int(obj.text())]

    told = [change("good", "good"), *(change(f"o{n}", str(n)) for n in range(3))]
    await world.receive(p, *told)
    await world.run(p)
    assert len(await world.quarantined()) == 3
    assert (await world.outcomes())["finalized"] == 1


async def test_a_bytes_object_that_is_no_text_is_named(world: World) -> None:
    """A handler that reads text from something else gets a schema error with the byte's place."""
    p = world.pipeline()

    @p.rows("item", key="id", schema=Row)
    def item(obj: hg.Object) -> Any:
        yield {"id": obj.text()}

    await world.receive(p, change("a", b"12\xff"))
    await world.run(p)
    ((classed, reason, error),) = await world.quarantined()
    assert (classed, reason) == ("schema", "not_text")
    assert "byte 2" in error

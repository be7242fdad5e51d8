"""What an author may write, what is refused at once, and what becomes of each kind of error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict

import pytest
from tests.world import World, change, until

import headgate as hg
from headgate import errors
from headgate.errors import PipelineError, UsageError
from headgate.ledger import quarantine
from headgate.model.object import Object


class Row(TypedDict):
    id: int


def pipeline() -> hg.Pipeline:
    return hg.Pipeline("p")


@pytest.mark.parametrize(
    ("declare", "right"),
    [
        (lambda p: p.validate(lambda: None), "(obj, run)"),
        (lambda p: p.validate(lambda a, b, c: None), "(obj, run)"),
        (lambda p: p.transform(lambda *, obj: None), "(obj, run)"),
        (lambda p: p.rows("t", key="id", schema=Row)(lambda: None), "(obj, run)"),
        (lambda p: p.apply(lambda tx: None), "(tx, obj, run)"),
        (lambda p: p.apply(lambda tx, obj, run, more: None), "(tx, obj, run)"),
        (lambda p: p.apply(7), "(tx, obj, run)"),
    ],
)
def test_a_wrong_signature_is_refused_at_import_with_the_right_one(
    declare: Callable[[hg.Pipeline], Any], right: str
) -> None:
    """The author reads what to write before anything runs."""
    with pytest.raises(PipelineError) as refused:
        declare(pipeline())
    assert right in refused.value.hint


@pytest.mark.parametrize(
    "declare",
    [
        lambda p: p.validate(lambda obj: None),
        lambda p: p.validate(lambda obj, run: None),
        lambda p: p.transform(lambda obj, run=None: None),
        lambda p: p.rows("t", key="id", schema=Row)(lambda obj, *rest: None),
        lambda p: p.apply(lambda tx, obj: None),
        lambda p: p.apply(independent=True)(lambda tx, obj, run: None),
    ],
)
def test_a_handler_takes_what_it_needs(declare: Callable[[hg.Pipeline], Any]) -> None:
    """Trailing arguments may be left out, and arguments of one's own may have defaults."""
    declare(pipeline())


@pytest.mark.parametrize(
    "declare",
    [
        lambda: hg.Pipeline("Not A Name"),
        lambda: hg.Pipeline("p", version=1),  # pyright: ignore[reportArgumentType]
        lambda: hg.Pipeline("p", removed="maybe"),  # pyright: ignore[reportArgumentType]
        lambda: hg.Pipeline("p", params={"a": object()}),
        lambda: pipeline().rows("t", key="nope", schema=Row),
        lambda: pipeline().rows("t; DROP TABLE t", key="id", schema=Row),
        lambda: pipeline().rows("t", key="id", schema=Row, new_columns="eat"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_declaration_that_cannot_work_is_refused(declare: Callable[[], Any]) -> None:
    """What cannot be kept is refused when it is said, as a mistake of the author's."""
    with pytest.raises(PipelineError):
        declare()


FATES = [
    # raised by a handler, class, reason, attempts
    (hg.Retryable("again"), "exhausted", "retryable", 3),
    (hg.Retryable("again", reason="mine"), "exhausted", "mine", 3),
    (ValueError("unknown"), "exhausted", "ValueError", 3),
    (hg.Permanent("never"), "permanent", "permanent", 1),
    (hg.Permanent("never", reason="mine"), "permanent", "mine", 1),
    (errors.SchemaError("not this"), "schema", "schema", 1),
    (errors.PermissionDenied("not you"), "permission", "permission", 1),
    (errors.ObjectMissing("not there"), "missing", "missing_object", 3),
]


@pytest.mark.parametrize("step", ["transform", "rows", "apply"])
async def test_a_class_is_a_fate(world: World, step: str) -> None:
    """Retryable and unknown errors are tried up to the cap, permanent ones once."""
    p = world.pipeline()

    def fail(obj: Object) -> None:
        raise FATES[int(obj.text())][0]

    match step:
        case "transform":
            p.transform(fail)
        case "rows":
            p.rows("item", key="id", schema=Row)(fail)
        case _:
            p.apply(lambda tx, obj: fail(obj))
    await world.receive(p, *(change(f"o{n}", str(n)) for n in range(len(FATES))))
    await world.run(p)
    found = await world.rows(
        "SELECT convert_from(e.data, 'UTF8')::int, q.class, q.reason, q.attempts"
        " FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry ORDER BY 1"
    )
    assert found == [(n, *fate[1:]) for n, fate in enumerate(FATES)]


VALIDATIONS = [
    (hg.Permanent("empty"), "schema", "validation", 1),
    (hg.Permanent("empty", reason="empty"), "schema", "empty", 1),
    (ValueError("anything"), "schema", "validation", 1),
    (AssertionError(), "schema", "validation", 1),
    (errors.PermissionDenied("not you"), "permission", "permission", 1),
    (hg.Retryable("not yet"), "exhausted", "retryable", 3),
]


async def test_what_a_validator_raises_is_permanent_unless_it_says_otherwise(world: World) -> None:
    """A failed validation is one rollback: nothing promoted, and the journal shows the way."""
    p = world.pipeline()

    @p.validate
    def check(obj: hg.Object) -> None:
        raise VALIDATIONS[int(obj.text())][0]

    await world.receive(p, *(change(f"o{n}", str(n)) for n in range(len(VALIDATIONS))))
    await world.run(p)
    found = await world.rows(
        "SELECT convert_from(e.data, 'UTF8')::int, q.class, q.reason, q.attempts"
        " FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry ORDER BY 1"
    )
    assert found == [(n, *fate[1:]) for n, fate in enumerate(VALIDATIONS)]
    first = await world.val("SELECT id FROM headgate.entry WHERE data = '0'")
    assert await world.attempts(first) == ["claimed fetched failed rolled_back quarantined"]
    assert await world.count("headgate.publication") == 0


async def test_a_finalized_entry_has_walked_the_whole_path(world: World) -> None:
    """The journal of a change that went well names every step."""
    p = world.pipeline()
    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert await world.attempts() == ["claimed fetched validated staged promoted finalized"]


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_retries_end_exactly_at_the_cap(world: World, attempts: int) -> None:
    """`attempts` is how often it is tried in all: not once more, not once less."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", attempts, 60, 0.01, 0.02, "full"))
    seen: list[int] = []

    @p.transform
    def fail(obj: hg.Object, run: hg.Run) -> None:
        seen.append(run.attempt)
        raise hg.Retryable("again")

    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert seen == list(range(1, attempts + 1))
    wanted = ["claimed fetched validated failed waiting"] * (attempts - 1)
    wanted += ["claimed fetched validated failed rolled_back quarantined"]
    assert await world.attempts() == wanted


async def test_an_entry_that_recovers_leaves_its_failures_in_the_journal(world: World) -> None:
    """Two failures and a success: three lines, one publication."""
    p = world.pipeline()

    @p.transform
    async def third_time_lucky(obj: hg.Object, run: hg.Run) -> None:
        if run.attempt < 3:
            raise hg.Retryable("again", reason="flaky")

    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert await world.outcomes() == {"waiting:flaky": 2, "finalized": 1}


async def test_an_outage_is_waited_out_past_the_cap_by_one_probe_at_a_time(world: World) -> None:
    """`unavailable` goes on at the cap's pace; one entry asks, and its success frees the others."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 2, 60, 0.01, 0.1, "full"))
    down, asking, most, asked = True, 0, 0, 0

    @p.transform
    async def ask(obj: hg.Object, run: hg.Run) -> None:
        nonlocal asking, most, asked
        if run.attempt > 2:
            asking += 1
            asked += 1
            most = max(most, asking)
        await asyncio.sleep(0.01)
        if run.attempt > 2:
            asking -= 1
        if down:
            raise hg.Unavailable("503", upstream="weather.example")

    await world.receive(p, *(change(f"o{n}", "x") for n in range(12)))
    running = asyncio.create_task(world.work(p, workers=2))

    async def went_on() -> bool:
        return asked >= 10

    await until(went_on)
    assert most == 1, "one probe per upstream at a time"
    assert await world.quarantined() == []
    down = False
    await running
    assert (await world.outcomes())["finalized"] == 12


async def test_an_outage_ends_in_quarantine_when_the_budget_is_spent(world: World) -> None:
    """Waiting has an end too, and the reason is still the outage."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 2, 0.5, 0.01, 0.1, "full"))

    @p.transform
    def ask(obj: hg.Object) -> None:
        raise hg.Unavailable("503", upstream="weather.example")

    await world.receive(p, change("a", "x"))
    await world.run(p)
    ((classed, reason, _),) = await world.quarantined()
    assert (classed, reason) == ("exhausted", "unavailable")
    assert await world.count("headgate.journal") > 2


async def test_a_released_entry_starts_anew(world: World) -> None:
    """After the repair it has all its attempts again, the same key, and who let it go is kept."""
    p = world.pipeline()
    repaired = False

    @p.transform
    def fail(obj: hg.Object, run: hg.Run) -> None:
        if not repaired or run.attempt < 3:
            raise hg.Retryable("broken")

    await world.receive(p, change("a", "x"))
    await world.run(p)
    (entry,) = await world.rows("SELECT entry FROM headgate.quarantine")
    repaired = True
    assert await world.release(*entry, because="the handler is repaired") == list(entry)
    assert await world.release(*entry) == [], "a second release finds nothing"
    await world.run(p)
    assert (await world.outcomes())["finalized"] == 1
    assert await world.rows("SELECT verb, because, entry FROM headgate.action") == [
        ("release", "the handler is repaired", *entry)
    ]
    assert "quarantined received" in await world.attempts()


async def test_a_discarded_entry_is_over_and_its_duplicate_too(world: World) -> None:
    """A person decided: it is rolled back for good, and being told again does not revive it."""
    p = world.pipeline()

    @p.validate
    def never(obj: hg.Object) -> None:
        raise hg.Permanent("never")

    told = change("a", "x")
    await world.receive(p, told)
    await world.run(p)
    (entry,) = await world.rows("SELECT entry FROM headgate.quarantine")
    with pytest.raises(UsageError, match="reason"):
        await quarantine.discard(world.db, entry, because="  ")
    assert await quarantine.discard(world.db, entry, because="not ours") == list(entry)
    assert (await world.receive(p, told)).duplicates == 1
    await world.run(p)
    assert await world.count("headgate.quarantine") == await world.count("headgate.work") == 0
    assert (await world.attempts())[-1] == "quarantined rolled_back"


async def test_a_quarantined_change_does_not_hold_up_the_next_of_its_uri(world: World) -> None:
    """latest_wins: the newer version is published; the older one, released later, is stale."""
    p = world.pipeline()
    broken = True

    @p.validate
    def check(obj: hg.Object) -> None:
        if broken and obj.text() == "old":
            raise hg.Permanent("broken")

    await world.receive(p, change("a", "old"))
    await world.run(p)
    await world.receive(p, change("a", "new", minute=1))
    await world.run(p)
    broken = False
    await world.release(await world.val("SELECT entry FROM headgate.quarantine"))
    await world.run(p)
    ended = await world.outcomes()
    assert (ended["finalized"], ended["skipped:stale"]) == (1, 1)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_an_object_is_what_the_source_said(world: World, kind: str) -> None:
    """uri, digest, size, event time, and the bytes as text, lines, JSON or a stream."""
    p = world.pipeline(params={"unit": "mm"})
    seen: list[Any] = []

    def look(obj: hg.Object, run: hg.Run) -> None:
        assert (obj.uri, obj.name, obj.size) == ("test://folder/a.json", "a.json", 10)
        assert len(obj.digest) == 64
        assert obj.event_time == obj.envelope.event_time
        assert obj.json() == {"a": [1]}
        assert obj.text() == obj.read().decode() == "".join(obj.lines())
        with obj.open() as stream:
            assert stream.read() == obj.read()
        assert (run.pipeline, run.version, run.attempt, run.params["unit"]) == ("p", "1", 1, "mm")
        assert obj.envelope.idempotency_key == run.key
        seen.append(run.id)

    if kind == "plain":
        p.transform(look)
    else:

        @p.transform
        async def awaited(obj: hg.Object, run: hg.Run) -> None:
            look(obj, run)

    await world.receive(p, change("folder/a.json", '{"a": [1]}'))
    await world.run(p)
    assert await world.quarantined() == []
    assert len(seen) == 1


async def test_the_budget_counts_from_the_first_attempt(world: World) -> None:
    """A plan whose next retry could only begin after its budget stops at once."""
    p = world.pipeline(retry=hg.RetryPlan("upstream-event", 8, 1, 100, 100, "equal"))

    @p.transform
    def fail(obj: hg.Object) -> None:
        raise hg.Retryable("again")

    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert len(await world.quarantined()) == 1
    assert await world.val(
        "SELECT first_at > now() - $1::interval FROM headgate.quarantine", timedelta(minutes=1)
    )

"""The five acts of the demo, in the order in which they are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from headgate.cli import show

from .console import missing, served, until_interrupted
from .headgate import Headgate
from .ledger import Counts, Outcome, counts, environment, headgate, total
from .lively import Lively
from .naive import Naive
from .post import Plan, Post
from .stage import Race, Stage
from .standing import Standing
from .world import BROKEN, PIPELINE, Truth, World

if TYPE_CHECKING:
    from headgate.pg import Database
    from headgate.settings import Settings


@dataclass(frozen=True, slots=True)
class Showing:
    """Whether there is a console, and what comes after the acts.

    It stays until Ctrl-C, or stays lively, for so many seconds if they are given.
    """

    console: bool = False
    stays: bool = False
    lively: bool = False
    seconds: float | None = None


async def play(
    settings: Settings, world: World, stage: Stage, kills: int, showing: Showing
) -> Outcome:
    """Play all of it; how it ended."""
    from headgate.runtime.ledger_home import connected

    plan = Plan.make(world.files, kills)
    (world.folder / "deliveries.txt").write_text("".join(f"{file}\n" for file in plan.deliveries))
    _introduce(stage, world, plan)
    world.forget_the_naive()
    truth = await asyncio.to_thread(world.truth, world.sent)
    async with connected(settings.ledger()) as db, _console(stage, world, db, showing) as link:
        start = await counts(db)
        naive = await _race(stage, world, plan, truth, db)
        await _misbehave(stage, world, db)
        await _explain(stage, world, plan)
        verified = await _verify(stage, world)
        now, error = await _compare(stage, 5, world, db)
        outcome = Outcome((await counts(db)).since(start), now.total, naive, error, verified)
        if showing.lively:
            error = await _go_on(stage, world, truth, db, link, showing.seconds)
            outcome = replace(outcome, headgate_error=max(error, outcome.headgate_error))
        elif link and showing.stays:
            stage.say("", f"The console is at {link}", "   Ctrl-C ends it.")
            with until_interrupted() as over:
                await over.wait()
    return outcome


@asynccontextmanager
async def _console(
    stage: Stage, world: World, db: Database, showing: Showing
) -> AsyncGenerator[str]:
    """The console beside the acts; its link, empty where there is none."""
    if not showing.console:
        yield ""
    elif (why := missing()) is not None:
        stage.say("", f"   {why}")
        yield ""
    else:
        async with served(world, db) as link:
            stage.say("", "Watch it in a browser, this link signs you in:", f"   {link}")
            yield link


async def _compare(stage: Stage, act: int, world: World, db: Database) -> tuple[Truth, Decimal]:
    """The files as they are against the table; what they say, and how far the table is off."""
    now, table = await asyncio.to_thread(world.truth, world.incoming), await total(db)
    stage.act(act, "The sum, after all that")
    stage.row("in the files", f"{now.total:>12,.2f} mm, by truth.py")
    stage.row("in Headgate's table", f"{table:>12,.2f} mm")
    same = table == now.total
    stage.mark(same, "equal, to the last digit" if same else "NOT EQUAL")
    return now, abs(table - now.total)


async def _go_on(
    stage: Stage, world: World, truth: Truth, db: Database, link: str, seconds: float | None
) -> Decimal:
    """The stations go on sending until somebody has seen enough; how far the table is off then."""
    stage.act(6, "The stations go on sending, and misbehave now and then")
    stage.say(f"   the console   {link}" if link else "   without a console", "   Ctrl-C ends it.")
    gate = Headgate(world, truth, db, environment(), Standing("Headgate"))
    lively = Lively(world, gate)
    async with gate.started():
        with until_interrupted() as over:
            sending = asyncio.create_task(lively.run())
            waiting = asyncio.create_task(over.wait())
            await asyncio.wait(
                {sending, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (waiting, sending):
                task.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await sending
        await gate.until_idle()
    stage.say(f"   {lively.notices:,} notices, {show.many(lively.kills, 'kill')} meanwhile")
    return (await _compare(stage, 7, world, db))[1]


def _introduce(stage: Stage, world: World, plan: Plan) -> None:
    lines = sum(1 for line in PIPELINE.splitlines() if line and not line.startswith('"""'))
    most = max(plan.deliveries.count(file) for file in world.files)
    stage.say(
        "",
        f"The world: {world.folder.name}/",
        f"   {'sent/':<26}{len(world.files)} CSV files of rain gauges",
        f"   {'truth.py':<26}adds them up; knows nothing of Headgate",
        f"   {'deliveries.txt':<26}{len(plan.deliveries):,} notices that a file has arrived,"
        f" shuffled; some told {most} times",
        f"   {'naive_act_then_mark.py':<26}the script everyone writes: insert the rows, then mark"
        " the file",
        f"   {'naive_mark_then_act.py':<26}the other way round",
        f"   {'rain.py':<26}a Headgate pipeline, {lines} lines",
    )


async def _race(stage: Stage, world: World, plan: Plan, truth: Truth, db: Database) -> Decimal:
    """All three get the same deliveries and the same kills; the larger error of the naive two."""
    stage.act(1, "Three consumers, the same deliveries, the same kill -9")
    post = Post(plan, world.land)
    naive = [
        Naive(world, truth, stem, Standing(stem.replace("_", " ").replace(" then", ", then")))
        for stem in ("act_then_mark", "mark_then_act")
    ]
    gate = Headgate(world, truth, db, environment(), Standing("Headgate"))
    runners = [*(n.standing for n in naive), gate.standing]
    before = await counts(db)

    def behind() -> int:
        least = min(n.standing.delivered for n in naive)
        return max(gate.standing.pending, post.released - least)

    async def unharmed() -> bool:
        # Two runners, each at its own pace: there is no one event to wait for.
        while any(n.standing.delivered < plan.turn for n in naive):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for n in naive:
            n.look()
        return not all(n.standing.error for n in naive)

    race = Race(runners, truth.total, len(plan.deliveries), lambda: post.released)
    async with gate.started(), stage.live(race), asyncio.TaskGroup() as group:
        group.create_task(post.run(behind, unharmed))
        for runner in (*naive, gate):
            group.create_task(runner.run(post))
    _say_what_happened(stage, plan, truth, (await counts(db)).since(before))
    return max(abs(n.standing.sum - truth.total) for n in naive)


def _say_what_happened(stage: Stage, plan: Plan, truth: Truth, seen: Counts) -> None:
    kills = f"each killed {show.many(len(plan.kills), 'time')} from outside, amid its work"
    if more := len(plan.kills.keys() & plan.reserve.keys()):
        # One of the naive scripts had come through unharmed.
        kills = f"each killed {len(plan.kills)} times from outside, {more} of them in reserve"
    stage.say(
        "",
        f"   {'the truth':<16}{truth.total:,.2f} mm by truth.py; {kills}",
        f"   {'the ledger':<16}{seen.received:,} deliveries: {seen.entries:,} new,"
        f" {seen.duplicates:,} duplicates; {show.many(seen.retried, 'file')} begun again,"
        f" {seen.double_applied} applied twice",
    )


async def _misbehave(stage: Stage, world: World, db: Database) -> None:
    stage.act(2, "Then the source misbehaves: headgate up rain.py --until-idle")
    before, was = await counts(db), await total(db)
    broken, corrected = world.break_one(), world.correct()
    world.touch()
    await headgate(world.folder, "up", "rain.py", "--until-idle")
    seen, now = (await counts(db)).since(before), await total(db)
    stage.row(
        f"broken, {BROKEN}",
        f"{seen.quarantined} quarantined, with its reason; nobody waits for it"
        if broken
        else "nothing to do: in quarantine since",
    )
    stage.row("touched, 1 file", f"{seen.unchanged} unchanged: a new date, the same bytes")
    stage.row(
        "corrected, 1 row dropped",
        f"version 2 published, the sum follows: {was:,.2f} → {now:,.2f} mm"
        if corrected
        else "nothing to do: corrected before",
    )


async def _explain(stage: Stage, world: World, plan: Plan) -> None:
    """A file that was told of most often, and is none of the special ones."""
    plain = [f for f in world.files if f not in (world.touched, world.corrected)]
    file = f"incoming/{max(plain, key=plan.deliveries.count)}"
    stage.act(3, f"Why was it not done twice? headgate explain {file}")
    stage.quote((await headgate(world.folder, "explain", file))[1])


async def _verify(stage: Stage, world: World) -> bool:
    stage.act(4, "Can the ledger be trusted? headgate verify")
    code, said = await headgate(world.folder, "verify", accept=(0, 1))
    stage.quote(said)
    return code == 0

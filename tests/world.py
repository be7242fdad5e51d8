"""The world of a test: a ledger, a folder, and ways to make things happen in them.

async def test_one_delivery_has_one_effect(world: World):
    p = world.pipeline()
    ...
    await world.receive(p, change("a", b"1"))
    await world.run(p)
    assert await world.outcomes() == {"finalized": 1}
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.ledger import gate, inbox, quarantine
from headgate.ledger import worker as workers
from headgate.ledger.attempt import Attempt
from headgate.ledger.gate import Claim, Resting
from headgate.ledger.inbox import Receipt, Registered
from headgate.model.envelope import ordinal
from headgate.pg import Database
from headgate.pipeline import Path as HandlerPath
from headgate.runtime import inline, station
from headgate.runtime.ledger_home import Ledger
from headgate.runtime.supervise import up
from headgate.runtime.tuning import Tuning
from headgate.runtime.verify import verify
from headgate.runtime.work import Worker

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
# Retries without the waiting: three attempts, milliseconds apart.
QUICK = hg.RetryPlan("upstream-event", 3, 60, 0.01, 0.02, "full")
TUNING = Tuning(poll_seconds=0.02, max_wait_seconds=10, drain_seconds=10)

_EVENTS = itertools.count(1)


def change(
    uri: str,
    data: bytes | str | None = b"",
    *,
    event: str | None = None,
    minute: float = 0,
    sequence: int | None = None,
    subject: str | None = None,
    removed: bool = False,
) -> hg.Envelope:
    """A change whose bytes travel inside it; an occurrence of its own unless `event` names one."""
    return hg.Envelope(
        event_id=event or f"event-{next(_EVENTS)}",
        source="test",
        provider="webhook",
        detector="event",
        kind="removed" if removed else "created",
        uri=f"test://{uri}",
        event_time=NOON + timedelta(minutes=minute),
        received_at=NOON,
        sequence=None if sequence is None else ordinal(sequence),
        subject=subject,
        data=data.encode() if isinstance(data, str) else None if removed else data,
    )


class World:
    """An empty ledger and a folder, for one test."""

    CONNECTIONS = 20

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.incoming = folder / "incoming"
        self.lake = folder / "lake"
        self.incoming.mkdir()
        self.tuning = TUNING
        self.db: Database

    async def open(self) -> None:
        self.db = await Database.open(self.url, max_size=self.CONNECTIONS)

    async def close(self) -> None:
        await self.db.close()

    async def audit(self) -> None:
        """Every promise test ends with a ledger that `headgate verify` has nothing to say about."""
        report = await verify(self.db, deep=True)
        said = [f"{v.code}: entry {v.entry}: {v.text}" for v in report.violations[:20]]
        assert report.ok, "the audit found:\n" + "\n".join(said)

    # Declaring

    def pipeline(self, name: str = "p", **declared: Any) -> hg.Pipeline:
        """A pipeline that keeps its bytes in this world and retries quickly."""
        return hg.Pipeline(name, **{"store": str(self.lake), "retry": QUICK, **declared})

    def directory(self, **declared: Any) -> hg.Directory:
        """The world's `incoming/` as a source that does not wait for files to settle."""
        return hg.Directory(self.incoming, **{"settle": 0, "every": 0.05, **declared})

    def put(self, name: str, content: bytes | str) -> Path:
        """Place a file in `incoming/` as a careful sender does: whole, by rename."""
        path = self.incoming / name
        half = self.folder / f"{name}.half"
        half.write_bytes(content.encode() if isinstance(content, str) else content)
        half.rename(path)
        return path

    # Making things happen

    async def register(self, pipeline: hg.Pipeline) -> Registered:
        return await station.register(self.db, pipeline)

    async def receive(
        self, pipeline: hg.Pipeline, *changes: hg.Envelope, db: Database | None = None
    ) -> Receipt:
        """Deliver changes, as one batch."""
        at = await self.register(pipeline)
        return await inbox.receive(db or self.db, at, "test", changes)

    async def run(self, *pipelines: hg.Pipeline, **tuning: Any) -> list[Resting]:
        """Watch, work and sweep in this process until there is nothing left to do."""
        return await inline.run(self.db, pipelines, replace(self.tuning, **tuning), until_idle=True)

    async def work(self, *pipelines: hg.Pipeline, workers: int = 2, **tuning: Any) -> None:
        """The same by several workers of this process, without watching."""
        set_to = replace(self.tuning, **tuning)
        crew = [
            Worker(self.db, await station.paths(self.db, pipelines, set_to), set_to, name=f"w{n}")
            for n in range(workers)
        ]
        tasks = [asyncio.create_task(worker.run()) for worker in crew]
        idle = asyncio.create_task(self.idle())
        try:
            await asyncio.wait({idle, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
            for worker in crew:
                worker.stop()
            ended = await asyncio.gather(*tasks)
        assert all(ended), "a worker could not finish what it held"

    async def up(self, file: Path, *, workers: int = 1, **tuning: Any) -> list[Resting]:
        """`headgate up FILE --until-idle` with real worker processes."""
        set_to = replace(self.tuning, workers=workers, **tuning)
        return await up(
            [str(file)],
            Ledger(self.url, self.folder / "home"),
            set_to,
            until_idle=True,
            log_to=("json", "warning"),
        )

    async def idle(self, within_seconds: float = 10) -> None:
        """Wait until nothing is ready, held or due soon."""

        async def nothing_left() -> bool:
            left = await gate.resting(self.db, within_seconds)
            return not any(r.ready or r.leased or r.soon for r in left)

        await until(nothing_left, seconds=100)

    async def release(self, *entries: int, because: str = "repaired") -> list[int]:
        return await quarantine.release(self.db, entries, because=because)

    # The gate by hand

    async def path(self, pipeline: hg.Pipeline) -> HandlerPath:
        (path,) = await station.paths(self.db, [pipeline], self.tuning)
        return path

    async def worker(self, lease_seconds: float = 900) -> int:
        return await workers.register(self.db, "by hand", lease_seconds)

    async def claim(self, path: HandlerPath, worker: int, most: int = 1) -> list[Claim]:
        return await gate.claim(self.db, path.at.pipeline, worker, most, floor=0, idle=True)

    async def finish(self, path: HandlerPath, claims: Sequence[Claim]) -> list[Attempt]:
        """Take claimed entries through the rest of the path."""
        attempts = [path.begin(claim) for claim in claims]
        await asyncio.to_thread(lambda: [path.prepare(attempt) for attempt in attempts])
        if attempts:
            await path.settle(attempts)
        path.finish(attempts)
        return attempts

    # Looking

    async def val(self, sql: str, *args: Any) -> Any:
        return await self.db.fetchval(sql, *args)

    async def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.db.fetch(sql, *args)]

    async def count(self, table: str) -> int:
        return await self.val(f"SELECT count(*) FROM {table}")

    async def outcomes(self) -> dict[str, int]:
        """How the attempts ended, with the reason of those that were not finalized."""
        return dict(
            await self.rows(
                "SELECT concat_ws(':', outcome, reason), count(*) FROM headgate.journal GROUP BY 1"
            )
        )

    async def tally(self) -> dict[str, int]:
        """The counters of deliveries."""
        row = await self.db.fetchrow(
            "SELECT sum(received)::int AS received, sum(admitted)::int AS admitted,"
            " sum(duplicate)::int AS duplicate, sum(conflict)::int AS conflict FROM headgate.tally"
        )
        return dict(row) if row else {}

    async def quarantined(self) -> list[tuple[str, str, str]]:
        """Class, reason and error of what waits for a decision, in order of admission."""
        found = await self.rows(
            "SELECT class, reason, error FROM headgate.quarantine ORDER BY entry"
        )
        return [(classed, reason, error) for classed, reason, error in found]

    async def attempts(self, entry: int | None = None) -> list[str]:
        """The journal of an entry (the only one, unless told), as steps without their times."""
        lines = await self.rows(
            "SELECT steps FROM headgate.journal WHERE entry = coalesce($1, entry)"
            " ORDER BY fence, batch, n",
            entry,
        )
        return [" ".join(s.partition(":")[0] for s in steps.split()) for (steps,) in lines]

    async def heads(self) -> dict[str, tuple[int, str]]:
        """What readers see: version and content digest (12 digits) by name."""
        found = await self.rows(
            "SELECT substr(uri, 8), version, left(encode(content, 'hex'), 12)"
            " FROM headgate.publication WHERE successor IS NULL AND NOT removed"
        )
        return {name: (version, content) for name, version, content in found}

    async def table(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """A table's rows, sorted; the columns that are asked for."""
        listed = ", ".join(columns)
        return await self.rows(f"SELECT {listed} FROM {name} ORDER BY {listed}")


async def until(condition: Callable[[], Awaitable[bool]], *, seconds: float = 10) -> None:
    """Wait until an async question is answered with yes."""
    end = asyncio.get_running_loop().time() + seconds
    while not await condition():
        assert asyncio.get_running_loop().time() < end, f"still not so after {seconds:g} s"
        await asyncio.sleep(0.01)

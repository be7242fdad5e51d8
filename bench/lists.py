"""How long the API's lists and the console's pages take over a million entries, on loopback.

The ledger is written by SQL, as the path would have left it: entries, what became of them, commits
of a hundred lines. One of three pipelines is rare, a few entries in a hundred thousand wait or are
set aside, one in twenty was skipped. Then the server is asked, one question after the other.
"""

from __future__ import annotations

import asyncio
import http.client
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import headgate as hg
from headgate.ledger import flow
from headgate.ledger import token as tokens
from headgate.model.envelope import Envelope
from headgate.pg import Database
from headgate.runtime import loop, station
from headgate.runtime.ledger_home import Ledger, connected
from headgate.server import listen
from headgate.server.app import make_app
from headgate.server.doors import open_doors

from .latency import percentile
from .processes import Failed
from .result import Figure
from .server import Place

ENTRIES = 1_000_000
QUESTIONS = 400
WARM_UP = 40
STEP = 50_000
LINES = 100
NAMES = ("often", "seldom", "rare")
BORN = datetime(2026, 1, 1, tzinfo=UTC)

# Of each hundred thousand: 20 are quarantined, 10 wait, and 100 are of the rare pipeline.
FILL = f"""
    WITH told AS MATERIALIZED (
        SELECT n, (n - 1) / {LINES} + 1 AS pos, 's3://bucket/in/' || n % 1000 || '/' || n AS uri,
               (CASE WHEN (n - 1) / {LINES} % 1000 = 500 THEN 3
                     WHEN (n - 1) / {LINES} % 20 = 7 THEN 2 ELSE 1 END)::smallint AS pipeline,
               $3::timestamptz + n * interval '10 ms' AS at,
               CASE WHEN n % 5000 = 11 THEN 'quarantined' WHEN n % 10000 = 12 THEN 'waiting'
                    WHEN n % 20 = 13 THEN 'skipped' ELSE 'finalized' END AS outcome
        FROM generate_series($1::int, $2::int) AS n),
    entries AS (
        INSERT INTO headgate.entry
            (id, pipeline, key, uri, event_time, received_at, fingerprint, removed, envelope)
            OVERRIDING SYSTEM VALUE
        SELECT n, pipeline, sha256(n::text::bytea), uri, at, at, n, false, $4::bytea FROM told),
    published AS (
        INSERT INTO headgate.publication
            (entry, pipeline, version, deployment, content, effect, uri)
        SELECT n, pipeline, 1, pipeline, sha256(n::text::bytea), sha256(n::text::bytea), uri
        FROM told WHERE outcome = 'finalized'),
    aside AS (
        INSERT INTO headgate.quarantine
            (entry, pipeline, subject, fence, attempts, class, reason, error, deployment, failures,
             first_at, last_at)
        SELECT n, pipeline, n, 1, 1, 'schema', 'schema', 'it has no header', pipeline, '[]', at, at
        FROM told WHERE outcome = 'quarantined'),
    waits AS (
        INSERT INTO headgate.work (id, subject, pipeline, attempts, fence, due_at)
        SELECT n, n, pipeline, 1, 1, now() + interval '1 day' FROM told WHERE outcome = 'waiting'),
    lines AS (
        INSERT INTO headgate.journal
            (batch, n, entry, fence, outcome, attempt, at, reason, steps, doc, hash)
        SELECT pos, (n - 1) % {LINES} + 1, n, 1, outcome::headgate.status, 1, at,
               CASE WHEN outcome <> 'finalized' THEN 'schema' END, 'claimed:0 fetched:1',
               '{{"size": 8192}}'::bytea, '' FROM told)
    INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)
    SELECT pos, pos, count(*), max(at), sha256(''), min(pipeline) FROM told GROUP BY pos
"""
COUNT = """
    INSERT INTO headgate.tally (pipeline, source, slot, received, admitted, duplicate, conflict)
    SELECT pipeline, 'bench', 0, count(*), count(*), 0, 0 FROM headgate.entry GROUP BY 1
"""


async def fill(db: Database, folder: Path, entries: int) -> None:
    """A ledger with so many entries."""
    for name in NAMES:
        await station.register(db, hg.Pipeline(name, store=str(folder / "lake"), dataset=name))
    envelope = Envelope(
        event_id="e",
        source="bench",
        provider="s3",
        detector="event",
        uri="s3://bucket/in/0",
        event_time=BORN,
        received_at=BORN,
    ).document()
    for first in range(1, entries + 1, STEP):
        await db.execute(FILL, first, min(first + STEP - 1, entries), BORN, envelope)
    await db.execute(COUNT)
    await flow.roll_up(db)
    await db.execute("ANALYZE")


def paths(entries: int, chance: random.Random) -> str:
    """A question: the first page of a list, one further on, or a narrow one."""
    entry, place = chance.randint(2, entries), chance.randint(1, max(1, entries // LINES))
    pipeline = chance.choice(NAMES)
    return chance.choice(
        (
            "/v1/changes?order=newest&limit=50",
            f"/v1/changes?after={place}-7&limit=100",
            f"/v1/changes?pipeline={pipeline}&order=newest&limit=50",
            f"/v1/changes?outcome=quarantined&after={place}-0&limit=50",
            "/v1/changes?outcome=skipped&order=newest&limit=50",
            f"/v1/changes?uri=s3://bucket/in/{entry % 1000}/&order=newest&limit=50",
            "/v1/entries",
            f"/v1/entries?after={entry}",
            f"/v1/entries?pipeline={pipeline}",
            "/v1/entries?status=waiting",
            "/v1/entries?status=quarantined",
            f"/v1/entries?status=skipped&after={entry}",
            f"/v1/entries?uri=s3://bucket/in/{entry % 1000}/",
            "/v1/publications",
            f"/v1/publications?pipeline={pipeline}&after={entry}",
            "/v1/quarantine",
            "/v1/quarantine/summary",
            f"/v1/quarantine?pipeline={pipeline}&reason=schema",
            "/v1/activity",
            "/v1/flow?minutes=60",
            "/v1/slos",
            "/v1/pipelines",
            "/v1/watermarks",
            f"/v1/entries/{entry}",
            f"/v1/entries/{entry}/explain",
        )
    )


def pages(entries: int, chance: random.Random) -> str:
    """A page of the console."""
    entry, pipeline = chance.randint(2, entries), chance.choice(NAMES)
    return chance.choice(
        (
            "/",
            "/changes",
            f"/changes?pipeline={pipeline}",
            "/changes?outcome=quarantined",
            f"/changes?uri=s3://bucket/in/{entry % 1000}/",
            f"/changes/{entry // 20 * 20 + 1}",
            f"/entries/{entry}",
            f"/find?q={entry}",
            "/quarantine",
            f"/quarantine?pipeline={pipeline}",
            "/redrives",
            f"/redrives/new?pipeline={pipeline}",
            "/replays",
            "/pipelines",
            f"/pipelines/{pipeline}",
            "/datasets",
            "/activity",
        )
    )


Asked = Callable[[int, random.Random], str]


def ask(
    url: str, token: str, asked: Asked, entries: int, questions: int
) -> list[tuple[float, str]]:
    """The seconds that each question took."""
    chance = random.Random(5)
    taken: list[tuple[float, str]] = []
    link = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    for _ in range(questions):
        path = asked(entries, chance)
        began = perf_counter()
        link.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = link.getresponse()
        body = answer.read()
        taken.append((perf_counter() - began, path))
        if answer.status not in (200, 303):
            raise Failed(f"{path}: {body.decode()}")
    link.close()
    return taken


class _Nowhere:
    async def get(self, url: str, *, trusted: bool = False, most_bytes: int = 1 << 20) -> bytes:
        raise NotImplementedError


async def measure(
    url: str, folder: Path, entries: int, questions: int
) -> list[list[tuple[float, str]]]:
    """Fill a ledger, serve it, and ask: for lists, and for pages."""
    async with connected(Ledger(url, folder)) as db:
        await fill(db, folder, entries)
        token = (await tokens.make(db, "bench", "operator", 3600)).token
        serving = await open_doors(db, [], _Nowhere(), max_bytes=1 << 16, rate_per_second=1e6)
        listening, stopping = listen.bind("127.0.0.1", 0), asyncio.Event()
        answering = asyncio.create_task(listen.serve(make_app(serving), listening, stopping))
        try:
            address = listen.address(listening)
            return [
                await asyncio.to_thread(ask, address, token, asked, entries, questions)
                for asked in (paths, pages)
            ]
        finally:
            stopping.set()
            await answering
            listening.close()


def figures(place: Place, entries: int = ENTRIES, questions: int = QUESTIONS) -> list[Figure]:
    """p50 and p95 of an answer, without the first ones."""
    url = loop.run(place.fresh)
    lists, seen = loop.run(lambda: measure(url, place.folder, entries, questions))
    return [
        *_told("api_lists", "GET of lists and entries under /v1", lists, entries),
        *_told("console_pages", "GET of the console's pages", seen, entries),
    ]


def _told(name: str, what: str, taken: list[tuple[float, str]], entries: int) -> Iterator[Figure]:
    warm = taken[min(WARM_UP, len(taken) // 2) :]
    slowest = max(warm)[1].partition("=")[0]
    how = (
        f"{what} on loopback over {entries} entries, {len(taken)} questions; the slowest was"
        f" {slowest}"
    )
    for share in (50, 95, 100):
        value = percentile([seconds for seconds, _ in warm], share / 100) * 1e3
        yield Figure(f"{name}_p{share}", round(value, 1), "ms", how)

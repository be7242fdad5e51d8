"""How long a search of the STAC API takes over 100,000 items, through HTTP on loopback.

The items are written by SQL, as the path would have left them: an entry, a publication, a journal
line that says what the item is, and its row. Then the server is asked, one question after the
other, in a mix of places and times of all sizes, for 10 to 100 items each.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from urllib.parse import urlencode, urlsplit

import headgate as hg
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

ITEMS = 100_000
QUESTIONS = 600
WARM_UP = 60
COLLECTIONS = 4
BORN = datetime(2016, 1, 1, tzinfo=UTC)
DAYS = 3650

FILL = """
    WITH told AS MATERIALIZED (
        SELECT n, -180 + 360 * random() AS x, -80 + 160 * random() AS y, 0.01 + random() ^ 4 AS w,
               $1::timestamptz + random() * $2::int * interval '1 day' AS at,
               (SELECT id FROM headgate.pipeline WHERE name = 'c' || n % $3) AS pipeline
        FROM generate_series($4::int, $5::int) AS n),
    entries AS (
        INSERT INTO headgate.entry
            (id, pipeline, key, uri, event_time, received_at, fingerprint, removed, envelope)
            OVERRIDING SYSTEM VALUE
        SELECT n, pipeline, sha256(n::text::bytea), 'file:///in/' || n || '.tif', at, at, n, false,
               $6::bytea FROM told),
    published AS (
        INSERT INTO headgate.publication
            (entry, pipeline, version, deployment, content, effect, uri, artifacts)
        SELECT n, pipeline, 1, (SELECT id FROM headgate.deployment d WHERE d.pipeline = t.pipeline),
               sha256(n::text::bytea), sha256(n::text::bytea), 'file:///in/' || n || '.tif',
               jsonb_build_array(jsonb_build_object('name', 'quicklook.png', 'media_type',
                   'image/png', 'size', 4711, 'digest', encode(sha256(n::text::bytea), 'hex')))
        FROM told t),
    journalled AS (
        INSERT INTO headgate.journal
            (batch, n, entry, fence, outcome, attempt, at, steps, doc, hash)
        SELECT $7::bigint, n, n, 1, 'finalized', 1, at, 'claimed:0 fetched:1 finalized:2',
               convert_to(json_build_object('size', 8192, 'item', json_build_object(
                   'id', 'i' || n, 'collection', 'c' || n % $3, 'start', at, 'end', at,
                   'bbox', json_build_array(x, y, least(x + w, 180), y + w), 'geometry',
                   json_build_object('type', 'Polygon', 'coordinates', json_build_array(
                       json_build_array(
                           json_build_array(x, y), json_build_array(least(x + w, 180), y),
                           json_build_array(least(x + w, 180), y + w), json_build_array(x, y + w),
                           json_build_array(x, y))))))::text, 'UTF8'), sha256('')
        FROM told),
    committed AS (
        INSERT INTO headgate.commit (pos, batch, n, at, chain)
        VALUES ($7::bigint, $7::bigint, $5::int - $4::int + 1, $1, sha256('')))
    INSERT INTO headgate.item (entry, pipeline, collection, item, starts, ends, bbox)
    SELECT n, pipeline, 'c' || n % $3, 'i' || n, at, at,
           box(point(x, y), point(least(x + w, 180), y + w))
    FROM told
"""


async def fill(db: Database, folder: Path, items: int) -> None:
    """A ledger with so many items, as if they had been published."""
    for n in range(COLLECTIONS):
        await station.register(
            db, hg.Pipeline(f"c{n}", store=str(folder / "lake"), dataset=f"c{n}")
        )
    envelope = Envelope(
        event_id="e",
        source="bench",
        provider="file",
        detector="etag",
        uri="file:///in/0.tif",
        event_time=BORN,
        received_at=BORN,
        size=8192,
    ).document()
    step = 5000
    for batch, first in enumerate(range(1, items + 1, step), 1):
        last = min(first + step - 1, items)
        await db.execute(FILL, BORN, DAYS, COLLECTIONS, first, last, envelope, batch)
    await db.execute("ANALYZE")


def question(chance: random.Random) -> dict[str, str]:
    """A place or a time or both: from a village to the world, from an hour to ten years."""
    asked = {"limit": str(chance.choice((10, 20, 50, 100)))}
    kind = chance.random()
    if kind < 0.8:
        width = 360 * chance.random() ** 6 + 0.1
        height = min(160.0, width / 2)
        west = -180 + (360 - min(width, 360)) * chance.random()
        south = -80 + (160 - height) * chance.random()
        east = min(west + width, 180.0)
        asked["bbox"] = f"{west:.4f},{south:.4f},{east:.4f},{south + height:.4f}"
    if kind > 0.3:
        days = DAYS * chance.random() ** 4 + 0.05
        since = BORN + timedelta(days=(DAYS - days) * chance.random())
        until = since + timedelta(days=days)
        asked["datetime"] = f"{since:%Y-%m-%dT%H:%M:%SZ}/{until:%Y-%m-%dT%H:%M:%SZ}"
    return asked


def ask(url: str, questions: int) -> tuple[list[float], int]:
    """The seconds that each question took, and how many items were found."""
    chance = random.Random(5)
    taken: list[float] = []
    found = 0
    link = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    for _ in range(questions):
        path = f"/stac/search?{urlencode(question(chance))}"
        began = perf_counter()
        link.request("GET", path)
        answer = link.getresponse()
        body = answer.read()
        taken.append(perf_counter() - began)
        if answer.status != 200:
            raise Failed(f"{path}: {body.decode()}")
        found += len(json.loads(body)["features"])
    link.close()
    return taken, found


class _Nowhere:
    async def get(self, url: str, *, trusted: bool = False, most_bytes: int = 1 << 20) -> bytes:
        raise NotImplementedError


async def measure(url: str, folder: Path, items: int, questions: int) -> tuple[list[float], int]:
    """Fill a ledger, serve it, and ask."""
    async with connected(Ledger(url, folder)) as db:
        await fill(db, folder, items)
        serving = await open_doors(db, [], _Nowhere(), max_bytes=1 << 16, rate_per_second=1e6)
        listening, stopping = listen.bind("127.0.0.1", 0), asyncio.Event()
        answering = asyncio.create_task(listen.serve(make_app(serving), listening, stopping))
        try:
            return await asyncio.to_thread(ask, listen.address(listening), questions)
        finally:
            stopping.set()
            await answering
            listening.close()


def figures(place: Place, items: int = ITEMS, questions: int = QUESTIONS) -> list[Figure]:
    """p50 and p95 of a search, without the first ones."""
    url = loop.run(place.fresh)
    taken, found = loop.run(lambda: measure(url, place.folder, items, questions))
    if not found:
        raise Failed("no search found anything")
    how = (
        f"GET /stac/search on loopback over {items} items, bbox and datetime of all sizes, 10 to "
        f"100 items a page: {questions} questions that found {found}"
    )
    warm = taken[min(WARM_UP, questions // 2) :]
    return [
        Figure(f"stac_search_p{share}", round(percentile(warm, share / 100) * 1e3, 1), "ms", how)
        for share in (50, 95)
    ]

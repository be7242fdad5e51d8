"""Sets of texts travel as one text; Postgres reads back what was said."""

from __future__ import annotations

import random

from tests.world import World, change

from headgate.ledger.arrays import literal

NASTY = [
    "",
    '"',
    "\\",
    '","',
    "{",
    "}",
    ",",
    " ",
    "\n",
    "\t",
    "NULL",
    "null",
    "'",
    "ü",
    "🌧",
    "\x01",
]


async def test_postgres_reads_back_every_text(world: World) -> None:
    chance = random.Random(7)
    for _ in range(300):
        texts = [
            "".join(chance.choices([*NASTY, "a", "b"], k=chance.randrange(5)))
            for _ in range(chance.randrange(6))
        ]
        assert await world.db.fetchval("SELECT $1::text::text[]", literal(texts)) == texts, texts


async def test_changes_keep_their_uris_whatever_is_in_them(world: World) -> None:
    """Received, published and found again: alone, and in a batch with others."""
    p = world.pipeline()
    uris = [f"{n}{nasty}x" for n, nasty in enumerate(NASTY)]
    await world.receive(p, *(change(uri, uri) for uri in uris))
    await world.run(p)
    await world.receive(p, change('"lone\\'))
    await world.run(p)
    wanted = sorted(f"test://{uri}" for uri in [*uris, '"lone\\'])
    for table in ("entry", "publication"):
        found = await world.rows(f"SELECT uri FROM headgate.{table}")
        assert sorted(uri for (uri,) in found) == wanted
    await world.audit()

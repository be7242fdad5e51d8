"""What pages ask costs what they show, however much there is beside it."""

from __future__ import annotations

from typing import Any

from tests.ledger.test_plans import FILL, FINISHED, rows_read
from tests.world import World

from headgate.ledger import anchor, history, published, quarantined, revert

ASIDE = 20_000
MORE = f"""
    INSERT INTO headgate.quarantine
        (entry, pipeline, subject, fence, attempts, class, reason, error, deployment, failures,
         first_at, last_at)
    SELECT id, 1, id, 1, 1, 'schema', 'validation', 'no', 1, '[]', now(), now()
    FROM headgate.entry WHERE id > {FINISHED} AND id <= {FINISHED + ASIDE};
    INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)
    SELECT id, id, 1, now(), key, 1 FROM headgate.entry WHERE id <= {FINISHED};
    ANALYZE headgate.quarantine;
"""
URI = f"file:///in/{FINISHED // 2}"
ASKED: dict[str, tuple[str, tuple[Any, ...], int]] = {
    "a page of the quarantine": (
        quarantined.Q.listed, (None, None, None, None, quarantined.NEWEST, 51), 500,
    ),
    "its next page": (
        quarantined.Q.listed, (None, "schema", None, None, FINISHED + 10_000, 51), 500,
    ),
    "versions of a uri": (published.Q.versions, (FINISHED // 2, 12), 20),
    "an entry by its uri": (history.Q.ids_by_uri_quick, ([URI], 50), 10_100),
    "one case": (quarantined.Q.case, (FINISHED + 5,), 20),
    "the chain at a commit": (anchor.Q.chain_at, (FINISHED // 2,), 5),
    "the head of the chain": (anchor.Q.head, (), 5),
    "the head of a uri": (revert.Q.head, (FINISHED // 2,), 20),
}  # fmt: skip


async def test_a_page_reads_what_it_shows(world: World) -> None:
    """Two hundred thousand entries and twenty thousand in quarantine: nobody walks over them.

    Of what is in quarantine something is known to the planner; of the rest nothing is.
    """
    await world.register(world.pipeline("p"))
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(FILL)
        await link.execute(MORE)
        for what, (sql, args, most) in ASKED.items():
            read = await rows_read(link, sql, *args)
            assert sum(read.values()) <= most, f"{what} reads {read}"
        found = await link.fetch(history.Q.ids_by_uri_quick, [URI], 50)
        await link.execute("ROLLBACK")
    assert [row["id"] for row in found] == [FINISHED // 2]

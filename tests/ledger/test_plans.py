"""Hot statements look up what they need, however much there is beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from tests.world import World

from headgate.ledger import flow, projection, slo
from headgate.ledger import object as objects
from headgate.ledger.changes import Cursor, changes
from headgate.ledger.entries import entries
from headgate.ledger.published import publications
from headgate.model.flow import BOUNDS
from headgate.pg import Link

FINISHED = 200_000
WAITING = 50_000

FILL = f"""
    INSERT INTO headgate.entry
        (pipeline, key, uri, event_time, received_at, fingerprint, removed, envelope)
    SELECT 1, sha256(n::text::bytea), 'file:///in/' || n, now(), now(), n, false, ''
    FROM generate_series(1, {FINISHED + WAITING}) AS n;
    INSERT INTO headgate.publication
        (entry, pipeline, version, deployment, content, effect, uri)
    SELECT id, 1, 1, 1, key, key, uri FROM headgate.entry WHERE id <= {FINISHED};
    INSERT INTO headgate.journal
        (batch, n, entry, fence, outcome, attempt, at, steps, hash)
    SELECT id, 1, id, 1, 'finalized', 1, now(), 'claimed:0', '' FROM headgate.entry
    WHERE id <= {FINISHED};
    INSERT INTO headgate.work (pipeline, id, subject)
    SELECT 1, id, hashtextextended(uri, 1) FROM headgate.entry WHERE id > {FINISHED};
    INSERT INTO headgate.worker (name, host, pid, alive_until)
    VALUES ('w', 'h', 1, clock_timestamp() + interval '1 hour');
    SELECT setval('headgate.batch', {FINISHED});
"""
READ = """
    SELECT relname, seq_tup_read + idx_tup_fetch AS rows
    FROM pg_stat_xact_user_tables WHERE schemaname = 'headgate'
"""


async def rows_read(link: Link, sql: str, *args: object) -> dict[str, int]:
    """How many rows of each table a statement reads."""
    before = {r["relname"]: r["rows"] for r in await link.fetch(READ)}
    await link.fetch(sql, *args)
    after = {r["relname"]: r["rows"] for r in await link.fetch(READ)}
    return {name: rows - before.get(name, 0) for name, rows in after.items()}


async def test_hot_statements_do_not_read_what_they_do_not_need(world: World):
    """A ledger with a long past and a long queue is as quick as a new one.

    The tables are filled and never analysed: the planner knows nothing, which is when it guesses.
    """
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(FILL)
        claimed = await rows_read(
            link, "SELECT * FROM headgate.claim(1::smallint, 1, 100, 0, false)"
        )
        keys = [b"%032d" % n for n in range(100)]
        texts = [f"file:///new/{n}" for n in range(100)]
        received = await rows_read(
            link,
            "SELECT * FROM headgate.receive(1::smallint, 's', 100, $1::bytea[], $2::text[],"
            " array_fill(now(), ARRAY[100]), array_fill(now(), ARRAY[100]),"
            " array_fill(1::bigint, ARRAY[100]), array_fill(false, ARRAY[100]),"
            " array_fill(NULL::text, ARRAY[100]), $2::text[], $1::bytea[], $1::bytea[], NULL,"
            " NULL)",
            keys,
            texts,
        )
        lone = await rows_read(
            link,
            "SELECT * FROM headgate.receive_claimed(1::smallint, 's', 1, $1, 'file:///in/1', now(),"
            " now(), 1, false, NULL, 'new', $1, $1)",
            b"%032d" % 100,
        )
        ids = list(range(FINISHED + 1, FINISHED + 101))
        left = await rows_read(
            link,
            "SELECT * FROM headgate.leave(1::smallint, 1, $1::bigint[], $2::int[])",
            ids,
            [1] * 100,
        )
        published = await rows_read(
            link,
            "SELECT headgate.publish(1::smallint, 1, $1::bigint[], $2::text[],"
            " array_fill(2, ARRAY[100]), $3::bigint[], array_fill(false, ARRAY[100]),"
            " $4, $4, array_fill(NULL::text, ARRAY[100]), true)",
            ids,
            [f"file:///in/{n}" for n in range(1, 101)],
            list(range(1, 101)),
            b"".join(keys),
        )
        await link.execute("SELECT headgate.claim(1::smallint, 1, 1, 0, false)")
        sealed = await rows_read(
            link,
            "SELECT * FROM headgate.seal_lone(1::smallint, $1, 1, 'finalized', 1::smallint, 1,"
            " NULL, '', NULL, $2, 1, 'file:///in/101', 2, 101, false, $3, $3, NULL)",
            FINISHED + 101,
            keys[0][:16],
            keys[0],
        )
        await link.execute("ROLLBACK")
    for name, read in {
        "claim": claimed,
        "receive": received,
        "receive_claimed": lone,
        "leave": left,
        "publish": published,
        "seal_lone": sealed,
    }.items():
        assert sum(read.values()) < 2_000, f"{name} reads {read}"
    assert claimed["work"] >= 100


async def test_an_outage_that_thousands_wait_for_does_not_slow_the_claims(world: World):
    """One entry goes and looks; the others are not walked over pair by pair, nor by other work."""
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(FILL)
        await link.execute(
            "UPDATE headgate.work SET due_at = now() - interval '1 minute', upstream = 7"
            f" WHERE id <= {FINISHED + 20_000}"
        )
        claim = "SELECT * FROM headgate.claim(1::smallint, 1, 100, 0, false)"
        first = await rows_read(link, claim)
        second = await rows_read(link, claim)
        probing = await link.fetchval(
            "SELECT count(*) FROM headgate.work WHERE upstream = 7 AND worker IS NOT NULL"
        )
        await link.execute("ROLLBACK")
    assert probing == 1
    assert sum(first.values()) < 50_000, first
    assert sum(second.values()) < 50_000, second


async def test_a_page_of_the_catalog_reads_its_own_items_only(world: World):
    """Whoever writes the files of a hundred items does not walk over all others for each."""
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(
            "INSERT INTO headgate.item (entry, pipeline, collection, item, starts, ends)"
            " SELECT n, 1, 'soil', 'a-name-as-files-have-it-' || n, now(), now()"
            " FROM generate_series(1, 20000) AS n"
        )
        ids = [f"a-name-as-files-have-it-{n}" for n in range(1, 101)]
        read = await rows_read(link, projection.Q.heads, ["soil"] * 100, ids, [1])
        await link.execute("ROLLBACK")
    assert read["item"] == 100, read


MANY = 60_000
# Commits of a hundred lines; one commit in a hundred is of another pipeline, one entry in a
# thousand waits and one is set aside.
PAST = f"""
    INSERT INTO headgate.pipeline (name, store) VALUES ('p', 1), ('rare', 1);
    INSERT INTO headgate.entry
        (pipeline, key, uri, event_time, received_at, fingerprint, removed, envelope)
    SELECT CASE WHEN n / 100 % 100 = 50 THEN 2 ELSE 1 END, sha256(n::text::bytea),
           'file:///in/' || n, now(), now(), n, false, '{{}}'
    FROM generate_series(1, {MANY}) AS n;
    INSERT INTO headgate.publication (entry, pipeline, version, deployment, content, effect, uri)
    SELECT id, pipeline, 1, 1, key, key, uri FROM headgate.entry WHERE id % 1000 NOT IN (1, 2);
    INSERT INTO headgate.journal (batch, n, entry, fence, outcome, attempt, at, steps, hash)
    SELECT id / 100 + 1, id % 100 + 1, id, 1,
           CASE id % 1000 WHEN 1 THEN 'quarantined' WHEN 2 THEN 'waiting' ELSE 'finalized' END
               ::headgate.status, 1, now(), 'claimed:0', '' FROM headgate.entry;
    INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)
    SELECT batch, batch, count(*), now(), sha256(''), CASE WHEN batch % 100 = 51 THEN 2 ELSE 1 END
    FROM headgate.journal GROUP BY batch;
    INSERT INTO headgate.work (pipeline, id, subject, due_at)
    SELECT pipeline, id, id, now() + interval '1 day' FROM headgate.entry WHERE id % 1000 = 2;
    INSERT INTO headgate.quarantine
        (entry, pipeline, subject, fence, attempts, class, reason, error, deployment, failures,
         first_at, last_at)
    SELECT id, pipeline, id, 1, 1, 'schema', 'schema', '', 1, '[]', now(), now()
    FROM headgate.entry WHERE id % 1000 = 1;
"""


async def test_a_page_of_a_list_reads_about_as_much_as_it_shows(world: World):
    """However long the past is and however rare what is asked for: changes, entries, publications.

    What cannot be found in time is not looked for on and on: the page says where it stopped.
    """
    nothing: list[str] = ["none"]
    asked: dict[str, Callable[[Link], Awaitable[object]]] = {
        "changes": lambda db: changes(db, None, 50, newest_first=True),
        "changes from the middle": lambda db: changes(db, Cursor(300, 7), 50),
        "changes of a rare pipeline": lambda db: changes(db, None, 50, pipelines=["rare"]),
        "changes of nobody": lambda db: changes(db, None, 50, pipelines=nothing),
        "rare changes": lambda db: changes(db, None, 50, outcome=["quarantined"]),
        "changes that are not there": lambda db: changes(db, None, 50, uri_prefix="s3://"),
        "entries": entries,
        "entries of a rare pipeline": lambda db: entries(db, pipelines=["rare"]),
        "entries that wait": lambda db: entries(db, status="waiting"),
        "entries in quarantine": lambda db: entries(db, status="quarantined"),
        "entries that are not there": lambda db: entries(db, status="rolled_back"),
        "publications": publications,
        "publications of a rare pipeline": lambda db: publications(db, pipelines=["rare"]),
    }
    async with world.db.connection() as link:
        await link.execute("BEGIN; INSERT INTO headgate.store (uri) VALUES ('file:///lake')")
        await link.execute(PAST)
        for name, page in asked.items():
            before = {r["relname"]: r["rows"] for r in await link.fetch(READ)}
            await page(link)
            after = {r["relname"]: r["rows"] for r in await link.fetch(READ)}
            read = {t: rows - before.get(t, 0) for t, rows in after.items()}
            assert sum(read.values()) < 25_000, f"{name} reads {read}"
        await link.execute("ROLLBACK")


async def test_figures_do_not_read_the_past_nor_the_queue(world: World):
    """How much came, what became of it, what is to do: told as quickly on any ledger.

    Nothing is analysed here either.
    """
    async with world.db.connection() as link:
        await link.execute("BEGIN")
        await link.execute(FILL)
        await link.execute(
            "INSERT INTO headgate.store (uri) VALUES ('file:///lake');"
            "INSERT INTO headgate.pipeline (name, store) SELECT 'p', id FROM headgate.store;"
            "INSERT INTO headgate.commit (pos, batch, n, at, chain, pipeline)"
            f" SELECT n, n, 1, now(), sha256(''), 1 FROM generate_series(1, {FINISHED}) AS n;"
            f"INSERT INTO headgate.tally VALUES (1, 's', 0, {FINISHED + WAITING},"
            f" {FINISHED + WAITING}, 0, 0)"
        )
        while await link.fetchval(flow.Q.roll_up, 100_000, flow.SAMPLES, BOUNDS):
            pass
        totals = await flow.totals(link)
        queue = (await flow.queued(link, {1: WAITING}))[1]
        assert (totals[1].finalized, queue.ready) == (FINISHED, WAITING)
        windows = (30 * 86_400, ["1h"], [3600])
        read = {
            "totals": await rows_read(link, flow.Q.totals),
            "queues": await rows_read(link, flow.Q.queues, 1000),
            "waiting": await rows_read(link, flow.Q.waiting, 1),
            "rates": await rows_read(link, flow.Q.rates),
            "service levels": await rows_read(link, slo.Q.windows, *windows),
            "latencies": await rows_read(link, slo.Q.latencies, *windows),
        }
        await link.execute("ROLLBACK")
    for name, rows in read.items():
        assert sum(rows.values()) < 2_000, f"{name} reads {rows}"


async def test_bytes_that_are_kept_are_looked_up(world: World):
    """However many objects a store has, a commit that refers to a few of them reads those."""
    async with world.db.connection() as link:
        await link.execute("BEGIN; INSERT INTO headgate.store (uri) VALUES ('file:///lake')")
        store = await link.fetchval("SELECT min(id) FROM headgate.store")
        digests = [hashlib.sha256(b"%d" % n).digest() for n in range(100)]
        await link.execute(
            "INSERT INTO headgate.object (store, digest, generation, state, size, touched_at)"
            " SELECT $1, sha256(n::text::bytea), 1, 'staged', 1, now()"
            f" FROM generate_series(0, {WAITING}) AS n",
            store,
        )
        kept = await rows_read(link, objects.Q.keep, store, sorted(digests), [1] * 100)
        await link.execute("ROLLBACK")
    assert kept["object"] < 1_000, f"keep reads {kept}"

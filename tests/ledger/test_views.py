"""The names that other systems know: the same entries under S0's, S1's and S2's columns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.verify.world import Copy, World, standing

COLUMNS = {
    "wal": (
        "wal_id idempotency_key status status_v0 first_seen_at finalized_at source_uri version_hint"
        " checksum_sha256 delta_manifest_ref prov_ref"
    ),
    "processed_events": (
        "handler event_id idempotency_key aggregate_id sequence_number status owner attempts"
        " lease_expires_at expires_at"
    ),
    "idempotency_log": (
        "idem_key pipeline_id task_id dataset_id operation_type status result_hash created_at"
        " updated_at raw_checksum params_hash wal_pointer"
    ),
    "rollback_registry": "wal_pointer entry idempotency_key source_uri reason rolled_back_at",
    "entry_state": (
        "entry pipeline uri key status reason attempts fence event_time received_at settled_at"
        " due_at worker version"
    ),
}


@pytest.fixture(scope="module")
def copies() -> Iterator[Copy]:
    with standing() as made:
        yield made


@pytest.mark.parametrize("view", COLUMNS)
def test_a_view_has_every_column_it_is_known_for(copies: Copy, view: str) -> None:
    """A tool written for the older names finds all of them."""

    async def go() -> None:
        async with copies() as world:
            rows = await world.db.fetch(
                "SELECT attname FROM pg_attribute"
                " WHERE attrelid = $1::text::regclass AND attnum > 0",
                f"headgate.{view}",
            )
            assert {r["attname"] for r in rows} >= set(COLUMNS[view].split())
            assert await world.db.fetch(f"SELECT * FROM headgate.{view}")

    asyncio.run(go())


def test_statuses_are_said_in_the_words_of_each_seed(copies: Copy) -> None:
    """Finished, skipped, waiting, in quarantine, discarded: each has its word in every view."""
    said = {
        "a2": ("finalized", "finalized", "succeeded", "done", "success"),
        "c2": ("skipped", "finalized", "succeeded", "skipped", "success"),
        "slow1": ("waiting", "pending", "started", "pending", "partial"),
        "bad1": ("quarantined", "failed", "failed", "failed", "failure"),
        "junk1": ("rolled_back", "rolled_back", "failed", "failed", "failure"),
    }

    async def go() -> None:
        async with copies() as world:
            for name, words in said.items():
                row = await world.db.fetchrow(
                    "SELECT s.status, w.status, w.status_v0, p.status, i.status"
                    " FROM headgate.entry_state s JOIN headgate.wal w USING (entry)"
                    " JOIN headgate.processed_events p USING (entry)"
                    " JOIN headgate.idempotency_log i USING (entry) WHERE s.entry = $1",
                    world.entry(name),
                )
                assert row is not None
                assert tuple(row) == words, name

    asyncio.run(go())


def test_keys_and_pointers_lead_back_to_the_ledger(copies: Copy) -> None:
    """wal_id is one per key, the checksum is the published one, the pointer names a journal row."""

    async def go() -> None:
        async with copies() as world:
            wal = await world.db.fetch("SELECT * FROM headgate.wal")
            assert len({r["wal_id"] for r in wal}) == len(wal) == len(world.entries)
            content = await world.db.fetchval(
                "SELECT encode(content, 'hex') FROM headgate.publication WHERE entry = $1",
                world.entry("b1"),
            )
            log = await world.db.fetchrow(
                "SELECT * FROM headgate.idempotency_log WHERE entry = $1", world.entry("b1")
            )
            assert log is not None
            assert log["raw_checksum"] == content
            (b,) = [r for r in wal if r["entry"] == world.entry("b1")]
            assert b["checksum_sha256"] == f"sha256:{content}"
            assert b["finalized_at"] is not None
            assert b["version_hint"]
            batch, n = map(int, log["wal_pointer"].split("/"))
            entry = await world.db.fetchval(
                "SELECT entry FROM headgate.journal WHERE batch = $1 AND n = $2", batch, n
            )
            assert entry == world.entry("b1")

    asyncio.run(go())


def test_the_rollback_registry_says_who_discarded_and_why(copies: Copy) -> None:
    """What was rolled back is listed with its error, and an operator's decision with its reason."""

    async def go() -> None:
        async with copies() as world:
            rows = await world.db.fetch(
                "SELECT * FROM headgate.rollback_registry WHERE entry = $1 ORDER BY commit",
                world.entry("junk1"),
            )
            assert [r["kind"] for r in rows] == ["attempt", "discard"]
            assert "never" in rows[0]["error"]
            assert (rows[1]["actor"], rows[1]["because"]) == ("tester", "not needed")

    asyncio.run(go())


def test_a_worker_at_work_is_the_owner(copies: Copy) -> None:
    """While an entry is claimed its owner and the end of its lease are shown."""

    async def go() -> None:
        async with copies() as world:
            await world.db.execute(
                "WITH w AS (INSERT INTO headgate.worker (name, host, pid, alive_until)"
                " VALUES ('busy', 'h', 1, now() + interval '1 hour') RETURNING id)"
                " UPDATE headgate.work SET worker = (SELECT id FROM w)"
            )
            row = await world.db.fetchrow(
                "SELECT * FROM headgate.processed_events WHERE entry = $1", world.entry("slow1")
            )
            assert row is not None
            assert (row["status"], row["owner"]) == ("processing", "busy")
            assert row["lease_expires_at"] is not None

    asyncio.run(go())


@pytest.mark.parametrize("view", COLUMNS)
def test_a_question_about_one_entry_reads_one_entry(copies: Copy, view: str) -> None:
    """With many entries a look-up by entry or by key goes through indexes, whatever the view."""

    async def go() -> None:
        async with copies() as world:
            await _crowd(world)
            key = await world.db.fetchval(
                "SELECT key FROM headgate.entry WHERE id = $1", world.entry("bad1")
            )
            entry = f"entry = {world.entry('bad1')}"
            for where in (entry, f"change_key = '\\x{key.hex()}'"):
                plan = await world.db.fetch(f"EXPLAIN SELECT * FROM headgate.{view} WHERE {where}")
                lines = [r[0] for r in plan]
                scans = [x for x in lines if "Seq Scan on" in x]
                big = [x for x in scans if any(f" {t} " in x for t in ("entry", "journal", "work"))]
                assert not big, "\n".join(lines)

    asyncio.run(go())


async def _crowd(world: World) -> None:
    await world.db.execute(
        """
        INSERT INTO headgate.entry
            (pipeline, key, uri, event_time, received_at, fingerprint, removed, envelope)
        SELECT 1, sha256(g::text::bytea), 'x:' || g, now(), now(), 0, false, '{}'
        FROM generate_series(1, 20000) g;
        INSERT INTO headgate.journal (batch, n, entry, fence, outcome, attempt, at, steps, hash)
        SELECT 1000, row_number() OVER (), e.id, 1, 'skipped', 1, now(), 'claimed skipped', '\\x00'
        FROM headgate.entry e WHERE uri LIKE 'x:%';
        INSERT INTO headgate.work (pipeline, id, subject)
        SELECT 1, g, g FROM generate_series(100000, 110000) g;
        ANALYZE
        """
    )

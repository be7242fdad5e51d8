"""Clock, chance and listings are the world's for the handler, and the machine's for all others."""

from __future__ import annotations

from datetime import UTC, datetime

from .conftest import CLOCK, Watched

READS = """
    import gzip, os, random, secrets, time, uuid
    from datetime import UTC, date, datetime
    from pathlib import Path

    for name in "bca":
        Path(name).touch()

    def of(obj, **facts):
        for name, value in facts.items():
            yield {"name": f"{obj.name} {name}", "value": str(value)}

    @p.rows("fact", key="name", schema=Fact)
    def facts(obj):
        yield from of(
            obj,
            clock_now=datetime.now(UTC),  # now
            clock_utc=datetime.utcnow(),
            clock_today=date.today(),
            clock_time=time.time(),
            clock_text=time.strftime("%Y-%m-%d %H:%M"),
            clock_library=gzip.compress(b"x"),
            clock_passing=time.monotonic(),
            clock_id=str(uuid.uuid1(clock_seq=1)),
        )
        yield from of(
            obj,
            random_number=random.random(),  # chance
            random_own=random.Random().random(),
            random_id=uuid.uuid4(),
            random_secret=secrets.token_hex(8),
            random_bytes=os.urandom(8),
            random_system=random.SystemRandom().random(),
        )
        random.seed(7)
        yield from of(
            obj,
            same_seeded=random.random(),
            same_own=random.Random(3).random(),
            listing_names=[n for n in os.listdir() if len(n) == 1],  # listing
            listing_paths=[f.name for f in Path().iterdir() if len(f.name) == 1],
            listing_walk=[n for n in next(os.walk("."))[2] if len(n) == 1],
            listing_glob=[f.name for f in Path().glob("?")],
            same_sorted=sorted(os.listdir()),
        )
"""


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The kinds of facts of which all differ, and no fact of any other kind does."""
    assert before.keys() == after.keys()
    kinds = {name.split()[1].split("_")[0] for name in before}
    changed = {name for name in before if before[name] != after[name]}
    for kind in kinds:
        of_kind = {name for name in before if name.split()[1].startswith(kind)}
        assert of_kind <= changed or not of_kind & changed, of_kind - changed
    return {name.split()[1].split("_")[0] for name in changed}


def test_only_what_was_changed_changes(watched: Watched) -> None:
    """Another clock, seed or order of listings changes what depends on it, and nothing else.

    What came before a sample does not change its clock and chance, so a difference has one cause.
    """
    two = {"a": "a", "b": "b"}
    calm = watched(READS, two)
    other_way = watched(READS, {"b": "b", "a": "a"})
    assert calm.outcomes == ["finalized"] * 2
    assert other_way.facts == calm.facts
    assert calm.facts["a random_number"] != calm.facts["b random_number"]
    assert _changed(calm.facts, watched(READS, two, clock=CLOCK + 100_000).facts) == {"clock"}
    assert _changed(calm.facts, watched(READS, two, seed=2).facts) == {"random"}
    assert _changed(calm.facts, watched(READS, two, listing="reversed").facts) == {"listing"}

    read = datetime.fromisoformat(calm.facts["a clock_now"])
    assert 0 < (read - datetime.fromtimestamp(CLOCK, UTC)).total_seconds() < 1
    for what, mark in (("clock", "# now"), ("random", "# chance"), ("listing", "# listing")):
        lines = [r["line"] for r in calm.of(what) if r["uri"] == "test://a"]
        assert calm.line(mark) in lines, what
        assert len(lines) == len({(r["line"], r["detail"]["name"]) for r in calm.of(what)
                                  if r["uri"] == "test://a"}), "once per line and name"  # fmt: skip


def test_waiting_ends_and_the_ledger_lives_by_the_real_clock(watched: Watched) -> None:
    """A handler that waits for time to pass sees it pass; its clock moves no lease and no retry."""
    seen = watched(
        """
        import time
        from datetime import datetime
        from pathlib import Path

        @p.rows("fact", key="name", schema=Fact)
        def facts(obj):
            if not Path("failed").exists():
                Path("failed").touch()
                raise ValueError("once, to be retried soon")
            for clock in (time.time, time.monotonic):
                until = clock() + 0.3
                while clock() < until:
                    time.sleep(0.05)
            waiting = datetime.now()
            while (datetime.now() - waiting).total_seconds() < 0.5:
                pass
            yield {"name": "year", "value": str(datetime.now().year)}

        @p.apply
        def applied(tx, obj):
            ago = "SELECT clock_timestamp() - max(at) < interval '1 hour' FROM headgate.journal"
            assert tx.fetchval(ago)
        """,
        clock=CLOCK - 20 * 366 * 86_400,
    )
    assert seen.outcomes == ["waiting: ValueError", "finalized"]
    assert int(seen.facts["year"]) < 2010

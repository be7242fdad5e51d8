"""What the witness says of a handler, and that a handler does not feel it."""

from __future__ import annotations

from .conftest import Watched

# Everything a careful author may do. None of it may end differently because someone looks.
CAREFUL = """
    import asyncio, csv, dataclasses, gzip, hashlib, io, json, pickle, random, sqlite3, tempfile
    import threading, uuid, zipfile
    from concurrent.futures import ThreadPoolExecutor
    from datetime import UTC, date, datetime, timedelta
    from functools import partial
    from pathlib import Path
    from pydantic import BaseModel

    class Moment(datetime):
        pass

    class Model(BaseModel):
        at: datetime

    @dataclasses.dataclass
    class Kept:
        at: datetime
        day: date

    @p.validate
    def check(obj):
        assert obj.text()

    @p.rows("fact", key="name", schema=Fact)
    def facts(obj, run):
        at = obj.event_time
        kept = Kept(at, at.date())
        yield {"name": obj.name + " time", "value": str([
            type(datetime.now()) is datetime, isinstance(at, datetime), isinstance(at, date),
            pickle.loads(pickle.dumps(kept)) == kept, type(Moment.now()) is Moment,
            Moment(2020, 1, 1) + timedelta(1) == datetime(2020, 1, 2),
            Model(at=at).model_dump_json(), datetime.fromisoformat("2020-01-01").isoformat(),
            datetime.strptime("2020", "%Y").year, dataclasses.asdict(kept)["day"].isoformat(),
        ])}
        rows = list(csv.DictReader(io.StringIO("a,b\\n1,2\\n")))
        yield {"name": obj.name + " csv", "value": json.dumps(rows)}
        memory = sqlite3.connect(":memory:")
        memory.execute("CREATE TABLE t (a)")
        memory.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        total = memory.execute("SELECT sum(a) FROM t").fetchone()[0]
        yield {"name": obj.name + " sqlite", "value": str(total)}
        with tempfile.TemporaryDirectory() as folder:
            inner = Path(folder) / "deep" / "er"
            inner.mkdir(parents=True)
            (inner / "x").write_text("in a temporary folder")
            found = sorted(f.name for f in Path(folder).rglob("*"))
            yield {"name": obj.name + " temp", "value": str(found) + (inner / "x").read_text()}
        rng = random.Random(obj.digest)
        yield {"name": obj.name + " seeded", "value": str([rng.random(), rng.choice("abc")])}
        yield {"name": obj.name + " uuid", "value": str(uuid.uuid5(uuid.NAMESPACE_URL, obj.uri))}
        with ThreadPoolExecutor(2) as pool:
            squares = list(pool.map(lambda n: n * n, range(4)))
        thread = threading.Thread(target=squares.append, args=(obj.size,))
        thread.start()
        thread.join()
        yield {"name": obj.name + " threads", "value": str(squares)}
        answer = run.call("greet", lambda key: {"key": len(key), "said": "hello"})
        yield {"name": obj.name + " call", "value": json.dumps(answer)}
        yield {"name": obj.name + " partial", "value": run.call("p", partial(str.upper, "x"))}

    @p.transform
    def packed(obj):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(zipfile.ZipInfo("a.txt", (2020, 1, 1, 0, 0, 0)), obj.text())
        yield {obj.name + ".zip": buffer.getvalue()}
        yield hg.Artifact(obj.name + ".gz", gzip.compress(obj.read(), mtime=0))
        path = Path(tempfile.mkdtemp()) / "out"
        path.write_text("from a path")
        yield {obj.name + ".path": path}

    @p.transform
    def lazy(obj):
        return ({obj.name + f".{n}": str(n)} for n in range(3))

    @p.transform
    def stream(obj):
        return {obj.name + ".stream": io.BytesIO(b"from a stream")}

    @p.apply
    def applied(tx, obj):
        tx.execute("CREATE TABLE IF NOT EXISTS seen (uri text PRIMARY KEY)")
        tx.execute("INSERT INTO seen VALUES ($1)", obj.uri)
"""

ASYNC = """
    import asyncio

    async def nap(n):
        await asyncio.sleep(0.001)
        return n

    @p.rows("fact", key="name", schema=Fact)
    async def facts(obj, run):
        first = await asyncio.gather(nap(1), asyncio.create_task(nap(2)))
        async with asyncio.timeout(5):
            more = await asyncio.to_thread(sorted, [3, 1, 2])
        async def ask(key):
            await asyncio.sleep(0)
            return [len(key), more]
        yield {"name": obj.name + " many", "value": str([first, more])}
        yield {"name": obj.name + " call", "value": str(await run.call("ask", ask))}

    @p.transform
    async def one(obj):
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            await nap(1)
            return {obj.name: "timed out as it should"}

    @p.apply
    async def applied(tx, obj, run):
        await tx.execute("CREATE TABLE IF NOT EXISTS seen (uri text PRIMARY KEY)")
        await tx.execute("INSERT INTO seen VALUES ($1)", obj.uri)
"""
SAMPLES = {"a": "first", "b": "second"}


def test_a_careful_handler_does_not_feel_that_it_is_watched(watched: Watched) -> None:
    """Rows, artifacts and endings are the same with a witness, without, and while it is traced."""
    alone = watched(CAREFUL, SAMPLES, witness=False)
    seen = watched(CAREFUL, SAMPLES)
    traced = watched(CAREFUL, SAMPLES, trace=True)
    assert alone.outcomes == ["finalized"] * 2
    assert len(alone.facts) == 18
    assert len(alone.artifacts) == 14
    for other in (seen, traced):
        assert (other.facts, other.artifacts) == (alone.facts, alone.artifacts)
        assert other.outcomes == alone.outcomes
    assert [r["detail"] for r in seen.of("file")] == [], "temporary files are nobody's effect"


def test_an_async_handler_does_not_feel_it_either(watched: Watched) -> None:
    """Tasks, threads, timeouts and awaited calls work as they do when nobody looks."""
    alone = watched(ASYNC, SAMPLES, witness=False)
    traced = watched(ASYNC, SAMPLES, trace=True)
    assert alone.outcomes == ["finalized"] * 2
    assert len(alone.facts) == 4
    assert (traced.facts, traced.artifacts) == (alone.facts, alone.artifacts)
    calls = [(r["detail"]["name"], r["handler"], r["attempt"]) for r in traced.of("call")]
    assert calls == [("ask", "facts", 1)] * 2


def test_a_record_says_who_did_what_on_which_line(watched: Watched) -> None:
    """The line is the user's own, however deep below it the library is that did it."""
    (watched.home / "helping.py").write_text(
        "def note(path, text):\n\n    with open(path, 'a') as f:\n        f.write(text)\n"
    )
    seen = watched(
        """
        import sys
        sys.path.insert(0, "HOME")
        import helping
        from concurrent.futures import ThreadPoolExecutor

        POOL = ThreadPoolExecutor(1)

        @p.transform
        def writes(obj, run):
            helping.note("audit.log", obj.name)  # through another module
            POOL.submit(helping.note, "pool.log", obj.name).result()
            run.call("tell", lambda: helping.note("called.log", "x"))
        """
    )
    direct, pooled, called = seen.of("file")
    assert direct["file"] == "p.py"
    assert direct["line"] == seen.line("through another module")
    assert direct["code"].startswith('helping.note("audit.log"')
    assert (direct["handler"], direct["uri"], direct["attempt"]) == ("writes", "test://a", 1)
    assert direct["through"][-1].endswith("helping.py:3")
    assert (pooled["handler"], pooled["line"]) == ("writes", seen.line("POOL.submit"))
    assert (called["in_call"], called["line"]) == ("tell", seen.line('run.call("tell"'))
    assert [r["detail"]["name"] for r in seen.of("call")] == ["tell"]
    assert direct["in_call"] is None


def test_a_retried_handler_is_seen_twice_and_its_call_once(watched: Watched) -> None:
    """Each attempt is told apart; a call that was made is not made again."""
    seen = watched(
        """
        from pathlib import Path

        @p.transform
        def shaky(obj, run):
            with open("audit.log", "a") as audit:
                audit.write("x")
            run.call("tell", lambda: None)
            if not Path("failed").exists():
                Path("failed").touch()
                raise ValueError("once")
        """
    )
    appended = [r["attempt"] for r in seen.of("file") if r["detail"]["mode"] == "a"]
    # A quick handler that turns out to need a thread is begun again there, in the same attempt.
    assert list(dict.fromkeys(appended)) == [1, 2]
    assert len(seen.of("call")) == 1
    assert (seen.folder / "work" / "audit.log").read_text() == "x" * len(appended)

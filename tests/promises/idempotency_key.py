"""Idempotency-Key: a request counts once per key, and every repeat is answered."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import anyio
import pytest
from tests.shop import Gate, make, serving
from tests.world import World, until

import headgate as hg
from headgate.errors import UsageError
from headgate.model import crash
from headgate.model.operation import Moment

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def shared_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of this test are remembered in its world."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)


class Said(NamedTuple):
    status: int
    headers: Any
    body: bytes
    json: Any

    @property
    def reason(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["type"] == f"urn:headgate:problem:{self.json['reason']}"
        assert self.json["status"] == self.status
        assert self.json["hint"]
        return self.json["reason"]


class Client:
    """Who orders."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def post(
        self, path: str = "/orders", key: str | None = "k1", *, method: str = "POST", at: str = "",
        json: Any = None, headers: dict[str, str] | None = None,
    ) -> Said:  # fmt: skip
        sent = {**({} if key is None else {"Idempotency-Key": key}), **(headers or {})}
        body = {"item": "book"} if json is None else json
        url = (at or self.url) + path
        async with self.session.request(
            method, url, json=body, headers=sent, allow_redirects=False
        ) as got:
            data = await got.read()
            is_json = "json" in got.headers.get("content-type", "")
            return Said(got.status, got.headers, data, await got.json() if is_json else None)


@asynccontextmanager
async def customer(url: str = "") -> AsyncIterator[Client]:
    # A connection for each request: a server that dies or raises closes those it had.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Client(session, url)


@asynccontextmanager
async def shop(world: World, gate: Gate | None = None, **how: Any) -> AsyncIterator[Client]:
    """A shop that serves, its table, and who orders there. Nothing is held when it closes."""
    await stock(world)
    async with serving(make(gate, **how)) as url, customer(url) as client:
        yield client
    await at_rest(world)


async def stock(world: World) -> None:
    await world.db.execute("CREATE TABLE IF NOT EXISTS orders (n serial, item text NOT NULL)")


async def at_rest(world: World) -> None:
    assert await world.val("SELECT count(*) FROM headgate.operation WHERE status = 'running'") == 0
    assert await world.val("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


async def orders(world: World) -> list[str]:
    return [item for (item,) in await world.rows("SELECT item FROM orders ORDER BY n")]


async def test_a_repeat_gets_the_answer_of_the_first(world: World) -> None:
    """Status, headers and body are the first one's, a header says so, and nothing ran again."""
    async with shop(world) as client:
        first, again = await client.post(), await client.post()
        assert first.status == again.status == 201
        assert first.body == again.body
        assert first.headers["x-shop"] == again.headers["x-shop"] == "ours"
        assert first.headers["idempotency-stored"] == "yes"
        assert again.headers["idempotent-replayed"] == "true"
        assert "idempotent-replayed" not in first.headers
        # A cookie is for who got it first.
        assert "set-cookie" in first.headers
        assert "set-cookie" not in again.headers
        other = await client.post(key="k2")
        assert "idempotent-replayed" not in other.headers
    assert await orders(world) == ["book", "book"]


async def test_another_request_with_the_key_is_refused(world: World) -> None:
    """A key stands for one request: its method, path, query and body."""
    async with shop(world) as client:
        await client.post()
        body, query = {"json": {"item": "pen"}}, {"path": "/orders?gift=1"}
        others: list[dict[str, Any]] = [body, query, {"path": "/plain"}, {"method": "PATCH"}]
        for other in others:
            said = await client.post(**other)
            assert (said.status, said.reason) == (409, "idempotency_key_conflict"), other
        assert (await client.post()).headers["idempotent-replayed"] == "true"
    assert await orders(world) == ["book"]


async def test_a_repeat_while_the_first_is_in_progress_is_told_to_wait(world: World) -> None:
    """It gets 409 and Retry-After; whoever has another key is served meanwhile."""
    gate = Gate()
    async with shop(world, gate, retry_after_seconds=3) as client:
        first = asyncio.create_task(client.post("/orders?wait=1"))
        await gate.entered.wait()
        said = await client.post("/orders?wait=1")
        assert (said.status, said.reason) == (409, "in_progress")
        assert said.headers["retry-after"] == "3"
        assert (await client.post(key="k2")).status == 201
        gate.opened.set()
        done = await first
        again = await client.post("/orders?wait=1")
        assert (again.status, again.body) == (201, done.body)
    assert await orders(world) == ["book", "book"]


async def test_a_repeat_may_wait_for_the_first(world: World) -> None:
    """With `wait_seconds` it is answered when the first one is, with the same words."""
    gate = Gate()
    async with shop(world, gate, wait_seconds=30) as client:
        first = asyncio.create_task(client.post("/orders?wait=1"))
        await gate.entered.wait()
        second = asyncio.create_task(client.post("/orders?wait=1"))
        denied = "SELECT count(*) FROM headgate.operation_journal WHERE event = 'denied'"
        await until(lambda: _is(world, denied, 1))
        gate.opened.set()
        assert (await first).body == (await second).body
    assert await orders(world) == ["book"]


async def _is(world: World, sql: str, expected: Any) -> bool:
    return await world.val(sql) == expected


async def test_callers_do_not_see_each_others_answers(world: World) -> None:
    """The same key of two callers is two requests, by Authorization or by what the app says."""
    async with shop(world) as client:
        for token in ("Bearer a", "Bearer b", "Bearer a"):
            said = await client.post(headers={"Authorization": token}, json={"item": token})
            assert said.json["item"] == token
        anonymous = await client.post(json={"item": "nobody"})
        assert anonymous.json["item"] == "nobody"
    assert await orders(world) == ["Bearer a", "Bearer b", "nobody"]
    kept = await world.val("SELECT string_agg(parts, ' ') FROM headgate.operation")
    assert "Bearer" not in kept

    def tenant(scope: Any) -> str:
        return dict(scope["headers"])[b"x-tenant"].decode()

    async with shop(world, caller=tenant) as client:
        for name in ("north", "south", "north"):
            await client.post(headers={"X-Tenant": name}, key="k9")
    assert (await orders(world))[3:] == ["book", "book"]


async def test_a_key_may_be_required(world: World) -> None:
    """Without it the caller reads what to send; methods that change nothing are left alone."""
    async with shop(world, required=True) as client:
        said = await client.post("/free", key=None)
        assert (said.status, said.reason) == (400, "idempotency_key_needed")
        assert "UUID" in said.json["hint"]
        for method in ("GET", "PUT"):
            assert (await client.post("/free", key=None, method=method)).status == 200
    async with shop(world) as client:
        assert (await client.post("/free", key=None)).json == "without"
        assert (await client.post("/free", key=None)).json == "without"
        assert (await client.post("/free")).json == "with"
    async with shop(world, methods=["put"]) as client:
        assert (await client.post("/free", method="PUT", key="p")).json == "with"
        assert (await client.post("/free", key="p")).json == "without"


async def test_a_key_that_cannot_be_one_is_refused(world: World) -> None:
    """400 with the form it should have; a quoted key is the same as a bare one."""
    async with shop(world) as client:
        for key in ("", "x" * 256, "caf\xe9", '""'):
            said = await client.post(key=key)
            assert (said.status, said.reason) == (400, "idempotency_key_refused"), key
        await client.post(key="same")
        assert (await client.post(key='"same"')).headers["idempotent-replayed"] == "true"


async def test_an_answer_that_decides_is_stored_with_its_sql(world: World) -> None:
    """A repeat gets it again, whatever it was, and what it did is there once."""
    decided = (200, 204, 303, 400, 404, 409, 422)
    async with shop(world) as client:
        for status in decided:
            for replayed in (None, "true"):
                said = await client.post(f"/answer/{status}", str(status))
                assert said.status == status
                assert said.headers.get("idempotent-replayed") == replayed
    assert await orders(world) == [str(status) for status in decided]


async def test_an_answer_that_says_ask_again_takes_everything_back(world: World) -> None:
    """Its SQL is rolled back, the key is free, and the retry runs, also with a corrected body."""
    async with shop(world) as client:
        for status in (401, 408, 425, 429, 500, 503):
            for attempt in (1, 2):
                said = await client.post(f"/answer/{status}", str(status), json={"try": attempt})
                assert (said.status, said.json) == (status, {"attempt": attempt})
                assert said.headers["idempotency-stored"] == "no; status"
    assert await orders(world) == []


async def test_an_app_says_which_answers_are_stored(world: World) -> None:
    """`stores` is asked with the status."""
    async with shop(world, stores=lambda status: status == 500) as client:
        for status, replayed in ((200, None), (500, "true")):
            await client.post(f"/answer/{status}", str(status))
            again = await client.post(f"/answer/{status}", str(status))
            assert again.headers.get("idempotent-replayed") == replayed
    assert await orders(world) == ["500"]


async def test_an_app_that_raises_leaves_nothing_behind(world: World) -> None:
    """The client hears of it as without the middleware; the retry runs and counts."""
    async with shop(world) as client:
        for what, status in (("http", 503), ("error", 500)):
            assert (await client.post(f"/raise/{what}", what)).status == status
            assert (await client.post(f"/raise/{what}", what)).body == b"served"
            again = await client.post(f"/raise/{what}", what)
            assert again.headers["idempotent-replayed"] == "true"
    assert await orders(world) == ["http", "error"]


async def test_an_answer_is_given_only_if_its_effect_is_committed(world: World) -> None:
    """SQL that fails in the commit: the client never sees the answer that was made before it."""
    async with shop(world) as client:
        assert (await client.post("/late")).status == 500
    assert await orders(world) == []
    assert await world.val("SELECT status FROM headgate.operation") == "failure"


async def test_plain_handlers_use_the_same_transaction(world: World) -> None:
    """A `def` handler runs in a thread: there `operation.tx` and `operation.call` block."""
    async with shop(world) as client:
        first, again = await client.post("/plain"), await client.post("/plain")
        assert first.json == again.json == {"orders": 1, "rung": "rung"}
    assert await orders(world) == ["plain"]


async def test_background_tasks_run_after_the_commit_and_once(world: World) -> None:
    """What an app does after its answer is not done again for a repeat."""
    app = make()
    await stock(world)
    async with serving(app) as url, customer(url) as client:
        await client.post("/after")
        await client.post("/after")
    assert app.state.told == ["after"]
    assert await orders(world) == ["after"]


async def test_a_body_that_is_too_large_is_refused(world: World) -> None:
    """413, announced or not, and nothing is kept of it."""
    async with shop(world, request_bytes=100) as client:
        said = await client.post(json={"item": "x" * 200})
        assert (said.status, said.reason) == (413, "body_too_large")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 10

        headers = {"Idempotency-Key": "k"}
        async with client.session.post(
            client.url + "/orders", data=pieces(), headers=headers
        ) as got:
            assert got.status == 413
        assert (await client.post("/free", key=None, json={"x": "x" * 200})).status == 200
    assert await world.count("headgate.operation") == 0


async def test_an_answer_that_is_too_large_is_passed_through_and_said(
    world: World, tmp_path: Path
) -> None:
    """It counts once all the same; a repeat is told that it was done. A store keeps larger ones."""
    async with shop(world, response_bytes=1000) as client:
        whole = await client.post("/large/1000")
        assert whole.headers["idempotency-stored"] == "yes"
        first = await client.post("/large/1001", key="k2")
        assert (first.status, len(first.body)) == (200, 1001)
        assert first.headers["idempotency-stored"] == "no; too-large"
        again = await client.post("/large/1001", key="k2")
        assert (again.status, again.reason) == (409, "answer_not_kept")
        assert again.json["first"] == {"status": 200, "why": "too-large"}
    assert await orders(world) == ["large", "large"]
    async with shop(world, response_bytes=10**6, store=str(tmp_path / "answers")) as client:
        first = await client.post("/large/500000", key="k3")
        again = await client.post("/large/500000", key="k3")
        assert again.headers["idempotent-replayed"] == "true"
        assert first.body == again.body


async def test_a_stream_is_passed_through_and_said(world: World) -> None:
    """Its pieces come when they are made; it counts once, when it has ended."""
    gate = Gate()
    async with shop(world, gate) as client:
        headers = {"Idempotency-Key": "k1"}
        async with client.session.post(client.url + "/stream", headers=headers) as got:
            assert got.headers["idempotency-stored"] == "no; streaming"
            assert await got.content.readany() == b"first "
            assert (await client.post("/stream", json="")).status == 409
            gate.opened.set()
            assert await got.read() == b"last"
        async with client.session.post(client.url + "/stream", headers=headers) as again:
            assert again.status == 409
            assert (await again.json())["reason"] == "answer_not_kept"
    assert await orders(world) == ["stream"]


async def test_a_stream_that_breaks_off_is_taken_back(world: World) -> None:
    """The client went away in the middle: nothing is recorded, and its retry runs."""
    gate = Gate()
    async with shop(world, gate) as client:
        headers = {"Idempotency-Key": "k1"}
        async with client.session.post(client.url + "/stream", headers=headers) as got:
            await got.content.readany()
            await gate.entered.wait()
            got.close()
        status = "SELECT status FROM headgate.operation"
        await until(lambda: _is(world, status, "failure"))
        gate.opened.set()
        async with client.session.post(client.url + "/stream", headers=headers) as got:
            assert await got.read() == b"first last"
    assert await orders(world) == ["stream"]


async def test_a_client_that_goes_away_gets_its_answer_later(world: World) -> None:
    """The work goes on without it, counts once, and a repeat gets the answer."""
    gate = Gate()
    async with shop(world, gate) as client:
        first = asyncio.create_task(client.post("/orders?wait=1"))
        await gate.entered.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        gate.opened.set()
        await until(lambda: _is(world, "SELECT status FROM headgate.operation", "success"))
        again = await client.post("/orders?wait=1")
        assert (again.status, again.headers["idempotent-replayed"]) == (201, "true")
    assert await orders(world) == ["book"]


class Server(NamedTuple):
    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def another_process(world: World) -> Iterator[Server]:
    """The shop in a process of its own, on the same database."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "uvicorn", "tests.shop:app", "--fd"),
                *(str(listening.fileno()), "--log-level", "critical", "--lifespan", "off"),
            ],
            cwd=ROOT,
            env={**os.environ, "HEADGATE_DATABASE_URL": world.url},
            pass_fds=[listening.fileno()],
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield Server(url, process)
    finally:
        process.kill()
        process.wait()


async def settled(client: Client, key: str, url: str) -> Said:
    """Ask as a good client does: again, with the same key, until it is answered."""
    while True:
        said = await client.post(key=key, at=url)
        if said.status != 409:
            return said
        assert said.reason == "in_progress"
        await asyncio.sleep(0.02)


async def test_two_servers_share_one_execution(world: World) -> None:
    """Sixteen clients send the same request at once to two processes: one order, one answer."""
    await stock(world)
    with another_process(world) as one, another_process(world) as two:
        async with customer() as client:
            for n in range(5):
                urls = [one.url, two.url] * 8
                said = await asyncio.gather(*(settled(client, f"k{n}", url) for url in urls))
                assert {s.status for s in said} == {201}
                assert len({s.body for s in said}) == 1
                assert sum("idempotent-replayed" not in s.headers for s in said) == 1
    assert await world.count("orders") == 5
    await at_rest(world)


MOMENTS = [Moment.OPENED, Moment.ENSURED, Moment.RECORDED, Moment.AFTER_END]


async def test_a_server_that_is_killed_leaves_one_effect(world: World) -> None:
    """kill -9 before, in and after the commit: the retry at another server gets one order."""
    await stock(world)
    with another_process(world) as stays:
        async with customer() as client:
            for moment in MOMENTS:
                with another_process(world) as dies:
                    with pytest.raises(aiohttp.ClientError):
                        await client.post(at=dies.url, key=moment, headers={"X-Die": moment})
                    assert dies.process.wait() == -9
                said = await settled(client, moment, stays.url)
                assert said.status == 201
                # After the commit the retry is answered with the dead server's words.
                replayed = moment == Moment.AFTER_END
                assert ("idempotent-replayed" in said.headers) is replayed, moment
                assert (said.json["by"] == dies.process.pid) is replayed
    assert await world.count("orders") == len(MOMENTS)
    await at_rest(world)


def request(key: str = "k1") -> dict[str, Any]:
    """What a server says of a request."""
    headers = [(b"idempotency-key", key.encode())]
    return {"type": "http", "method": "POST", "path": "/", "headers": headers}


async def ask(app: Any, key: str = "k1") -> list[Any]:
    """Call an app as a server does: what it sent."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(request(key), receive, send)
    return sent


def ordering(then: Callable[[Any], Any] | None = None) -> Any:
    """An app without a framework: orders, does something, answers."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await scope["state"]["operation"].tx.execute("INSERT INTO orders (item) VALUES ('raw')")
        if then is not None:
            await then(send)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    return hg.IdempotencyMiddleware(app)


@pytest.fixture
def armed() -> Iterator[Callable[[Moment, Callable[[], None]], None]]:
    yield crash.arm
    crash.disarm()


CANCELLED_AT = [
    Moment.BEFORE_TAKE, Moment.AFTER_TAKE, Moment.OPENED, Moment.ENSURED, Moment.BEFORE_END,
    Moment.RECORDED, Moment.AFTER_END,
]  # fmt: skip


async def _is_done(app: Any, key: str) -> bool:
    return (await ask(app, key))[-1]["body"] == b"done"


async def test_a_cancelled_request_holds_nothing(world: World, armed: Any) -> None:
    """Whenever it happens: either nothing was done, or it was done and a repeat is answered."""
    await stock(world)
    app = ordering()
    await ask(app, "first")  # connections are open by now
    loop = asyncio.get_running_loop()
    for n, moment in enumerate(CANCELLED_AT):
        task = asyncio.create_task(ask(app, moment))
        armed(moment, lambda task=task: loop.call_soon_threadsafe(task.cancel))
        with pytest.raises(asyncio.CancelledError):
            await task
        crash.disarm()
        # Given back in the background: until then a repeat is told to wait.
        await until(partial(_is_done, app, moment))
        assert await world.count("orders") == 2 + n, moment
    await at_rest(world)


async def test_a_cancelled_scope_holds_nothing(world: World) -> None:
    """Frameworks cancel again and again, at every await, until a request has ended."""
    await stock(world)
    stuck = asyncio.Event()

    async def wait(send: Any) -> None:
        stuck.set()
        await asyncio.Event().wait()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, ordering(wait))
            await stuck.wait()
            scope.cancel()
    assert scope.cancelled_caught
    await until(partial(_is_done, ordering(), "k1"))
    await at_rest(world)
    assert await world.count("orders") == 1


async def test_it_works_between_other_middleware(world: World) -> None:
    """Those of the framework make a stream of every answer: one with a length is stored."""
    async with shop(world, between=True) as client:
        first, again = await client.post(), await client.post()
        assert first.headers["idempotency-stored"] == "yes"
        assert again.headers["idempotent-replayed"] == "true"
        assert first.body == again.body
        assert (await client.post("/raise/error", "k2")).status == 500
        assert (await client.post("/raise/error", "k2")).body == b"served"
        assert (await client.post("/late", "k3")).status == 500
    assert await orders(world) == ["book", "error"]


async def test_an_app_that_never_answers_holds_nothing(world: World) -> None:
    """It returned without a whole answer: nothing is kept, and the next request runs."""
    await stock(world)

    async def stop(send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise Stopped

    class Stopped(Exception):
        pass

    with pytest.raises(Stopped):
        await ask(ordering(stop))

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await scope["state"]["operation"].tx.execute("INSERT INTO orders (item) VALUES ('raw')")

    assert await ask(hg.IdempotencyMiddleware(silent)) == []
    await at_rest(world)
    assert await world.count("orders") == 0
    assert (await ask(ordering()))[-1]["body"] == b"done"
    assert await world.count("orders") == 1


async def test_without_its_ledger_nothing_is_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After: the app is not asked, so the retry is safe."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    start, body = await ask(ordering())
    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"1"
    assert b'"reason":"ledger_unavailable"' in body["body"]


def test_the_middleware_brings_no_framework() -> None:
    """It is plain ASGI: neither FastAPI nor Starlette is imported for it."""
    code = (
        "import sys, headgate as hg; hg.IdempotencyMiddleware; "
        "print([m for m in sys.modules if m.partition('.')[0] in ('fastapi', 'starlette')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_what_cannot_be_meant_is_refused_at_once() -> None:
    """`methods` is several words, not one."""
    with pytest.raises(UsageError):
        hg.IdempotencyMiddleware(make(), methods="POST")

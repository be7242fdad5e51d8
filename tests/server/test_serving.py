"""`headgate serve` and `headgate up` as they are run: processes, a port, and kill -9."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.pg.processes import eventually
from tests.server.doors import app_of, secret, signed, whsec
from tests.world import World, change

import headgate as hg
from headgate.errors import UsageError
from headgate.ledger import token as tokens
from headgate.server import listen

KEY = whsec()
BODY = b'{"order": {"id": 7, "total": 3}}'
PIPELINE = """
import headgate as hg
orders = hg.Pipeline("orders", store="lake", sources=[
    hg.Webhook(secrets=hg.env("ORDERS_SECRET"), uri="orders/{order.id}", preview="waived")])
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextmanager
def running(world: World, *args: str, **env: str) -> Iterator[str]:
    """A command of ours that serves; its address once it does."""
    port = free_port()
    (world.folder / "orders.py").write_text(PIPELINE)
    log = world.folder / "log"
    with log.open("w") as lines:
        process = subprocess.Popen(
            [sys.executable, "-m", "headgate", *args, "--log-format", "json"],
            cwd=world.folder,
            stderr=lines,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")},
                "HEADGATE_DATABASE_URL": world.url,
                "HEADGATE_SERVE_PORT": str(port),
                "ORDERS_SECRET": KEY,
                **env,
            },
        )
    try:
        eventually(lambda: '"serving"' in log.read_text(), seconds=60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


def post(url: str, id: str, body: bytes = BODY) -> tuple[int, Any]:
    """Send a signed call; status and document. Raises when nobody answers."""
    headers = signed(KEY, body, id=id) | {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/hooks/orders", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def post_until_answered(url: str, id: str) -> tuple[int, Any]:
    """Send again as a sender would, until somebody answers."""
    answered: list[tuple[int, Any]] = []

    def once() -> bool:
        try:
            answered.append(post(url, id))
        except OSError:
            return False
        return True

    eventually(once, seconds=60)
    return answered[0]


@pytest.mark.parametrize(
    ("point", "status", "reason"),
    [("after:receive", 409, "request_reused"), ("before:receive", 202, None)],
)
async def test_killed_between_commit_and_answer_the_next_try_is_told(
    world: World, point: str, status: int, reason: str | None
) -> None:
    """kill -9 on either side of the commit: the sender hears nothing, tries again, one effect."""

    def go() -> None:
        with running(world, "serve", "orders.py", HEADGATE_CRASH_AT=point) as url:
            with pytest.raises(OSError, match=r"Remote end closed|reset"):
                post(url, "msg_x")
            again, document = post_until_answered(url, "msg_x")
            assert (again, document.get("reason")) == (status, reason)

    await asyncio.to_thread(go)
    assert await world.count("headgate.entry") == 1
    assert await world.count("headgate.request") == 1


@pytest.mark.parametrize(("point", "again"), [("before:release", False), ("after:release:2", True)])
async def test_killed_between_action_and_answer_the_next_try_is_told(
    world: World, point: str, again: bool
) -> None:
    """kill -9 on either side of an action's commit: asked again under its key, it is done once."""
    bad = world.pipeline()

    @bad.validate
    def refuse(obj: hg.Object) -> None:
        raise hg.Permanent("nothing passes today", reason="broken")

    await world.receive(bad, change("a", "1"))
    await world.run(bad)
    operator = (await tokens.make(world.db, "olga", "operator", 600)).token
    headers = {"authorization": f"Bearer {operator}", "idempotency-key": "k"}
    said = json.dumps({"entries": [1], "because": "repaired"}).encode()

    def release(url: str) -> str | None:
        asked = urllib.request.Request(f"{url}/v1/quarantine/release", said, headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert json.load(answer)["entries"] == [1]
            return answer.headers["idempotent-replayed"]

    def go() -> None:
        with running(world, "serve", HEADGATE_CRASH_AT=point) as url:
            with pytest.raises(OSError, match=r"Remote end closed|reset"):
                release(url)
            heard: list[str | None] = []

            def once() -> bool:
                try:
                    heard.append(release(url))
                except OSError:
                    return False
                return True

            eventually(once, seconds=60)
            assert heard == ["true" if again else None]

    await asyncio.to_thread(go)
    assert await world.rows("SELECT actor, verb, because FROM headgate.action") == [
        ("olga", "release", "repaired")
    ]


def serve_wrongly(folder: Path, *args: str, **env: str) -> str:
    said = subprocess.run(
        [sys.executable, "-m", "headgate", "serve", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **env},
    )
    assert said.returncode == 2, said.stderr
    assert "Traceback" not in said.stderr
    return said.stderr


async def test_what_cannot_be_served_is_named(world: World) -> None:
    """Exit 2 and the way out: a secret that is missing; TLS is spoken of."""
    (world.folder / "orders.py").write_text(PIPELINE)
    said = await asyncio.to_thread(
        serve_wrongly, world.folder, "orders.py", "--host", "0.0.0.0",
        HEADGATE_DATABASE_URL=world.url,
    )  # fmt: skip
    assert "ORDERS_SECRET" in said
    assert "without TLS" in said


def test_an_address_that_cannot_be_listened_on_is_named() -> None:
    """A port that is taken, a host that is not ours: what to change, no traceback."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError) as told:
            listen.bind("127.0.0.1", taken.getsockname()[1])
        assert "another port" in told.value.hint
    with pytest.raises(UsageError) as told:
        listen.bind("192.0.2.1", 0)
    assert "another host" in told.value.hint
    assert [listen.is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x")] == [
        True, True, True, False, False,
    ]  # fmt: skip


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    before, listen.HEAD_SECONDS = listen.HEAD_SECONDS, seconds
    yield
    listen.HEAD_SECONDS = before


async def test_who_talks_slowly_is_not_waited_for(world: World) -> None:
    """Half a head, or none: the connection ends. Others are answered meanwhile."""
    source = hg.Webhook(secrets=secret(KEY), preview="waived")
    app = await app_of(world.db, world.pipeline("orders", sources=[source]))
    listening = listen.bind("127.0.0.1", 0)
    host, port = listening.getsockname()
    stopping = asyncio.Event()
    with patience(0.3):
        serving = asyncio.create_task(listen.serve(app, listening, stopping))
        silent, _ = await asyncio.open_connection(host, port)
        slow, half = await asyncio.open_connection(host, port)
        half.write(b"POST /hooks/orders HTTP/1.1\r\nHost: x\r\n")
        kept, whole = await asyncio.open_connection(host, port)
        whole.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await kept.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
        whole.write(b"GET /healthz HTTP/1.1\r\n")
        for reader in (silent, slow, kept):
            async with asyncio.timeout(5):
                assert await reader.read() == b""
    stopping.set()
    await serving
    listening.close()


async def test_a_head_without_end_is_refused(world: World) -> None:
    """Headers are bounded too."""
    app = await app_of(world.db)
    listening = listen.bind("127.0.0.1", 0)
    stopping = asyncio.Event()
    serving = asyncio.create_task(listen.serve(app, listening, stopping))
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nx: " + b"a" * 100_000)
    assert re.match(rb"HTTP/1.1 4\d\d", await reader.read(100))
    stopping.set()
    await serving
    listening.close()


async def test_a_body_that_does_not_come_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head promises more than is sent: 408."""
    monkeypatch.setattr("headgate.server.limits.BODY_SECONDS", 0.3)
    source = hg.Webhook(secrets=secret(KEY), preview="waived")
    app = await app_of(world.db, world.pipeline("orders", sources=[source]))
    listening = listen.bind("127.0.0.1", 0)
    stopping = asyncio.Event()
    serving = asyncio.create_task(listen.serve(app, listening, stopping))
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(b"POST /hooks/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
    async with asyncio.timeout(5):
        said = await reader.read()
    assert said.startswith(b"HTTP/1.1 408")
    assert b"body_too_slow" in said
    stopping.set()
    await serving
    listening.close()


async def test_the_example_does_what_its_page_says(world: World) -> None:
    """examples/webhook, by its own script: `up` serves and works; sent twice, one row."""
    example = Path(__file__).parents[2] / "examples" / "webhook"
    for name in ("orders.py", "send.py"):
        (world.folder / name).write_text((example / name).read_text())
    pipeline = (world.folder / "orders.py").read_text()

    def send(url: str, total: int) -> str:
        body = json.dumps({"order": {"id": 7, "total": total}})
        command = [sys.executable, "send.py", f"{url}/hooks/orders", "msg_1", body]
        env = {**os.environ, "ORDERS_SECRET": KEY}
        return subprocess.run(
            command, cwd=world.folder, env=env, capture_output=True, text=True, timeout=60
        ).stdout

    def go() -> None:
        (world.folder / "own").mkdir()
        (world.folder / "own" / "orders.py").write_text(pipeline)
        with running(world, "up", "own", "--workers", "1") as url:
            assert send(url, 3).startswith("202 ")
            assert send(url, 3).startswith("200 ")
            assert send(url, 4).startswith("409 ")
            eventually(lambda: '"finalized"' in send(url, 3), seconds=30)
            with urllib.request.urlopen(f"{url}/readyz", timeout=10) as ready:
                assert ready.read() == b"ready\n"
            with urllib.request.urlopen(f"{url}/metrics", timeout=10) as metrics:
                assert b'verdict="admitted"} 1.0' in metrics.read()

    await asyncio.to_thread(go)
    assert await world.table("shop_order", "id", "total") == [(7, 3)]


async def test_the_catalog_is_served_without_any_pipeline(world: World) -> None:
    """`headgate serve` alone needs the ledger and nothing else."""
    await world.register(world.pipeline("soil", dataset="soil"))

    def go() -> None:
        with running(world, "serve") as url:
            answer = urllib.request.urlopen(f"{url}/stac/collections", timeout=30).read()
            assert [c["id"] for c in json.loads(answer)["collections"]] == ["soil"]

    await asyncio.to_thread(go)


async def test_a_catalogued_pipeline_is_enough_to_serve(world: World) -> None:
    """It is made known, so that its collection is there before its first object."""
    (world.folder / "soil.py").write_text(
        'import headgate as hg\nsoil = hg.Pipeline("soil", store="lake", dataset="soil")\n'
    )

    def go() -> None:
        with running(world, "serve", "soil.py") as url:
            answer = urllib.request.urlopen(f"{url}/stac/collections/soil", timeout=30).read()
            assert json.loads(answer)["id"] == "soil"

    await asyncio.to_thread(go)

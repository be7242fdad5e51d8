"""The console of the demo: `headgate serve rain.py` beside everything that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec

from headgate.errors import HeadgateError
from headgate.ledger import token
from headgate.pg import Database

from .ledger import environment
from .world import World

HOST, PORT = "127.0.0.1", 8420
PATIENCE_SECONDS = 30.0
# It is for whoever watches the demo, and a lively world may be watched for long.
TICKET_SECONDS = 6 * 3600.0
LOG = "serve.log"


def missing() -> str | None:
    """Why there can be no console here, if so."""
    if find_spec("fastapi") is None or find_spec("jinja2") is None:
        return "the console needs libraries that are not installed: pip install 'headgate[serve]'"
    return None


@asynccontextmanager
async def served(world: World, db: Database) -> AsyncGenerator[str]:
    """It is served; the link that signs in to it. No process is left behind."""
    port = _free_port()
    with (world.folder / LOG).open("w") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headgate.cli.demo.held", "serve", "rain.py",
            "--port", str(port),
            cwd=world.folder, env=environment(), stdin=PIPE, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        await _answers(port, process)
        made = await token.make(db, "demo", "admin", TICKET_SECONDS, kind="ticket")
        yield f"http://{HOST}:{port}/login?ticket={made.token}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@contextmanager
def until_interrupted() -> Generator[asyncio.Event]:
    """Ctrl-C, or a request to end, sets this event instead of breaking us off."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    try:
        yield over
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _free_port() -> int:
    """The usual one, unless somebody has it."""
    for port in (PORT, 0):
        with socket.socket() as tried, suppress(OSError):
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((HOST, port))
            return tried.getsockname()[1]
    raise HeadgateError("no port of this machine is free", hint="Run the demo with --no-serve.")


async def _answers(port: int, process: asyncio.subprocess.Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while process.returncode is None:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(HOST, port)
                    writer.close()
                    return
                await asyncio.sleep(0.05)
    raise HeadgateError(
        "the console did not start", hint=f"Its last words are in {LOG}. --no-serve does without."
    )

"""A PostgreSQL server of our own, for one host: started by the first who needs it, shared by all.

    with start(Path(".headgate")) as server: ...        async with embedded(home) as server: ...

A client holds a shared lock for as long as it uses the server and owns nothing else; the keeper
(`keeper.py`) owns the server and stops it when the last lock is gone. A client may be killed, the
keeper may be killed, the server may be killed: what is left finds or replaces the rest.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from headgate import errors
from headgate.pg import cluster
from headgate.pg.keeper import PORT, is_postmaster, read_postmaster

START_SECONDS = 60.0


class Server:
    """A running embedded server, kept running until `close` (or the end of this process)."""

    def __init__(self, url: str, control: Path, claim: IO[bytes]) -> None:
        self.url = url
        self._control = control
        self._claim = claim

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go. The server stops a moment after the last one did."""
        if self._claim.closed:
            return
        try:
            # If the keeper was killed nobody would stop the server after us.
            if _attached(self._control):
                _launch_if_alone(self._control, START_SECONDS)
        except (errors.HeadgateError, OSError):
            pass  # the home is gone, or nothing in it can be started: nothing is left to stop
        finally:
            self._claim.close()


@asynccontextmanager
async def embedded(home: Path) -> AsyncGenerator[Server]:
    """The server of this home, for the length of the block."""
    starting = asyncio.ensure_future(asyncio.to_thread(start, home))
    try:
        server = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_close_unwanted)
        raise
    try:
        yield server
    finally:
        await asyncio.to_thread(server.close)


def start(home: Path, *, timeout_seconds: float = START_SECONDS) -> Server:
    """Attach to the server of this home, starting or creating it when there is none.

    `LedgerRefused` when it cannot run here at all, `LedgerUnavailable` when it did not come up.
    """
    deadline = time.monotonic() + timeout_seconds
    control = _control_folder(home)
    claim = (control / "clients.lock").open("ab")
    try:
        fcntl.flock(claim, fcntl.LOCK_SH)  # waits for a keeper that is just stopping the server
        while True:
            _launch_if_alone(control, deadline - time.monotonic())
            if url := _attached(control):
                return Server(url, control, claim)
            if time.monotonic() > deadline:
                raise _did_not_start(control, f"no answer within {timeout_seconds:g} s")
            time.sleep(0.01)
    except BaseException:
        claim.close()
        raise


def _control_folder(home: Path) -> Path:
    """The folder of locks and log. It is ours; the folders above it are left as they are."""
    try:
        # Root's server runs as another user, who must be able to pass through, not to look.
        home.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        control = home.resolve() / "postgres"
        control.mkdir(mode=0o700, exist_ok=True)
        for name in ("clients.lock", "keeper.lock"):
            os.close(os.open(control / name, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise errors.LedgerRefused(
            f"the embedded database cannot use {home}: {error.strerror} ({error.filename})",
            hint="Run as the user who made this folder, or choose another home.",
        ) from error
    return control


def _launch_if_alone(control: Path, timeout_seconds: float) -> None:
    """If no keeper lives, prepare the cluster and start one; return when its server is ready."""
    with (control / "keeper.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        # From here on we hold the keeper's lock, and the keeper inherits it: closing our copy
        # of the descriptor does not release it.
        made = cluster.prepare(control)
        job = {
            "control": str(control),
            "data": str(made.data),
            "programs": str(made.programs),
            "uid": made.owner.uid,
            "gid": made.owner.gid,
            "runtime": os.environ.get("XDG_RUNTIME_DIR", ""),
        }
        word = _spawn(control, job, lock.fileno(), timeout_seconds)
    if word != "ready":
        raise _did_not_start(control, word.removeprefix("failed ") or "the keeper ended")


def _spawn(control: Path, job: dict[str, str | int], lock: int, timeout_seconds: float) -> str:
    """Start the keeper and wait for its first word; "" if it died without one."""
    script = Path(__file__).with_name("keeper.py")
    log = os.open(control / "server.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # -I and -S: neither the environment, nor the current folder, nor site-packages count.
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", script, json.dumps(job)],
            cwd="/",
            env=cluster.clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,
        )
    finally:
        os.close(log)
    # Not select(): it refuses descriptors above 1,024, and a process may have many files open.
    with keeper, selectors.DefaultSelector() as word:
        assert keeper.stdout is not None
        word.register(keeper.stdout, selectors.EVENT_READ)
        if not word.select(max(timeout_seconds, 1.0)):
            return f"failed no answer within {timeout_seconds:g} s"
        return keeper.stdout.readline().decode().strip()


def _attached(control: Path) -> str | None:
    """The running server's url, if it accepts connections."""
    data = cluster.data_folder(control)
    found = read_postmaster(data)
    if found is None or not found.ready or not is_postmaster(found.pid, data):
        return None
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(f"{found.socket_folder}/.s.PGSQL.{PORT}")
        except OSError:
            return None
    return f"postgresql://postgres@/postgres?host={quote(found.socket_folder)}&port={PORT}"


def _did_not_start(control: Path, why: str) -> errors.LedgerUnavailable:
    log = control / "server.log"
    tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
    return errors.LedgerUnavailable(
        "\n".join([f"the embedded database in {control} did not start: {why}", *tail]),
        upstream="postgres",
        hint=f"Read {log}.",
    )


def _close_unwanted(starting: asyncio.Future[Server]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()

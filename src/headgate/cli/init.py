"""`headgate init`: a small pipeline that runs, to begin from."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from headgate.errors import UsageError

from . import show
from .asked import Command
from .starter import FILES


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def init(folder: Path) -> None:
    """Write a small pipeline that runs into FOLDER (here, unless you say where).

    A file that is there already is never touched: if one of them differs from what would
    be written, nothing is written at all.
    """
    there = [name for name in FILES if (folder / name).exists()]
    if mine := [name for name in there if not _same(folder / name, FILES[name])]:
        raise UsageError(
            f"{folder}: {', '.join(mine)} {'is' if len(mine) == 1 else 'are'} there already;"
            " nothing was written",
            hint=f"Choose another folder, as in: headgate init {folder.name or 'rain'}2",
        )
    try:
        for name in FILES:
            if name not in there:
                _write(folder / name, FILES[name])
                click.echo(f"wrote {folder / name}")
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename}: {error.strerror}", hint="Choose another folder."
        ) from error
    if len(there) == len(FILES):
        click.echo("Everything is there already.")
    show.note("\nNext:")
    here = folder.resolve() == Path.cwd()
    show.hints(
        *([] if here else [f"cd {shlex.quote(str(folder))}"]),
        "headgate try rain.py incoming/2026-01-05.csv   # look, commit nothing",
        "headgate up rain.py --until-idle               # take both files in",
        "headgate db psql -c 'SELECT * FROM reading'",
    )


def _same(path: Path, content: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == content
    except (OSError, UnicodeDecodeError):
        return False


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # "x": somebody may have made it since we looked.
    with path.open("x", encoding="utf-8") as stream:
        stream.write(content)

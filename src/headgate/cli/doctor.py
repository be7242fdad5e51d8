"""`headgate doctor`: can Headgate work here?"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

import click

from headgate.errors import ConfigError

from . import show
from .asked import Asked, Command, json_option, pass_asked

if TYPE_CHECKING:
    from headgate.model.check import Check
    from headgate.settings import Settings

_STYLES = {"ok": "none", "warn": "yellow", "fail": "red"}


@click.command(cls=Command)
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@json_option
@pass_asked
@click.pass_context
def doctor(ctx: click.Context, asked: Asked, *, targets: tuple[str, ...], as_json: bool) -> None:
    """Check that Headgate can work here: machine, settings, database, schema, stores.

    With TARGET (rain.py, a folder, package.module:pipeline) also the sources of those
    pipelines: a queue, its dead letters, its policy, and the way from the bucket to it.

    \b
    headgate doctor ledger --json

    looks at the ledger alone, for CI: keys and indexes of its tables, dead rows, numbers that
    run out, old transactions, standbys. (A folder of that name is ./ledger.)

    Nothing is changed. Exit 1 if a check fails; a warning is no failure.
    """
    checks = _health(asked) if targets == ("ledger",) else _checks(asked, targets)
    failed = any(check.state == "fail" for check in checks)
    if as_json:
        show.as_json({"ok": not failed, "checks": [check._asdict() for check in checks]})
    else:
        _show(checks)
    ctx.exit(1 if failed else 0)


def _checks(asked: Asked, targets: tuple[str, ...]) -> list[Check]:
    from headgate.model.check import Check
    from headgate.runtime.doctor import check_database, check_machine, check_stores
    from headgate.runtime.doctor_sources import check_sources
    from headgate.runtime.load import load
    from headgate.runtime.loop import run
    from headgate.stores import open_store

    try:
        settings = asked.settings()
    except ConfigError as error:
        return [Check("settings", "fail", str(error), error.hint)]
    ledger = settings.ledger()

    with contextlib.redirect_stdout(sys.stderr):  # what a file prints when it is imported
        declared = [pipeline for target in targets for pipeline in load(target)]

    async def asked_others() -> list[Check]:
        found = [check async for check in check_database(ledger)]
        known = {check.text.partition(": ")[0] for check in found if check.name == "store"}
        stores = {open_store(pipeline.store).uri for pipeline in declared} - known
        found += await asyncio.to_thread(check_stores, stores)
        return found + [c async for c in check_sources(declared, settings.deadline_seconds)]

    with show.console(err=True).status("Looking…"):
        return [*check_machine(ledger), *_settings(settings), *run(asked_others)]


def _health(asked: Asked) -> list[Check]:
    """The database and what holds the ledger in it."""
    from headgate.runtime.doctor import check_database
    from headgate.runtime.loop import run

    ledger = asked.settings().ledger()

    async def looked() -> list[Check]:
        return [check async for check in check_database(ledger, health=True)]

    with show.console(err=True).status("Looking…"):
        return run(looked)


def _settings(settings: Settings) -> list[Check]:
    from headgate.model.check import Check

    kept = (
        f"history is kept {settings.retention_days} days, sources go back {settings.backfill_days}"
    )
    checks = [Check("retention", "ok", kept)]
    if settings.allow_unsafe_database:
        checks.append(
            Check(
                "settings",
                "warn",
                "allow_unsafe_database is set: a crash may lose what was acknowledged",
                "Unset it wherever the data matters.",
            )
        )
    return checks


def _show(checks: list[Check]) -> None:
    lines: list[tuple[str, object]] = []
    for check in checks:
        lines.append((f"{check.state:<5}{check.name}", show.text(check.text, _STYLES[check.state])))
        if check.hint and check.state != "ok":
            lines.append(("", f"hint: {check.hint}"))
    show.out(show.facts(lines))

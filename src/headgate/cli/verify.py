"""`headgate verify`: does everything the ledger says hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from . import show
from .asked import Asked, Command, json_option, pass_asked
from .ledger import opened
from .progress import progress

if TYPE_CHECKING:
    from headgate.runtime.verify import Report, Violation
    from headgate.settings import Settings

SHOWN = 10


@click.command(cls=Command)
@click.option("--deep", is_flag=True, help="Read every kept byte again and compare its digest.")
@json_option
@pass_asked
@click.pass_context
def verify(ctx: click.Context, asked: Asked, *, deep: bool, as_json: bool) -> None:
    """Audit the ledger, the stores and what was published.

    Every entry is in one state and its journal is a path of the machine; the chain of
    commits is whole and reaches its anchor; what was finalized is published, and the bytes
    it names are there; operations are what their journals say. Nothing is changed. Exit 0
    only when nothing is wrong.
    """
    report = _verify(asked.settings(), deep=deep)
    if as_json:
        show.as_json(report)
    else:
        _show(report)
    ctx.exit(0 if report.ok else 1)


def _verify(settings: Settings, *, deep: bool) -> Report:
    from headgate.runtime.loop import run
    from headgate.runtime.verify import verify as audit

    with progress("Verifying") as told:

        async def go() -> Report:
            async with opened(settings) as db:
                return await audit(
                    db, deep=deep, progress=lambda what, n, of: told(n, of, f"Verifying {what}")
                )

        return run(go)


def _show(report: Report) -> None:
    looked = ", ".join(f"{what}: {n:,}" for what, n in report.checked.items() if n)
    click.echo(f"checked {looked or 'an empty ledger'}")
    for said in report.notes:
        click.echo(f"note: {said}")
    if report.ok:
        show.out(show.text("Nothing is wrong.", "green"))
        show.note("Your tables: whose rows they hold was checked, not what the rows say.")
        return
    by_code: dict[str, list[Violation]] = {}
    for one in report.violations:
        by_code.setdefault(one.code, []).append(one)
    for code, found in by_code.items():
        many = len(found) + report.omitted.get(code, 0)
        show.out("", show.text(f"{code}: {many:,}", "red"))
        for one in found[:SHOWN]:
            about = "" if one.entry is None else f"entry {one.entry}: "
            show.out(show.indented(show.text(f"{about}{one.text}")))
            if one.uri and one.uri not in one.text:
                show.out(show.indented(show.indented(show.text(one.uri, "dim"))))
        if many > SHOWN:
            show.out(show.indented(show.text(f"… and {many - SHOWN:,} more (--json lists them)")))
        show.out(show.indented(show.text(f"hint: {found[0].hint}")))
    total = len(report.violations) + sum(report.omitted.values())
    show.note(f"\n{show.many(total, 'violation')} found.")

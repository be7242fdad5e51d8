"""`headgate operation`: work that was done once per key, by any code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask

if TYPE_CHECKING:
    from headgate.model.operation_facts import OperationFacts
    from headgate.pg import Database

STATUSES = ("running", "success", "failure", "partial")
_STYLES = {"success": "none", "running": "cyan", "failure": "red", "partial": "yellow"}


@click.group(cls=Group)
def operation() -> None:
    """Work that any code did once per key (hg.operation, hg.once).

    An operation is found by its key or the beginning of it, by its number, or by a
    journal pointer (operation/7/1).
    """


@operation.command("list")
@click.option("--task", metavar="NAME", help="Only this one.")
@click.option("--dataset", metavar="NAME", help="Only what was done to this dataset.")
@click.option("--status", type=click.Choice(STATUSES), help="Only what is so now.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]"
)
@click.option("--before", type=int, metavar="NUMBER", help="Go on below this operation.")
@json_option
@pass_asked
def list_(
    asked: Asked,
    *,
    task: str | None,
    dataset: str | None,
    status: str | None,
    limit: int,
    before: int | None,
    as_json: bool,
) -> None:
    """Operations, the newest first."""

    async def question(db: Database) -> list[dict[str, Any]]:
        from headgate.ledger import operation as ledger

        rows = await ledger.listed(
            db, task=task, dataset=dataset, status=status, before=before, most=limit + 1
        )
        return [{**dict(row), "key": row["key"].hex()} for row in rows]

    found = ask(asked.settings(), question)
    more, found = len(found) > limit, found[:limit]
    if as_json:
        show.as_json({"operations": found, "more": more})
        return
    if not found:
        click.echo("There are no such operations.")
        return
    show.out(
        show.table(
            ["number", "key", "task", "dataset", "period", "status", "attempts", "when"],
            [
                [
                    str(row["id"]),
                    row["key"][:12],
                    show.text(row["task"]),
                    show.text(row["dataset"]),
                    row["period"] or "",
                    show.text(_said(row), _STYLES[row["status"]]),
                    str(row["attempts"]),
                    show.ago(row["updated_at"]),
                ]
                for row in found
            ],
        )
    )
    if more:
        show.note(f"There are more: --before {found[-1]['id']} shows the next {limit}.")


def _said(row: dict[str, Any]) -> str:
    if row["overdue"]:
        return "running (lease ran out)"
    return f"{row['status']} ({row['reason']})" if row["reason"] else row["status"]


@operation.command("show")
@click.argument("which", metavar="KEY|NUMBER|POINTER")
@click.option("--prov", is_flag=True, help="Its provenance, as PROV-O in JSON-LD.")
@click.option("--openlineage", is_flag=True, help="Its OpenLineage events.")
@json_option
@pass_asked
def show_(asked: Asked, *, which: str, prov: bool, openlineage: bool, as_json: bool) -> None:
    """Everything the ledger knows about one operation: its attempts, calls and lineage."""
    facts = _facts(asked, which)
    if prov or openlineage:
        from headgate.catalog import operation as lineage

        if prov:
            show.as_json(lineage.provenance(facts))
        if openlineage:
            for event in lineage.events(facts):
                show.as_json(event)
        return
    if as_json:
        show.as_json(facts)
        return
    _show(facts)


def _facts(asked: Asked, which: str) -> OperationFacts:
    async def question(db: Database) -> OperationFacts:
        from headgate.ledger import operation as ledger

        row = await ledger.find(db, which)
        if row is None:
            raise UsageError(
                f"there is no operation {which}, or there are several",
                hint="Give more digits of its key; see: headgate operation list",
            )
        return await ledger.facts(db, row)

    return ask(asked.settings(), question)


def _show(facts: OperationFacts) -> None:
    held = facts.lease_until and f"{facts.holder} until {show.moment(facts.lease_until)}"
    show.out(
        show.facts(
            [
                ("operation", facts.id),
                ("key", facts.key),
                ("task", f"{facts.task} (version {facts.version})"),
                ("pipeline", facts.pipeline),
                ("dataset", f"{facts.dataset} ({facts.operation})"),
                ("period", facts.period),
                ("status", show.text(facts.status, _STYLES[facts.status])),
                ("reason", facts.reason),
                ("attempts", facts.attempts),
                ("held by", held),
                ("first seen", show.moment(facts.created_at)),
                ("changed", show.moment(facts.updated_at)),
                ("result", facts.result_hash and f"sha256:{facts.result_hash} ({facts.codec})"),
                ("in store", facts.result_store),
                ("journal", facts.pointer),
            ]
        )
    )
    if facts.lines:
        show.out("", show.heading("what happened"))
        for line in facts.lines:
            detail = line.doc.get("error") or line.doc.get("because") or line.reason or ""
            said = f"{line.n}. {show.moment(line.at)}  {line.event}  fence {line.fence}  {detail}"
            show.out(show.indented(show.text(said)))
    if facts.calls:
        show.out("", show.heading("calls"))
        for call in facts.calls:
            state = "done" if call["done"] else "undone" if call["undone"] else "begun"
            show.out(show.indented(show.text(f"{call['name']}: {state}")))
    show.note("")
    show.hints(
        f"headgate operation explain {facts.key[:12]}",
        f'headgate operation reset {facts.key[:12]} --because "…"   # the next call runs again',
    )


@operation.command("explain")
@click.argument("which", metavar="KEY|NUMBER|POINTER")
@json_option
@pass_asked
def explain_(asked: Asked, *, which: str, as_json: bool) -> None:
    """Why an operation is where it is: what its key is made of, and what a call would do now."""
    facts = _facts(asked, which)
    fields = ("pipeline", "task", "dataset", "operation", "version", "checksum_in", "period")
    made_of = {name: getattr(facts, name) for name in fields}
    made_of |= {"params_hash": facts.params_hash, "key": facts.own}
    verdict = _verdict(facts)
    if as_json:
        show.as_json(
            {
                "idempotency_key": facts.key,
                "made_of": made_of,
                "derived": facts.derived,
                "lock_key": facts.lock_key,
                "lock": "dataset" if facts.exclusive else "key",
                "verdict": verdict,
                "evidence": facts.pointer,
            }
        )
        return
    click.echo(f"{facts.task}: {verdict}")
    show.out(
        "",
        show.heading(f"its key {facts.key[:12]}… is made of"),
        show.facts(
            (name, f"{value}{'  (derived)' if name in facts.derived else ''}")
            for name, value in made_of.items()
            if value is not None
        ),
    )
    lock = "its dataset and operation" if facts.exclusive else "its key alone"
    show.note(f"It waits for others by {lock} (lock key {facts.lock_key}).")
    if facts.pointer:
        show.note(f"The evidence is journal line {facts.pointer}.")


def _verdict(facts: OperationFacts) -> str:
    match facts.status:
        case "success":
            return "it was done; a call gets the stored result and runs nothing"
        case "running":
            return f"{facts.holder} is at it; a call waits, or leaves, by its policy"
        case "partial":
            return "an attempt left something outside Postgres; a call clears up and runs again"
        case _:
            return "its last attempt left nothing; a call runs it again"


@operation.command()
@click.argument("which", metavar="KEY|NUMBER|POINTER")
@click.option("--because", required=True, metavar="WHY", help="Why; it is kept with your name.")
@click.option("--forget-calls", is_flag=True, help="Make its foreign calls again, too.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
@json_option
@pass_asked
def reset(
    asked: Asked, *, which: str, because: str, forget_calls: bool, dry_run: bool, as_json: bool
) -> None:
    """Let an operation run again at its next call. Its journal and your reason stay.

    Whoever is at it now is fenced out: nothing of that attempt is committed. What the
    operation did before is not taken back.

    \b
    headgate operation reset 4f2a90 --because "loaded from the wrong file"
    """
    import getpass

    if not because.strip():
        raise click.UsageError("--because is empty: say why")
    facts = _facts(asked, which)
    pointer = None
    if not dry_run:

        async def act(db: Database) -> str | None:
            from headgate.ledger import operation as ledger

            return await ledger.reset(
                db,
                bytes.fromhex(facts.key),
                actor=getpass.getuser(),
                because=because,
                forget=forget_calls,
            )

        pointer = ask(asked.settings(), act)
    if as_json:
        show.as_json({"key": facts.key, "pointer": pointer, "dry_run": dry_run, "because": because})
        return
    word = "would be reset" if dry_run else "is reset"
    click.echo(f"operation {facts.id} ({facts.task}, {facts.key[:12]}) {word}")
    if not dry_run:
        show.note(f"Its next call runs again. Written down as {pointer}.")

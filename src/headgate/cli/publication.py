"""`headgate publication`: what readers see, what it replaced, and taking it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .entry import find
from .ledger import ask

if TYPE_CHECKING:
    from headgate.ledger.published import Line
    from headgate.ledger.revert import Plan
    from headgate.ledger.stretches import Page
    from headgate.model.delta import Delta
    from headgate.model.facts import Facts, Version
    from headgate.pg import Database

MANY = 1000


@click.group(cls=Group)
def publication() -> None:
    """What readers see, what it replaced, and taking it back.

    A publication is found as an entry is: by number, key, the journal line that made it
    (12/3), uri, or the path of its file.
    """


@publication.command("list")
@click.option("--pipeline", metavar="NAME", help="Only this pipeline.")
@click.option("--uri", metavar="TEXT", help="Only uris that contain this; * is any text.")
@click.option("--all", "every", is_flag=True, help="Every version, not only what readers see now.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=50, help="At most so many. [50]"
)
@click.option("--before", type=int, metavar="ENTRY", help="Go on below this publication.")
@json_option
@pass_asked
def list_(
    asked: Asked,
    *,
    pipeline: str | None,
    uri: str | None,
    every: bool,
    limit: int,
    before: int | None,
    as_json: bool,
) -> None:
    """What readers see, the latest first."""

    async def question(db: Database) -> Page[Line]:
        from headgate.ledger import published
        from headgate.ledger.entries import containing

        return await published.publications(
            db,
            pipelines=None if pipeline is None else [pipeline],
            uri_like=None if uri is None else containing(uri),
            every=every,
            limit=limit,
            before=before,
            effort=None,
        )

    page = ask(asked.settings(), question)
    found, more = page.rows, page.more
    if as_json:
        show.as_json({"publications": found, "more": more})
        return
    if not found:
        click.echo("Nothing is published" + (" like that." if pipeline or uri else "."))
        return
    columns = ("publication", "pipeline", "version", "what", "sha256", "received", "uri")
    rows = [
        (
            p.entry,
            p.pipeline,
            p.version,
            p.what,
            p.content[:12],
            show.ago(p.received_at),
            show.near(p.uri),
        )
        for p in found
    ]
    show.out(show.table(columns, rows, right=("publication", "version")))
    if more:
        show.note(f"There are more: --before {found[-1].entry} shows the next {limit}.")
    show.hints(f"headgate publication show {found[0].entry}")


@publication.command("show")
@click.argument("which", metavar="PUBLICATION")
@json_option
@pass_asked
def show_(asked: Asked, *, which: str, as_json: bool) -> None:
    """One publication: its files, where it came from, what checked it, its other versions."""

    async def question(db: Database) -> tuple[Facts, list[Facts]]:
        from headgate.ledger import published

        told = await _find(db, which)
        return told, await published.versions(db, told.entry, MANY)

    told, versions = ask(asked.settings(), question)
    if as_json:
        from headgate.ledger.published import document

        show.as_json({"publication": document(told), "versions": [document(v) for v in versions]})
        return
    _show(told)
    _show_versions(told, versions)
    show.note("")
    show.hints(
        f"headgate publication diff {told.entry}",
        *(
            [f'headgate publication revert {told.entry} --because "…" --dry-run']
            if told.successor is None
            else []
        ),
    )


@publication.command()
@click.argument("which", metavar="PUBLICATION")
@click.option(
    "--from", "other", metavar="VERSION", type=click.IntRange(1), help="Compare with this version."
)
@json_option
@pass_asked
def diff(asked: Asked, *, which: str, other: int | None, as_json: bool) -> None:
    """What a publication changed for readers: files added, replaced, removed; rows.

    With --json and without --from this is its delta manifest
    (schemas/delta-manifest-v1.schema.json).
    """
    from headgate.model import delta

    async def question(db: Database) -> tuple[Facts, Version | None]:
        from headgate.ledger import published

        told = await _find(db, which)
        if other is None:
            return told, told.before
        return told, await published.version(db, told, other)

    told, before = ask(asked.settings(), question)
    if as_json:
        if other is None:
            show.as_json(delta.manifest(told))
        else:
            show.as_json(delta.between(before, told.version))
        return
    assert told.version is not None
    since = "nothing" if before is None else f"version {before.number}"
    show.out(show.heading(f"from {since} to version {told.version.number}"))
    show.out(show.text(told.envelope.uri, "dim"), "")
    _show_delta(delta.between(before, told.version))
    _show_rows(before, told.version)


@publication.command()
@click.argument("which", metavar="PUBLICATION")
@click.option("--because", metavar="WHY", help="Why; it is kept with your name.")
@click.option(
    "--to",
    "to",
    metavar="VERSION",
    type=click.IntRange(1),
    help="Go back to this version. [the one before]",
)
@click.option("--dry-run", is_flag=True, help="Say what would change for readers; do nothing.")
@json_option
@pass_asked
def revert(
    asked: Asked,
    *,
    which: str,
    because: str | None,
    to: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take back what readers see of a uri. It passes the same gates as any change.

    \b
    headgate publication revert 12 --because "the sensor was broken" --dry-run
    headgate publication revert 12 --because "the sensor was broken"
    headgate publication revert 12 --to 3 --because "the last good one"
    headgate publication revert 41/2 --because "by journal pointer: wal_pointer, explain"

    The revert is a publication of its own: reverting it brings back what it took.
    """
    if not dry_run and not (because or "").strip():
        raise click.UsageError("--because is missing: say why")

    async def question(db: Database) -> tuple[Plan, int | None]:
        from headgate.ledger import revert as ledger

        told = await _find(db, which)
        plan = await ledger.plan(db, told.entry, to=to)
        if dry_run:
            return plan, None
        return plan, await ledger.ask(db, told.entry, because=because or "", to=to)

    plan, entry = ask(asked.settings(), question)
    if as_json:
        restores = None if plan.restored is None else plan.restored.entry
        show.as_json(
            {
                "reverts": plan.reverted.entry,
                "restores": restores,
                "entry": entry,
                "dry_run": dry_run,
                "delta": plan.delta,
                "other_code": plan.other_code,
            }
        )
        return
    _show_plan(plan, dry_run=dry_run)
    if entry is None:
        show.note("Nothing was changed.")
    else:
        click.echo(f"entry {entry} will take publication {plan.reverted.entry} back")
        show.note("A running `headgate up` does it now.")
        show.hints(f"headgate entry explain {entry}")


async def _find(db: Database, which: str) -> Facts:
    """The publication that is meant. A uri means what readers see of it."""
    from headgate.ledger import published

    entry = await published.find(db, which)
    if entry is None:
        entry = (await find(db, which, "publication")).entry
    if (told := await published.publication(db, entry)) is None:
        raise UsageError(
            f"entry {entry} published nothing", hint=f"See why: headgate entry explain {entry}"
        )
    return told


def _show(told: Facts) -> None:
    version = told.version
    assert version is not None
    state = "retired" if version.retired else "removed" if version.removed else None
    before = told.before and f"publication {told.before.entry} (version {told.before.number})"
    reverted = told.reverts and f"publication {told.reverts}"
    show.out(
        show.facts(
            [
                ("publication", told.entry),
                ("uri", told.envelope.uri),
                ("version", version.number),
                ("state", state),
                ("pipeline", f"{told.pipeline} (version {told.pipeline_version})"),
                ("code", told.code[:12]),
                ("changed", show.moment(told.envelope.event_time)),
                ("received", show.moment(told.envelope.received_at)),
                ("published", show.moment(told.at)),
                ("noticed by", f"{told.envelope.source} ({told.envelope.detector})"),
                ("follows", before),
                ("takes back", reverted),
                ("because", told.because and f"{told.because} ({told.actor})"),
                ("replaced by", told.successor and f"publication {told.successor[0]}"),
                ("run", told.run),
                ("proof", f"journal {told.pointer}, commit {told.position}"),
            ]
        )
    )
    if version.files:
        rows = [(f.name, show.size(f.size or 0), f.media_type, f.digest) for f in version.files]
        table = show.table(("file", "size", "media type", "sha256"), rows, right=("size",))
        show.out("", show.heading("files"), table)
    if version.rows:
        pairs = sorted(version.rows.items())
        show.out("", show.table(("rows of", "count"), pairs, right=("count",)))
    if told.checks:
        rows = [
            (c.name, "passed" if c.passed else "failed", c.text or c.reason or "")
            for c in told.checks
        ]
        show.out("", show.table(("check", "outcome", "said"), rows))


def _show_versions(told: Facts, versions: list[Facts]) -> None:
    from headgate.ledger import published

    if len(versions) < 2:
        return
    rows: list[tuple[object, ...]] = []
    for v in versions:
        assert v.version is not None
        successor = v.successor[0] if v.successor else None
        mark = "this one" if v.entry == told.entry else ""
        what = published.what(v.version.removed, v.reverts, successor)
        rows.append((v.version.number, v.entry, what, show.moment(v.at), mark))
    columns = ("version", "publication", "what", "published", "")
    show.out("", show.heading("versions"), show.table(columns, rows, right=columns[:2]))


def _show_delta(delta: Delta) -> None:
    rows: list[tuple[object, ...]] = []
    for sign, style, files in (("+", "green", delta.adds), ("-", "red", delta.removes)):
        rows += [(show.text(sign, style), f.name, show.size(f.size or 0), f.digest) for f in files]
    for r in delta.replaces:
        rows.append((show.text("-", "red"), r.was.name, show.size(r.was.size or 0), r.was.digest))
        rows.append((show.text("+", "green"), r.now.name, show.size(r.now.size or 0), r.now.digest))
    if rows:
        show.out(show.table(("", "file", "size", "sha256"), rows, right=("size",)))
    else:
        click.echo("No file changes.")


def _show_rows(before: Version | None, after: Version | None) -> None:
    from headgate.model import delta

    rows = [(r.table, r.before, r.now) for r in delta.rows(before, after)]
    if rows:
        show.out("", show.table(("rows of", "before", "after"), rows, right=("before", "after")))


def _show_plan(plan: Plan, *, dry_run: bool) -> None:
    reverted, restored = plan.reverted.version, plan.restored
    assert reverted is not None
    version = None if restored is None else restored.version
    target = "nothing: it was the first" if version is None else f"version {version.number}"
    word = "would go" if dry_run else "go"
    show.out(show.heading(f"readers {word} from version {reverted.number} back to {target}"))
    show.out(show.text(plan.reverted.envelope.uri, "dim"), "")
    _show_delta(plan.delta)
    _show_rows(reverted, version)
    if plan.other_code and version is not None and version.rows:
        show.note("The code has changed since: rows are derived again, by the code that runs now.")

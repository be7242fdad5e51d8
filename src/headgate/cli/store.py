"""`headgate store`: what the stores hold, and what nothing needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask
from .progress import progress

if TYPE_CHECKING:
    from headgate.ledger.garbage import Deleted, Garbage
    from headgate.pg import Database
    from headgate.settings import Settings

_EVERYTHING = 2**31 - 1
_NOTHING = {"reclaimable": 0, "reclaimable_bytes": 0, "oldest": None}


@click.group(cls=Group)
def store() -> None:
    """What the stores hold, and what nothing needs any more.

    Bytes that no publication needs go by themselves while `headgate up` runs.
    """


@store.command("list")
@json_option
@pass_asked
def list_(asked: Asked, *, as_json: bool) -> None:
    """Stores, with their objects and bytes: kept, staged, and reclaimable."""
    settings = asked.settings()

    async def question(db: Database) -> list[dict[str, Any]]:
        from headgate.ledger import garbage

        found = _by_store(await _reclaimable(db, settings))
        stores = await db.fetch(garbage.Q.stores)
        return [dict(r) | found.get(r["id"], _NOTHING) for r in stores]

    rows = ask(settings, question)
    if as_json:
        show.as_json({"retention_days": settings.retention_days, "stores": rows})
        return
    if not rows:
        click.echo("No store is in use yet.")
        return
    kinds = ("kept", "staged", "reclaimable")
    show.out(
        show.table(
            (*kinds, "store"),
            [
                (
                    *(_said(row[kind], row[f"{kind}_bytes"]) for kind in kinds),
                    show.near(row["store"]),
                )
                for row in rows
            ],
            right=kinds,
        )
    )
    if any(row["reclaimable"] for row in rows):
        show.hints("headgate store collect --dry-run")


@store.command()
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@json_option
@pass_asked
def collect(asked: Asked, *, dry_run: bool, as_json: bool) -> None:
    """Remove now what nothing needs any more.

    What was replaced or removed longer ago than `retention_days`, and what was staged and
    never used. What readers see, what is in quarantine, results of operations and what a revert
    could need within the retention stays. Publications stay as history, without their bytes.
    """
    settings = asked.settings()
    if dry_run:
        _show_reclaimable(settings, as_json=as_json)
        return
    gone = ask(settings, lambda db: _collected(db, settings))
    away = {uri: str(error) for uri, error in gone.away.items()}
    if as_json:
        said = {"objects": gone.objects, "bytes": gone.bytes, "away": away}
        show.as_json({"dry_run": False, "retention_days": settings.retention_days, **said})
    else:
        click.echo(f"{_said(gone.objects, gone.bytes)} removed")
    for error in gone.away.values():
        raise error


def _show_reclaimable(settings: Settings, *, as_json: bool) -> None:
    async def question(db: Database) -> list[dict[str, Any]]:
        from headgate.ledger import garbage

        found = _by_store(await _reclaimable(db, settings))
        rows = await db.fetch(garbage.Q.stores)
        return [{"store": r["store"], **found[r["id"]]} for r in rows if r["id"] in found]

    rows = ask(settings, question)
    objects = sum(row["reclaimable"] for row in rows)
    size = sum(row["reclaimable_bytes"] for row in rows)
    if as_json:
        said = {"objects": objects, "bytes": size, "stores": rows}
        show.as_json({"dry_run": True, "retention_days": settings.retention_days, **said})
        return
    click.echo(f"{_said(objects, size)} would be removed")
    for row in rows:
        many = _said(row["reclaimable"], row["reclaimable_bytes"])
        said = f"{show.near(row['store'])}: {many}, not used since {show.moment(row['oldest'])}"
        show.out(show.indented(show.text(said)))


async def _reclaimable(db: Database, settings: Settings) -> list[Garbage]:
    from headgate.ledger import garbage

    grace = settings.grace_seconds
    kept = await garbage.look(db, settings.retention_days, grace, _EVERYTHING)
    return kept + await garbage.on_its_way(db, grace, _EVERYTHING)


def _by_store(found: list[Garbage]) -> dict[int, dict[str, Any]]:
    stores: dict[int, dict[str, Any]] = {}
    for one in found:
        said = stores.setdefault(one.store, {**_NOTHING, "oldest": one.touched_at})
        said["reclaimable"] += 1
        said["reclaimable_bytes"] += one.size
        said["oldest"] = min(said["oldest"], one.touched_at)
    return stores


async def _collected(db: Database, settings: Settings) -> Deleted:
    from headgate.runtime.collect import Collector
    from headgate.stores import open_store

    tuning = settings.tuning()
    collector = Collector(db, tuning, lambda uri: open_store(uri, tuning.local))
    with progress("Removing") as told:
        return await collector.everything(told)


def _said(objects: int, size: int) -> str:
    return f"{show.many(objects, 'object')} ({show.size(size)})"

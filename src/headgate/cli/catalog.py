"""`headgate catalog`: the files beside the data, which tell what is published and of what."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from . import show
from .asked import Asked, Group, json_option, pass_asked
from .ledger import ask, opened
from .progress import progress

if TYPE_CHECKING:
    from headgate.pg import Database
    from headgate.runtime.rebuild import Rebuilt
    from headgate.settings import Settings

SHOWN = 10


@click.group(cls=Group)
def catalog() -> None:
    """The files beside the data: catalogs (STAC, DCAT), provenance and runs.

    `headgate up` writes them as the ledger grows. They say nothing that the ledger does not
    say, and can be made from it again at any time.
    """


@catalog.command("show")
@json_option
@pass_asked
def show_(asked: Asked, *, as_json: bool) -> None:
    """Which stores have a catalog, what is in it, and how far it is behind the ledger."""
    stores = ask(asked.settings(), _standing)
    if as_json:
        show.as_json({"stores": stores})
        return
    if not stores:
        click.echo("No pipeline has a dataset, so there is no catalog.")
        show.note('Give one a dataset: hg.Pipeline(…, dataset="soil")')
        return
    for store in stores:
        show.out(show.heading(show.near(store["store"])))
        late = f"{show.many(store['lines'], 'attempt')} behind, {store['seconds']:.0f} s"
        show.out(
            show.facts(
                [
                    ("position", store["position"]),
                    ("layout", store["layout"]),
                    ("files", late if store["lines"] else "as the ledger is"),
                    ("last written", show.moment(store["moved_at"]) or "never"),
                ]
            )
        )
        rows = [(c["collection"], c["title"], c["objects"]) for c in store["collections"]]
        show.out(show.table(("collection", "title", "objects"), rows, right=("objects",)), "")


@catalog.command()
@click.option("--pipeline", metavar="NAME", help="Only the store of this pipeline. [all stores]")
@click.option("--runs", is_flag=True, help="Also the files of every run: much more.")
@click.option("--dry-run", is_flag=True, help="Say what is not as it should be; do nothing.")
@json_option
@pass_asked
@click.pass_context
def rebuild(
    ctx: click.Context,
    asked: Asked,
    *,
    pipeline: str | None,
    runs: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write every file of the catalog from nothing, and remove those that do not belong.

    What comes out is what `headgate up` has written, to the byte. Readers see the old file
    or the new one. With --dry-run the exit code is 1 when something would be done.
    """
    stores = _rebuild(asked.settings(), pipeline, runs=runs, dry_run=dry_run)
    if as_json:
        show.as_json({"dry_run": dry_run, "stores": stores})
    else:
        for store in stores:
            _tell(store, dry_run=dry_run)
        if dry_run and not stores:
            click.echo("A catalog that is behind, or being written, cannot be compared.")
            show.hints("headgate catalog show")
    ctx.exit(int(dry_run and not all(store.as_it_should_be for store in stores)))


async def _standing(db: Database) -> list[dict[str, Any]]:
    from headgate.ledger import projection

    told: list[dict[str, Any]] = []
    for place in await projection.stores(db):
        behind = await projection.behind(db, place)
        collections = [
            {
                "collection": name,
                "title": dataset.title,
                "objects": (await projection.span(db, place, name)).objects,
            }
            for name, dataset in (await projection.collections(db, place)).items()
        ]
        told.append(
            {
                "store": place.uri,
                "position": place.position,
                "layout": place.layout.text,
                "moved_at": place.moved_at,
                "lines": behind.lines,
                "seconds": behind.seconds,
                "collections": collections,
            }
        )
    return told


def _rebuild(
    settings: Settings, pipeline: str | None, *, runs: bool, dry_run: bool
) -> list[Rebuilt]:
    from headgate.runtime import rebuild
    from headgate.runtime.loop import run
    from headgate.stores import open_store

    # The thread that writes lets go for every file, and wants to go on soon.
    sys.setswitchinterval(0.001)
    with progress("Reading the ledger") as told:

        def wrote(done: int, of: int) -> None:
            told(done, of, "Commits")

        async def go() -> list[Rebuilt]:
            tuning = settings.tuning()
            async with opened(settings) as db:
                if not dry_run:
                    return await rebuild.rebuild(
                        db, tuning, pipeline=pipeline, runs=runs, progress=wrote
                    )
                compared: list[Rebuilt] = []
                for place in await rebuild.places(db, pipeline):
                    store = open_store(place.uri, tuning.local)
                    one = await rebuild.compare(db, place, store, runs=runs, progress=wrote)
                    compared += [] if one is None else [one]
                return compared

        return run(go)


def _tell(store: Rebuilt, *, dry_run: bool) -> None:
    many = f"{show.many(store.items, 'item')}, {show.many(store.files, 'file')}"
    click.echo(f"{show.near(store.store)}: {many}" + ("" if dry_run else " written"))
    what = [("stray", "would be removed" if dry_run else "removed", store.stray)]
    if dry_run:
        what += [("missing", "missing", store.missing), ("other", "not so", store.differing)]
    for _, said, names in what:
        if names:
            show.out(show.indented(show.text(f"{show.many(len(names), 'file')} {said}:", "yellow")))
            for name in names[:SHOWN]:
                show.out(show.indented(show.indented(show.text(name))))
            if len(names) > SHOWN:
                show.out(show.indented(show.indented(show.text(f"… and {len(names) - SHOWN:,}"))))
    if dry_run and store.as_it_should_be:
        show.out(show.indented(show.text("as it should be", "green")))

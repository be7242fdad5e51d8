"""`headgate verify`: the ledger held against its promises, and the stores against the ledger.

It reads and changes nothing. Workers may go on: the ledger is read in one snapshot, and what it
says of the stores was durable there before it was committed. What is collected meanwhile is not
missed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from headgate.errors import HeadgateError, ObjectMissing
from headgate.ledger import anchor, projection
from headgate.ledger.audit import audit
from headgate.ledger.audit_objects import Reference, chain_at, missing, references, results
from headgate.ledger.finding import Findings, Progress, Violation, no_progress
from headgate.model.ports import Store
from headgate.pg import Database
from headgate.stores import open_store

from .rebuild import compare

__all__ = ["Report", "Violation", "verify"]


@dataclass(frozen=True, slots=True)
class Report:
    """What was looked at and what is wrong. `omitted` counts violations beyond the listed ones."""

    ok: bool
    checked: dict[str, int]
    violations: list[Violation]
    notes: list[str]
    omitted: dict[str, int]


async def verify(db: Database, *, deep: bool = False, progress: Progress | None = None) -> Report:
    """Audit everything. `deep` also reads every kept object and recomputes every key."""
    progress = progress or no_progress
    findings = await audit(db, deep=deep, progress=progress)
    stores = _Stores(findings, deep)
    of = findings.checked.get("publications", 0) + findings.checked.get("quarantine", 0)
    seen = 0
    for pages in (references(db, findings), results(db, findings)):
        async for page in pages:
            not_there = await asyncio.to_thread(stores.check, page)
            for r in await missing(db, not_there):
                text = f"{r.name} ({r.digest.hex()}) is not in {r.store}"
                findings.found("object_missing", text, entry=r.entry, uri=r.uri)
            seen += len({reference.entry for reference in page})
            progress("objects", min(seen, of), of)
    await _anchors(db, findings, stores)
    if deep and not findings.violations:  # else the files would be held against what is wrong
        await _catalogs(db, findings, stores)
    return Report(
        not findings.violations,
        findings.checked,
        findings.violations,
        findings.notes,
        findings.omitted,
    )


class _Stores:
    """The stores, opened once each. One that cannot be read is reported once."""

    def __init__(self, findings: Findings, deep: bool) -> None:
        self._findings = findings
        self._deep = deep
        self._stores: dict[str, Store | None] = {}

    def get(self, uri: str) -> Store | None:
        if uri not in self._stores:
            try:
                self._stores[uri] = open_store(uri)
            except HeadgateError as error:
                self.give_up(uri, error)
        return self._stores[uri]

    def give_up(self, uri: str, error: HeadgateError) -> None:
        self._stores[uri] = None
        self._findings.found("store_unreadable", f"store {uri}: {error}")

    def check(self, page: Sequence[Reference]) -> list[Reference]:
        """Those that are not there. What is damaged is reported."""
        not_there: list[Reference] = []
        for reference in page:
            store = self.get(reference.store)
            if store is None:
                continue
            try:
                self._one(store, reference)
            except ObjectMissing:
                not_there.append(reference)
            except HeadgateError as error:
                self.give_up(reference.store, error)
        return not_there

    def _one(self, store: Store, r: Reference) -> None:
        at = f"{r.name} ({r.digest.hex()}) "
        with store.open(r.digest) as stream:
            size = stream.seek(0, os.SEEK_END)
        if size != r.size:
            text = at + f"has {size} bytes in {r.store}, not {r.size}"
            self._findings.found("object_damaged", text, entry=r.entry, uri=r.uri)
        elif self._deep and not store.check(r.digest):
            text = at + f"has other bytes in {r.store} than its digest says"
            self._findings.found("object_damaged", text, entry=r.entry, uri=r.uri)


async def _anchors(db: Database, findings: Findings, stores: _Stores) -> None:
    """Each store's anchor names a commit that is in the chain as it was then.

    The anchor is read first and the ledger asked afterwards: an anchor is written after its commit.
    """
    ledger = await anchor.identity(db)
    for uri in await anchor.stores(db):
        store = stores.get(uri)
        if store is None:
            continue
        try:
            document = await asyncio.to_thread(store.read, anchor.name(ledger))
        except HeadgateError as error:
            stores.give_up(uri, error)
            continue
        if document is not None:
            await _anchor(db, findings, uri, document)
        elif await anchor.head(db) is not None:
            findings.note(f"store {uri} holds no anchor of this ledger yet; sweeping writes one")


async def _anchor(db: Database, findings: Findings, uri: str, document: bytes) -> None:
    anchored = _read(document)
    if anchored is None:
        findings.found("anchor_unreadable", f"the anchor in {uri} is not what Headgate writes")
        return
    pos, chain = anchored
    findings.count("anchors", 1)
    there = await chain_at(db, pos)
    if there is None:
        text = f"the anchor in {uri} names commit {pos}, which the ledger does not have"
        findings.found("anchor_ahead", text)
    elif there != chain:
        text = f"commit {pos} is not the one that was anchored in {uri}"
        findings.found("anchor_mismatch", text)


async def _catalogs(db: Database, findings: Findings, stores: _Stores) -> None:
    """The files beside the data are what the ledger makes of them."""
    for place in await projection.stores(db):
        store = stores.get(place.uri)
        if store is None:
            continue
        if place.moved_at is None:
            findings.note(f"no catalog was written to {place.uri} yet: nothing to compare")
            continue
        try:
            compared = await compare(db, place, store, runs=True)
        except HeadgateError as error:
            stores.give_up(place.uri, error)
            continue
        if compared is None:
            findings.note(f"the catalog in {place.uri} is behind or being written: not compared")
            continue
        findings.count("catalog files", compared.files)
        for code, names in (
            ("catalog_file_missing", compared.missing),
            ("catalog_file_differs", compared.differing),
            ("catalog_file_stray", compared.stray),
        ):
            for name in names:
                findings.found(code, f"{name} in {place.uri}")


def _read(document: bytes) -> tuple[int, bytes] | None:
    try:
        said = cast("dict[str, Any]", orjson.loads(document))
        return int(said["pos"]), bytes.fromhex(said["chain"])
    except (ValueError, TypeError, KeyError):
        return None

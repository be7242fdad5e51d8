"""Items: a search over the catalog finds what is published now, all of it and nothing else."""

from __future__ import annotations

from typing import Any

import orjson

from headgate.model.facts import Item
from headgate.pg import Link, Record, queries

from .finding import Findings, Progress
from .item import box

Q = queries.load(__file__)

PAGE = 5000


async def check(link: Link, findings: Findings, progress: Progress) -> None:
    """Hold the heads of every catalogued pipeline against the rows of their items."""
    pipelines = await link.fetch(Q.catalogued)
    for done, (pipeline,) in enumerate(pipelines, 1):
        after = 0
        while page := await link.fetch(Q.heads, pipeline, after, PAGE):
            for row in page:
                _head(findings, row)
            after = page[-1]["entry"]
        progress("items", done, len(pipelines))
    for entry, uri, successor in await link.fetch(Q.left_behind):
        why = "published nothing" if uri is None else f"was superseded by entry {successor}"
        text = f"an item is left of entry {entry}, which {why}"
        findings.found("item_left_behind", text, entry=entry, uri=uri)


def _head(findings: Findings, row: Record) -> None:
    entry, uri = row["entry"], row["uri"]
    try:
        doc: dict[str, Any] = orjson.loads(row["doc"] or b"{}")
        said = Item.restore(doc["item"]) if "item" in doc else None
    except (ValueError, TypeError, KeyError) as error:
        text = f"what its journal says of its item cannot be read: {type(error).__name__}"
        findings.found("item_mismatch", text, entry=entry, uri=uri)
        return
    retired = bool(doc.get("retired"))
    findings.count("items", int(row["there"]))
    if said is None or (row["removed"] and not retired):
        if row["there"]:
            why = "was published without one" if said is None else "was removed"
            text = f"an item is left of entry {entry}, which {why}"
            findings.found("item_left_behind", text, entry=entry, uri=uri)
    elif not row["there"]:
        text = f"it is published as {said.collection}/{said.id}, and no search finds it"
        findings.found("item_missing", text, entry=entry, uri=uri)
    elif wrong := _wrong(row, said, retired):
        text = f"its item says another {', '.join(wrong)} than its journal"
        findings.found("item_mismatch", text, entry=entry, uri=uri)


def _wrong(row: Record, said: Item, retired: bool) -> list[str]:
    there = None if row["bbox"] is None else (tuple(row["bbox"].low), tuple(row["bbox"].high))
    pairs = {
        "pipeline": (row["ours"], True),
        "collection": (row["collection"], said.collection),
        "id": (row["item"], said.id),
        "time": ((row["starts"], row["ends"]), (said.start, said.end)),
        "bbox": (there, box(said.bbox)),
        "retired": (row["retired"], retired),
    }
    return [name for name, (is_, should) in pairs.items() if is_ != should]

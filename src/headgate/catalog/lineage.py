"""The provenance of one run as a picture and as sentences: both are read from its PROV record.

    inputs ── run ── publication ── files, rows        who did it stands above, what came before
                                                       below

Nothing is drawn that the record does not say, and what is left out of the picture (the derivation
of each file) is in the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, cast

from headgate.model.facts import Facts

from . import names, prov
from .drawing import HEAD, Edge, Kind, Node, drawn

WORDS = {
    "prov:used": "used",
    "prov:wasAssociatedWith": "was carried out by",
    "prov:hadPlan": "followed",
    "prov:actedOnBehalfOf": "acted for",
    "prov:wasGeneratedBy": "was made by",
    "prov:wasRevisionOf": "replaced",
    "prov:hadMember": "holds",
    "prov:wasDerivedFrom": "was made from",
    "prov:hadPrimarySource": "came from",
    "prov:wasInvalidatedBy": "was taken back by",
}
MEMBERS = 5
_COLUMNS = (104, 392, 690, 968)
_WIDTH, _TOP, _MIDDLE, _STEP = 1072, 56, 244, 80
_LETTERS = 22

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Relation:
    """One sentence of the record: `publication 12` `was made by` `run 12-1`."""

    start: str
    words: str
    end: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """A picture (SVG, to be put into a page that has its colours), and the same in words."""

    svg: str
    relations: tuple[Relation, ...]


def lineage(facts: Facts) -> Lineage:
    """Where a run's results come from."""
    graph = cast("list[Record]", prov.bundle(facts)["@graph"])
    placed = _placed(facts, graph)
    said = list(_said(graph))
    labels = {id: node.name for id, node in _labelled(facts, graph)}
    edges = tuple(_edge(start, what, end) for start, what, end in _drawn(said, placed))
    relations = tuple(
        Relation(labels[start], WORDS[what], labels[end])
        for start, what, end in said
        if start in labels and end in labels
    )
    return Lineage(_svg(facts, placed, edges), relations)


def _svg(facts: Facts, nodes: dict[str, Node], edges: tuple[Edge, ...]) -> str:
    height = max(node.y for node in nodes.values()) + 48
    title = f"Where the result of run {facts.run} comes from"
    return (
        f'<svg class="lineage" viewBox="0 0 {_WIDTH} {height:g}" role="img"'
        f' aria-label="{escape(title)}">{HEAD}\n{drawn(nodes, edges)}\n</svg>'
    )


def _said(graph: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    """Every relation of the record that has words."""
    for node in graph:
        plan = node.get("prov:qualifiedAssociation", {}).get("prov:hadPlan")
        told = node if plan is None else {**node, "prov:hadPlan": plan}
        for what in WORDS:
            value = told.get(what, ())
            for end in cast("list[Record]", value if isinstance(value, list | tuple) else [value]):
                yield node["@id"], what, end["@id"]


def _drawn(
    said: Sequence[tuple[str, str, str]], placed: dict[str, Node]
) -> Iterator[tuple[str, str, str]]:
    """Those that the picture has room for: of a file only that it belongs to the publication."""
    members = {end for _, what, end in said if what == "prov:hadMember"}
    for start, what, end in said:
        if start not in placed or end not in placed or start in members:
            continue
        # What it was made from is what its run used, and what a run took back or brought back is
        # between publications: one line each is enough.
        earlier = placed[end].name.startswith("publication ")
        if (what == "prov:used" and earlier) or (what == "prov:wasDerivedFrom" and not earlier):
            continue
        yield start, what, end


def _edge(start: str, what: str, end: str) -> Edge:
    taken = what == "prov:wasInvalidatedBy"
    crosses = taken or what == "prov:wasDerivedFrom"
    return Edge(start, WORDS[what], end, at=0.28 if crosses else 0.5, taken=taken)


def _placed(facts: Facts, graph: Sequence[Record]) -> dict[str, Node]:
    """Where each thing stands: by what it is to the run."""
    placed: dict[str, Node] = {}
    left, middle, right, far = _COLUMNS
    members = 0
    before = None if facts.before is None else names.publication(facts, facts.before.entry)
    labelled = list(_labelled(facts, graph))
    kinds = {node["@id"]: node.get("@type", ()) for node in graph}
    many = sum(_is_member(kinds[id]) for id, _ in labelled)
    for id, node in labelled:
        of = kinds[id]
        if "prov:Plan" in of:
            x, y = left, _TOP
        elif "hg:Source" in of:
            x, y = left, _MIDDLE - 52
        elif "hg:Message" in of:
            x, y = left, _MIDDLE + 52
        elif "prov:Activity" in of:
            x, y = middle, _MIDDLE
        elif "prov:Person" in of:
            x, y = left, _MIDDLE + 150
        elif "prov:SoftwareAgent" in of:
            x, y = (middle, _TOP) if node.note.startswith("pipeline") else (right, _TOP)
        elif _is_member(of):
            if members == MEMBERS:
                continue
            x, y = far, _member_at(members, min(many, MEMBERS))
            members += 1
        elif id == names.publication(facts, facts.entry):
            x, y = right, _MIDDLE
        else:
            x, y = right if id == before else middle, _MIDDLE + 150
        placed[id] = Node(node.kind, x, y, _short(node.name), _short(node.note), 96, node.gone)
    return placed


def _is_member(of: Sequence[str]) -> bool:
    return "hg:File" in of or "hg:Rows" in of


def _member_at(n: int, many: int) -> float:
    return max(_TOP + n * _STEP, _MIDDLE + (n - (many - 1) / 2) * _STEP)


def _labelled(facts: Facts, graph: Sequence[Record]) -> Iterator[tuple[str, Node]]:
    """Everything that has a name for people."""
    for node in graph:
        if (said := _label(facts, node)) is not None:
            kind, name, note = said
            gone = "prov:wasInvalidatedBy" in node
            yield node["@id"], Node(kind, 0, 0, name, note, gone=gone)


def _label(facts: Facts, node: Record) -> tuple[Kind, str, str] | None:
    of = node.get("@type", ())
    title = str(node.get("dct:title", ""))
    if "prov:Activity" in of:
        return "activity", f"run {facts.run}", f"code {facts.code[:12]}"
    if "prov:Plan" in of:
        return "entity", "plan", f"policy {facts.declared.policy_digest[:12]}"
    if "prov:Person" in of:
        return "agent", title, "person"
    if "prov:SoftwareAgent" in of:
        worker = "prov:actedOnBehalfOf" in node
        return "agent", title, "worker" if worker else f"pipeline {facts.pipeline_version}".strip()
    if "hg:Source" in of:
        name = str(facts.shown["uri"]).rstrip("/").rpartition("/")[2] or "source"
        return "entity", name, _sha256(node.get("hg:sha256")) or "source"
    if "hg:Message" in of:
        return "entity", "message", str(node["hg:source"])
    if "hg:File" in of:
        return "entity", title, _sha256(node["hg:sha256"])
    if "hg:Rows" in of:
        count = node["hg:count"]
        return "entity", title, f"{count:,} row{'' if count == 1 else 's'}"
    if "hg:Publication" in of:
        entry = str(node["@id"]).rpartition(":")[2]
        return "entity", f"publication {entry}", _version(facts, int(entry))
    return None


def _version(facts: Facts, entry: int) -> str:
    for version in (facts.version, facts.before):
        if version is not None and version.entry == entry:
            return f"version {version.number}"
    return "an earlier version"


def _sha256(digest: str | None) -> str:
    return f"sha256 {digest[:12]}" if digest else ""


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"

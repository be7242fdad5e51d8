"""PROV: where a publication comes from, checked by shapes and by the constraints of PROV."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rdflib import PROV, RDF, Graph, Literal, Namespace, URIRef
from rdflib.term import Node
from tests.catalog import public, rdf, some

from headgate.catalog import names, prov
from headgate.model.facts import Facts

SHAPES = public.SHAPES / "prov.ttl"
HG = Namespace(names.NS)
CHAIN = (
    some.FIRST,
    some.SECOND,
    some.REVERTED,
    replace(some.REVERTED_AGAIN, at=some.NOW + timedelta(hours=1)),
)


def graph(*told: Facts) -> Graph:
    made = Graph()
    for facts in told:
        made += rdf.graph(prov.bundle(facts), f"prov/{facts.run}.prov.jsonld")
    return made


def publication(entry: int) -> URIRef:
    return URIRef(names.publication(some.FIRST, entry))


def when(made: Graph, what: Node, happened: URIRef) -> datetime:
    """When it happened; long ago, if the graph does not say."""
    said = made.value(what, happened)
    return said.toPython() if isinstance(said, Literal) else datetime(1, 1, 1, tzinfo=UTC)


def violations(made: Graph) -> Iterable[str]:
    """What PROV-CONSTRAINTS forbids and a shape cannot say."""
    order = {}
    for e, _, before in made.triples((None, PROV.wasRevisionOf, None)):
        order.setdefault(e, set()).add(before)
    for e in order:
        seen, ahead = set(), {e}
        while ahead:
            ahead = {b for a in ahead for b in order.get(a, ())} - seen
            seen |= ahead
        if e in seen:
            yield f"{e} is a revision of itself"
    for e, _, run in made.triples((None, PROV.wasGeneratedBy, None)):
        end = when(made, run, PROV.endedAtTime)
        if not when(made, run, PROV.startedAtTime) <= when(made, e, PROV.generatedAtTime) <= end:
            yield f"{e} was generated outside of its run"
        for used in made.objects(run, PROV.used):
            if when(made, used, PROV.generatedAtTime) > end:
                yield f"{used} was used before it was generated"
        if (run, PROV.used, e) in made:
            yield f"{e} was used by the run that generated it"
    kinds = (PROV.Entity, PROV.Activity, PROV.Agent)
    for subject in set(made.subjects(RDF.type)):
        if sum((subject, RDF.type, kind) in made for kind in kinds) > 1:
            yield f"{subject} is of two kinds that exclude each other"


@pytest.mark.parametrize("facts", some.EVERY.values(), ids=some.EVERY)
def test_every_run_has_its_provenance(facts: Facts) -> None:
    """Whatever became of it: what was used, by whom, by which plan."""
    made = graph(facts)
    rdf.check(made, SHAPES)
    assert list(violations(made)) == []


def test_bundles_put_together_still_hold() -> None:
    """A publication, a second one, its revert and the revert of that: one graph without a loop."""
    made = graph(*CHAIN)
    rdf.check(made, SHAPES)
    assert list(violations(made)) == []
    assert (publication(4), PROV.wasRevisionOf, publication(3)) in made


def test_bytes_that_come_back_are_no_loop() -> None:
    """A, B, A again: three publications of two contents, and no entity is its own revision."""
    third = some.facts(replace(some.version(), entry=3, run="3-1", number=3), some.version(2, 2))
    made = graph(some.FIRST, some.SECOND, third)
    assert list(violations(made)) == []
    content = URIRef(names.digest(some.version().content))
    assert len(set(made.subjects(PROV.specializationOf, content))) == 2


@pytest.mark.parametrize(
    ("facts", "gone"),
    [
        (some.REVERTED, {2}),
        (some.REVERTED_AGAIN, {3}),
        (some.TAKEN_BACK, {1}),
        (some.REMOVED, {1}),
        (some.RETIRED, set()),
        (some.SECOND, set()),
    ],
    ids=["revert", "revert of a revert", "back to nothing", "removal", "retirement", "new version"],
)
def test_what_is_taken_away_says_by_what(facts: Facts, gone: set[int]) -> None:
    """A revert and a removal invalidate; a new version and a retirement do not."""
    made = graph(facts)
    taken = set(made.subjects(PROV.wasInvalidatedBy, URIRef(names.run(facts))))
    assert taken == {publication(entry) for entry in gone}


@pytest.mark.parametrize("facts", some.OTHERS.values(), ids=some.OTHERS)
def test_what_published_nothing_generated_nothing(facts: Facts) -> None:
    """A failure keeps what it used, and claims no output."""
    made = graph(facts)
    run = URIRef(names.run(facts))
    assert not list(made.triples((None, PROV.wasGeneratedBy, None)))
    assert len(list(made.objects(run, PROV.used))) == 2


def test_a_failed_validation_says_which_check_and_why() -> None:
    made = graph(some.FAILURE)
    (check,) = made.subjects(RDF.type, HG.Check)
    assert made.value(check, HG.passed) == Literal(False)
    assert str(made.value(check, HG.reason)) == "out_of_range"


def test_a_revert_names_who_wanted_it_and_why() -> None:
    made = graph(some.REVERTED)
    run = URIRef(names.run(some.REVERTED))
    assert str(made.value(run, HG.because)) == "the sensor was broken"
    (person,) = made.subjects(RDF.type, PROV.Person)
    assert (run, PROV.wasAssociatedWith, person) in made
    assert (publication(3), PROV.wasDerivedFrom, publication(1)) in made


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ((publication(1), PROV.wasRevisionOf, publication(2)), "revision of itself"),
        ((publication(1), RDF.type, PROV.Activity), "exclude each other"),
    ],
)
def test_a_broken_graph_would_be_noticed(change: tuple[URIRef, URIRef, URIRef], text: str) -> None:
    """Constraints that nothing can break are no checks."""
    made = graph(some.FIRST, some.SECOND)
    made.add(change)
    assert any(text in found for found in violations(made))


def test_shapes_notice_a_run_that_ends_before_it_starts() -> None:
    broken = prov.bundle(some.FIRST)
    broken["@graph"][0]["prov:endedAtTime"]["@value"] = "2020-01-01T00:00:00Z"
    with pytest.raises(AssertionError, match="Less"):
        rdf.check(rdf.graph(broken, "x"), SHAPES)

"""The picture of where a result comes from says what its record says, and is safe in a page."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tests.catalog import some

from headgate.catalog.lineage import MEMBERS, lineage
from headgate.model.facts import Facts, File

EVERY = (some.FIRST, some.SECOND, some.REMOVED, some.REVERTED, some.TAKEN_BACK, some.FAILURE)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter() if node.tag == "text"]


@pytest.mark.parametrize("facts", EVERY, ids=lambda f: f.run + f.outcome)
def test_every_line_in_the_picture_is_a_sentence_of_the_record(facts: Facts) -> None:
    """Whoever cannot see the picture reads the same, and more, in words."""
    made = lineage(facts)
    shown, words = texts(made.svg), {r.words for r in made.relations}
    names = {r.start for r in made.relations} | {r.end for r in made.relations}
    assert f"run {facts.run}" in shown
    assert {text for text in shown if text in words} <= words
    assert all(name in shown for name in names if len(name) <= 22)


def test_a_revert_shows_what_it_took_back_and_what_it_brought_back() -> None:
    """Who asked for it, which version is gone by it, and which one is there again."""
    said = {(r.start, r.words, r.end) for r in lineage(some.REVERTED).relations}
    assert ("run 3-1", "was carried out by", "anna") in said
    assert ("publication 2", "was taken back by", "run 3-1") in said
    assert ("publication 3", "was made from", "publication 1") in said
    assert ("publication 3", "replaced", "publication 2") in said


def test_many_files_do_not_make_a_poster() -> None:
    """The picture shows the first of them; the sentences have all."""
    files = tuple(File(f"part-{n}.csv", some.sha(str(n)), n) for n in range(40))
    made = lineage(some.facts(some.version(artifacts=files)))
    assert sum(text == "holds" for text in texts(made.svg)) == MEMBERS
    assert sum(r.words == "holds" for r in made.relations) == 42


def test_what_comes_from_outside_is_text_in_the_picture() -> None:
    """A file called like a script runs nothing."""
    evil = "<script>alert(1)</script>"
    named = replace(some.FIRST, worker=evil, envelope=some.envelope(f"s3://in/{evil}"))
    assert "<script" not in lineage(named).svg
    assert any(text.startswith("<script>") for text in texts(lineage(named).svg))

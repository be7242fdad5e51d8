"""A manifest is read as a whole or not at all, whatever its form; its order means nothing."""

from __future__ import annotations

import csv
import io
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.model import manifest
from headgate.model.listing import NotAListing, Row, at, canonical, difference
from headgate.model.manifest import window

ROWS: list[dict[str, Any]] = [
    {"uri": "s3://b/a.csv", "etag": "11", "size": 1},
    {"uri": "s3://b/b.csv", "etag": "22", "size": 2},
    {"uri": "s3://b/%F0%9F%8C%A7.csv", "etag": "33", "size": 3},
]


def read(text: str | bytes) -> list[Row]:
    stream = io.BytesIO(text.encode() if isinstance(text, str) else text)
    return list(manifest.read(stream).rows)


def hash_of(text: str) -> str:
    found = manifest.read(io.BytesIO(text.encode()))
    return canonical(found.rows, found.unit).hash


def as_list(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows)


def as_document(rows: list[dict[str, Any]]) -> str:
    return json.dumps({"made": {"by": ["x"]}, "files": rows, "count": len(rows)}, indent=2)


def as_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


FORMS = [as_list, as_document, as_lines, as_csv]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: Any) -> None:
    """A list, a document, lines and CSV give the same rows and the same hash."""
    rows = read(form(ROWS))
    assert [(row.uri, row.version, row.size) for row in rows] == [
        (row["uri"], row["etag"], row["size"]) for row in ROWS
    ]
    assert hash_of(form(ROWS)) == hash_of(as_list(ROWS))


def test_the_hash_of_a_listing_never_changes() -> None:
    """It is kept in logs and compared years later: its definition is fixed."""
    assert hash_of(as_list(ROWS)) == (
        "sha256:ba856ff262b9335a42c3e8032fec8494b89acc29cd1238f121c7ebcd037000c3"
    )
    assert (
        hash_of("[]") == "sha256:8a11c7b90ad7fc0b6457b8030ff83ec038197e97e021dabc239b1d4b326386e4"
    )


@given(
    rows=st.lists(st.integers(0, 10**6), unique=True, min_size=1, max_size=50), seed=st.integers()
)
@settings(max_examples=50, deadline=None)
def test_manifest_diff_stability(rows: set[int], seed: int) -> None:
    """A re-ordered listing only: the difference is empty and the hash is the same."""
    before = [{"uri": f"s3://b/{n}", "etag": f"e{n % 7}", "size": n} for n in rows]
    after = list(before)
    random.Random(seed).shuffle(after)
    old, new = canonical(read(as_list(before))), canonical(read(as_csv(after)))
    assert old.hash == new.hash
    assert difference(old.records, new.records).empty


def test_a_difference_names_what_was_added_changed_and_removed() -> None:
    """Each object is in exactly one of the lists, by its place."""
    before = read(as_csv([{"uri": u, "etag": "1", "size": 1} for u in "abcd"]))
    after = read(as_list([{"uri": u, "etag": "12"[u == "b"], "size": 1} for u in "edcb"]))
    found = difference(canonical(before).records, canonical(after).records)
    assert [row.uri for row in at(after, found.added)] == ["e"]
    assert [row.uri for row in at(after, found.changed)] == ["b"]
    assert [row.uri for row in at(before, found.changed_before)] == ["b"]
    assert [row.uri for row in at(before, found.removed)] == ["a"]
    assert found.unchanged == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_manifest_that_is_cut_off_anywhere_is_never_a_shorter_one(form: Any) -> None:
    """Whatever byte an upload stops at: an error, or (between two lines) whole lines only."""
    text = form(ROWS)
    whole = text.rstrip()
    for end in range(len(text)):
        try:
            rows = read(text[:end])
        except NotAListing:
            continue
        # Lines that are whole cannot be told from a shorter file: `shrink_limit` is for those.
        assert form in (as_lines, as_csv) or end >= len(whole), text[:end]
        assert form is as_lines or text[end - 1] in "\r\n" or end >= len(whole)
        assert [row.uri for row in rows] == [row["uri"] for row in ROWS][: len(rows)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("[", "ends"),
        ("[]]", "more behind its end"),
        ("[] []", "more behind its end"),
        ('[{"uri":"a"},]', "item 2"),
        ('[{"uri":"a"} {"uri":"b"}]', "',' is expected"),
        ('[{"uri":"a"}, 7]', "item 2: expected `object`"),
        ('[{"uri":"a"},{"etag":"1"}]', "item 2: it names no object"),
        ('[{"uri":"a","size":-1}]', "item 1: its size is -1"),
        ('[{"uri":"a","size":1.5}]', "item 1: expected"),
        ('[{"uri":"a","size":NaN}]', "NaN is no JSON"),
        ('[{"uri":"a","uri":"b"}]', "'uri' is there twice"),
        ('[{"uri":"a","\\u0075ri":"b"}]', "'uri' is there twice"),
        ('[{"uri":"a","uri":"b"},{"uri":"c"},{"uri":"d"}]', "item 1: the name 'uri'"),
        ('[{"uri":"a"},{"uri":"b","\\u0075ri":"c"},{"uri":"d"}]', "item 2: the name 'uri'"),
        ('{"uri":"a"}\n{"uri":"b","uri":"c"}\n', "line 2: the name 'uri'"),
        ('[{"uri":"\\u0000"}]', "no text"),
        ('[{"uri":"\\ud800"}]', "no text"),
        ('[{"uri":"a","last_modified":"yesterday"}]', "item 1: its last_modified"),
        ('{"files":[{"uri":"a"}],"files":[]}', "twice"),
        ('{"files":[{"uri":"a"}]', "ends"),
        ('{"files":[{"uri":"a"}],"n":', "ends"),
        ('{"files":{}}', "names no object"),
        ('{"uri":"a"}\n{"uri":', "line 2"),
        ('{"uri":"a"}\n\n{"uri":7}\n', "line 3"),
        ('{"uri":"a"} {"uri":"b"}\n', "line 1: there is more"),
        ("etag,size\n1,2\n", "line 1: no column names the objects"),
        ("uri,etag,uri\na,1,b\n", "two columns called uri"),
        ("uri,etag\na,1\nb\n", "line 3: it has 1 fields, and the first line 2"),
        ("uri,etag\na,1,\n", "line 2: it has 3 fields"),
        ("uri,etag\na,1\nb,2", "line break"),
        ('uri,etag\na,"1\nb,2\n', "line 3"),
        ("uri,size\na,1e3\n", "line 2: its size"),
        ("uri,size\na,1\n,2\n", "line 3: it names no object"),
        (b"uri,size\na,1\n\xff,2\n", "utf-8"),
        (b'[{"uri":"\xff"}]', "no text"),
        ("uri\n" + "x" * 2001 + "\n", "more than 2000"),
        ('[' * 100_000, "nested"),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused_with_its_place(text: str | bytes, said: str) -> None:
    """Whoever has to mend it reads where and what."""
    with pytest.raises(NotAListing) as refused:
        read(text)
    assert said in str(refused.value), refused.value


@pytest.mark.parametrize("form", FORMS)
def test_one_object_in_two_versions_is_refused_with_both_places(form: Any) -> None:
    """Which one is true cannot be known. The same row twice is harmless."""
    twice = [*ROWS, {**ROWS[0], "etag": "99"}]
    found = manifest.read(io.BytesIO(form(twice).encode()))
    first, last = (2, 5) if form is as_csv else (1, 4)
    with pytest.raises(NotAListing, match=f"{found.unit}s {first} and {last} name the same object"):
        canonical(found.rows, found.unit)
    again = canonical(read(form([*ROWS, ROWS[0]])))
    assert again.hash == canonical(read(form(ROWS))).hash
    assert len(again) == 3


@pytest.mark.parametrize(
    ("item", "named", "version"),
    [
        ({"etag": '"abc"'}, "etag", "abc"),
        ({"etag": 'W/"abc"'}, "etag", "W/abc"),
        ({"sha256": "AB" * 32}, "sha256", "ab" * 32),
        ({"checksum": "sha256:" + "AB" * 32}, "sha256", "ab" * 32),
        ({"checksum": "md5:" + "0F" * 16}, "md5", "0f" * 16),
        ({"checksum": "crc32c:x"}, "checksum", "crc32c:x"),
        ({"md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, "md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
        ({"version": 1714564800000001}, "version", "1714564800000001"),
        ({"etag": "e", "version": "v", "sha256": "aa"}, "version", "v"),
        ({"etag": "e", "version": "", "sha256": None}, "etag", "e"),
        ({}, "", ""),
    ],
)
def test_versions_go_by_several_names(item: dict[str, Any], named: str, version: str) -> None:
    """Of several, the first that says something counts; each is written in one way."""
    (row,) = read(as_list([{"uri": "a", **item}]))
    assert (row.named, row.version) == (named, version)


@pytest.mark.parametrize(
    ("item", "uri"),
    [
        ({"uri": "https://x/a%20b"}, "https://x/a%20b"),
        ({"url": "a b"}, "a b"),
        ({"path": "dir/a b#1?.csv"}, "dir/a%20b%231%3F.csv"),
        ({"key": "ü+%"}, "%C3%BC+%25"),
        ({"path": "12:30.csv"}, "./12:30.csv"),
        ({"key": "k", "url": "u"}, "u"),
    ],
)
def test_objects_go_by_several_names(item: dict[str, str], uri: str) -> None:
    """A uri is taken as it is; a plain name is percent-encoded."""
    assert [row.uri for row in read(as_list([item]))] == [uri]
    assert [row.uri for row in read(as_csv([item]))] == [uri]


def test_time_counts_only_where_there_is_no_version() -> None:
    """A copy of the same bytes is no change; without a version, time is all there is to see."""
    early, late = "2024-05-01T12:00:00Z", "2024-05-01T15:00:00"
    for version, same in (({"etag": "1"}, True), ({}, False)):
        hashes = {
            hash_of(as_list([{"uri": "a", "size": 1, "last_modified": when, **version}]))
            for when in (early, late)
        }
        assert (len(hashes) == 1) is same
    (row,) = read(as_list([{"uri": "a", "last_modified": "2024-05-01T14:00:00+02:00"}]))
    (other,) = read(as_csv([{"uri": "a", "last_modified": "2024-05-01 12:00:00"}]))
    assert row.modified == other.modified == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert canonical([row]).hash == canonical([other]).hash


def test_other_columns_are_ignored() -> None:
    """Who adds a column for somebody else changes nothing for us."""
    more = [{**row, "owner": "x", "tags": {"uri": ["},", "]"]}, "note": 'a "uri"'} for row in ROWS]
    for form in (as_list, as_document, as_lines):
        assert hash_of(form(more)) == hash_of(as_list(ROWS))
    flat = [{"owner": 'x,\n"y"', **row} for row in ROWS]
    assert hash_of(as_csv(flat)) == hash_of(as_list(ROWS))
    assert [row.place for row in read(as_csv(flat))] == [2, 4, 6]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [64, 1000])
def test_windows_end_anywhere(form: Any, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the file is cut into reads, no row is lost, split or read twice."""
    monkeypatch.setattr(window, "CHUNK_BYTES", chunk)
    rows = [
        {"uri": f"s3://b/{'},{' * (n % 3)}ü{n}", "etag": f'"{n}"', "size": n} for n in range(200)
    ]
    if chunk == 64 and form is as_lines:
        pytest.skip("a line is longer than that")
    found = read(form(rows))
    assert [(row.uri, row.size) for row in found] == [(row["uri"], row["size"]) for row in rows]


def test_only_the_rows_that_are_asked_for_are_made() -> None:
    """The second reading, for the rows of a difference, finds them by their places."""
    rows = [{"uri": f"{n}", "etag": "1", "size": n} for n in range(20_000)]
    for form in FORMS:
        stream = io.BytesIO(form(rows).encode())
        places = [5, 9000, 9001, 20_000]
        found = list(at(manifest.read(stream, places).rows, places))
        assert [row.place for row in found] == places
        shift = 2 if form is as_csv else 1
        assert [row.uri for row in found] == [f"{place - shift}" for place in places]


def test_a_byte_order_mark_is_no_part_of_a_manifest() -> None:
    """Spreadsheets write one."""
    for form in FORMS:
        assert hash_of("\ufeff" + form(ROWS)) == hash_of(form(ROWS))

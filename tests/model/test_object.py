"""What a handler is given: the object, by whichever way it is read."""

import csv
import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SchemaError
from headgate.model.envelope import Envelope
from headgate.model.object import Object

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
ENVELOPE = Envelope(
    event_id="e",
    source="test",
    provider="file",
    detector="event",
    uri="file:///in/a.csv",
    event_time=NOON,
    received_at=NOON,
)


def of(body: bytes | Path, uri: str = "file:///in/a.csv") -> Object:
    data = body if isinstance(body, bytes) else body.read_bytes()
    return Object(
        uri=uri,
        digest=hashlib.sha256(data).digest(),
        size=len(data),
        body=body,
        envelope=lambda: ENVELOPE,
    )


@pytest.fixture(params=["file", "message"])
def kind(request: pytest.FixtureRequest) -> str:
    """Bytes that were fetched are a file; bytes that came inside a message are not."""
    return request.param


def put(kind: str, data: bytes, tmp_path: Path) -> Object:
    if kind == "message":
        return of(data)
    path = tmp_path / "body"
    path.write_bytes(data)
    return of(path)


def test_an_object_is_read_in_every_way(kind: str, tmp_path: Path):
    """Bytes, text, lines, a stream and JSON, each time from the start."""
    obj = put(kind, b'{"a":\n1}', tmp_path)
    for _ in range(2):
        assert obj.read() == b'{"a":\n1}'
        assert obj.text() == '{"a":\n1}'
        assert list(obj.lines()) == ['{"a":\n', "1}"]
        assert obj.json() == {"a": 1}
        with obj.open() as stream:
            assert stream.read(2) + stream.read() == b'{"a":\n1}'


def test_an_object_says_what_it_is():
    """Its name, digest, size and the change that brought it."""
    obj = of(b"rain")
    assert (obj.uri, obj.name, obj.size, obj.event_time) == (
        "file:///in/a.csv", "a.csv", 4, NOON,
    )  # fmt: skip
    assert obj.digest == hashlib.sha256(b"rain").hexdigest()
    assert obj.envelope is ENVELOPE
    assert repr(obj) == f"<Object file:///in/a.csv 4 bytes sha256:{obj.digest[:12]}…>"
    assert of(b"", "s3://bucket/folder/").name == "folder"


def test_a_fetched_object_is_a_local_file(tmp_path: Path):
    """For libraries that want a path; also after the bytes moved to their final place."""
    obj = put("file", b"x", tmp_path)
    moved = obj.path().rename(tmp_path / "final")
    obj.moved(moved)
    assert obj.path() == moved
    assert obj.read() == b"x"


def test_bytes_from_a_message_become_a_file_when_one_is_asked_for():
    """A library that wants a path gets one, also for what came inside its message."""
    obj = of(b"x")
    path = obj.path()
    assert path.read_bytes() == obj.read() == b"x"
    del obj
    assert not path.exists()


@given(st.lists(st.sampled_from(["a", "é", "😀", "\n", "\r", "\r\n", '"', ","]), max_size=30))
def test_lines_put_together_are_the_text(pieces: list[str]):
    """Every line end is kept as it was."""
    text = "".join(pieces)
    obj = of(text.encode())
    assert "".join(obj.lines()) == obj.text() == text


def test_a_line_end_inside_a_quoted_cell_stays_as_it_is(kind: str, tmp_path: Path):
    """As `csv` wants it: \\r\\n between rows ends one, inside quotes it is data."""
    obj = put(kind, b'a,b\r\n"one\r\ntwo",3\r\n"four\nfive",6\r\n', tmp_path)
    rows = list(csv.DictReader(obj.lines()))
    assert rows == [{"a": "one\r\ntwo", "b": "3"}, {"a": "four\nfive", "b": "6"}]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig", "cp1252"])
def test_text_in_another_encoding_is_read_when_it_is_named(encoding: str):
    """Not everything is UTF-8."""
    obj = of("größe\nü".encode(encoding))
    assert obj.text(encoding) == "größe\nü"
    assert list(obj.lines(encoding)) == ["größe\n", "ü"]


@pytest.mark.parametrize("at", [0, 5, 8191, 8192, 20_000, 100_000])
def test_bytes_that_are_no_text_are_named_by_their_place(kind: str, at: int, tmp_path: Path):
    """The object is quarantined with the offset of the bad byte, however far in it is."""
    obj = put(kind, b"x" * at + b"\xff" + b"y" * 9000, tmp_path)
    for read in (obj.text, lambda: list(obj.lines())):
        with pytest.raises(SchemaError) as error:
            read()
        assert error.value.reason == "not_text"
        assert str(error.value) == (
            f"file:///in/a.csv is no utf-8 text: byte {at}: invalid start byte"
        )


def test_text_that_ends_in_the_middle_of_a_character_is_refused():
    """A file that was cut short is not read as if it were whole."""
    for read in (lambda o: o.text(), lambda o: list(o.lines())):
        with pytest.raises(SchemaError, match="byte 3: unexpected end of data"):
            read(of("abc😀".encode()[:-1]))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"{'a': 1}", b"[" * 100_000, b"1" * 5000, b"[1] [2]"]
)
def test_what_is_no_json_is_refused(data: bytes):
    """Named with its uri, also when it is hostile."""
    with pytest.raises(SchemaError, match=r"file:///in/a\.csv is no JSON: ") as error:
        of(data).json()
    assert error.value.reason == "not_json"


def test_a_stream_left_open_by_lines_is_closed(tmp_path: Path):
    """A handler that reads only the header leaks no file."""
    obj = put("file", b"a\nb\n", tmp_path)
    lines = obj.lines()
    assert next(lines) == "a\n"
    lines.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert list(obj.lines()) == ["a\n", "b\n"]

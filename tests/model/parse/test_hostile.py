"""JSON that readers disagree on, and bytes that are no JSON: each has its reason, none gets in."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.model.parse.documents import NOW, one, read, record, records, refused, sns

from headgate.model.envelope import Envelope, Refused
from headgate.model.parse import parse
from headgate.model.parse.strict import DEPTH, careful, load

MEG = 1 << 20
CASES: list[tuple[bytes, str]] = [
    (b'"key":"x","key":"y"', "duplicate_key"),
    (b'"k":NaN', "not_a_number"),
    (b'"k":Infinity', "not_a_number"),
    (b'"k":-Infinity', "not_a_number"),
    (b'"k":1e400', "float_too_large"),
    (b'"k":-1e400', "float_too_large"),
    (b'"k":' + b"9" * 5000, "integer_too_large"),
    (b'"k":18446744073709551616', "integer_too_large"),
    (b'"k":' + b"[" * 70 + b"]" * 70, "too_deep"),
    (b'"k":' + b'{"a":' * 70 + b"1" + b"}" * 70, "too_deep"),
    (b'"k":"\\ud800"', "lone_surrogate"),
    (b'"k":"\\udc00\\ud800"', "lone_surrogate"),
    (b'"k":"a\\u0000b"', "nul"),
    (b'"k":"\xff"', "invalid_utf8"),
    (b'"k":"\xed\xa0\x80"', "invalid_utf8"),
]


def spoilt(member: bytes) -> bytes:
    """A record with one more member in its object."""
    written = orjson.dumps(record("in/bad.csv"))
    assert b'"object":{' in written
    return written.replace(b'"object":{', b'"object":{' + member + b",", 1)


@pytest.mark.parametrize(("member", "reason"), CASES, ids=lambda v: str(v)[:24])
def test_what_is_wrong_inside_of_one_record_costs_only_that_record(member: bytes, reason: str):
    """The reason names the field, the bytes are kept, and the neighbours are read."""
    good = orjson.dumps(record())
    raw = b'{"Records":[%b,%b,%b]}' % (good, spoilt(member), good)
    first, middle, last = read(raw).records
    assert isinstance(first, Envelope)
    assert isinstance(last, Envelope)
    assert isinstance(middle, Refused)
    assert middle.reason == reason
    assert middle.field.startswith("Records[1].s3.object.k")
    assert middle.raw == raw


@pytest.mark.parametrize(("member", "reason"), CASES, ids=lambda v: str(v)[:24])
def test_what_is_wrong_outside_of_all_records_costs_the_document(member: bytes, reason: str):
    """Nobody can say which record it meant."""
    raw = b'{"key":1,%b,"Records":[%b]}' % (member, orjson.dumps(record()))
    if reason != "duplicate_key":
        assert refused(raw)[0] == reason
    assert refused(b"{%b}" % member)[0] == reason
    assert refused(b"[{%b}]" % member)[0] == reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"\xef\xbb\xbf{}", "bom"),
        (b"\xff\xfe{\0}\0", "invalid_utf8"),
        (b"{", "not_json"),
        (b"{'a':1}", "not_json"),
        (b'{"a":01}', "not_json"),
        (b'{"a":1,}', "not_json"),
        (b'{"a":"\n"}', "not_json"),
        (b"nope", "not_json"),
        (b'{"a":1}{"a":2}', "trailing_data"),
        (b"{} x", "trailing_data"),
        (b'{"a":"\0"}', "nul"),
        (b"\0", "nul"),
        (b"[" * 100_000, "too_deep"),
        (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
        (b'"' + b"x" * MEG + b'"', "too_large"),
        (b"5", "unknown_shape"),
        (b"null", "unknown_shape"),
        (b'"text"', "unknown_shape"),
        (b"{}", "unknown_shape"),
    ],
    ids=lambda v: str(v)[:24],
)
def test_bytes_that_are_no_document_have_a_reason(raw: bytes, reason: str):
    """Whoever looks into the quarantine knows at once what came."""
    assert refused(raw)[0] == reason


def test_the_field_inside_of_a_message_inside_of_a_message_is_named():
    """The way goes through the text that SNS wrapped."""
    inner = b'{"Records":[%b]}' % spoilt(b'"k":NaN')
    assert refused(sns(inner.decode())) == ("not_a_number", "Message.Records[0].s3.object.k")


def test_the_limit_is_the_callers():
    document = orjson.dumps(records(record()))
    assert one(document, limit_bytes=len(document))
    assert refused(document, limit_bytes=len(document) - 1) == ("too_large", "$")


@pytest.mark.parametrize("noise", ["", "}", "{", '"', "\\", "[]}{", '\\"{', "\\\\"])
@pytest.mark.parametrize("width", [1, 100])
def test_sixty_four_levels_are_read_and_sixty_five_are_not(noise: str, width: int):
    """However many there are side by side, and whatever brackets stand in texts between them."""

    def nested(levels: int) -> Any:
        value: Any = noise
        for n in range(levels):
            value = [noise, value] if n % 2 else {noise: value}
        return value

    for levels, is_read in ((DEPTH - 1, True), (DEPTH, False)):
        told = [{noise: []}] * width + [nested(levels)]
        raw = orjson.dumps(told)
        problems = load(raw, MEG).problems
        assert (not problems) is is_read
        assert problems == careful(raw).problems


texts = st.text(st.characters(), max_size=8) | st.sampled_from(["", "\0", "{", '"', "\\", "a"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
PIECES = (
    b'{ } [ ] " a "a": , 1 -0 1e400 1.50 NaN null \\u0000 \\ud83c \\udf27 \\'
    b" 18446744073709551615 18446744073709551616 -9223372036854775809"
)
pieces = st.lists(
    st.sampled_from([*PIECES.split(), b" ", b"\xff", b"\xc3\xa9", b"\0"]), max_size=12
).map(b"".join)


def same(raw: bytes) -> None:
    """Both ways of reading agree: on the value, on what is wrong, on the way to it."""
    quick, slow = load(raw, MEG), careful(raw)
    assert (quick.problems, quick.is_json) == (slow.problems, slow.is_json)
    if not slow.problems:
        # repr: 1 is not 1.0, and -0.0 is not 0.0
        assert repr(quick.value) == repr(slow.value) == repr(json.loads(raw))


@given(values)
def test_the_quick_way_accepts_what_the_careful_one_accepts(value: Any):
    """Written compactly, with escapes, or with spaces: the same value, the same complaints."""
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    same(compact.encode(errors="surrogatepass"))
    same(json.dumps(value).encode())
    same(json.dumps(value, indent=1).encode())


@given(pieces)
@example(b'{"a":1,"a":1}')
@example(b"-0")
@example(b"[1.0,-0.0,1e5,100000.0]")
@example(b'{"a":{"b":1},"a":{"b":1}}')
def test_the_two_ways_agree_on_any_bytes(raw: bytes):
    same(raw)


@given(st.data(), values)
def test_a_name_that_is_there_twice_is_always_found(data: st.DataObject, value: Any):
    """At any depth, also with the same value."""
    found = data.draw(st.sampled_from(['"k":1,"k":1', '"k":1,"\\u006b":2', '"":0,"":0']))
    inner = f"{{{found}}}"
    raw = json.dumps([value, "@"], ensure_ascii=False, separators=(",", ":"))
    raw = (raw[:-4] + inner + "]").encode(errors="surrogatepass")
    assert "duplicate_key" in [p.reason for p in load(raw, MEG).problems]


@given(st.binary(max_size=200))
def test_no_bytes_raise(raw: bytes):
    told = parse(raw, received_at=NOW)
    assert told.records or told.tests or told.ignored or raw.strip() in (b"[]", b'{"Records":[]}')

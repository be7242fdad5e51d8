"""The short way for ordinary notifications gives what the long way gives, or nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.model.parse.documents import NOW, record, records

from headgate.model.parse import ordinary, s3
from headgate.model.parse.strict import careful

TOLD = [
    records(record(), record("b+c%2B", versionId="v1")),
    records(record(name="ObjectRemoved:Delete", size=None, eTag=None)),
    records(record(name="ObjectRemoved:DeleteMarkerCreated", versionId="v2", size=None)),
    records(record('ü%C3%BC\\"/', eTag='"x"')),
]
PIECES = [b'"', b"\\", b"{", b"}", b",", b"0", b"-", b" ", b"\\u0000", b"\\ud800", b"\xff", b"NaN"]
PIECES += [b"1e3", b"18446744073709551616", b'"size":1,', b'"key":"x",', b'"x":[[[]]],', b"null"]


def agree(raw: bytes) -> None:
    quick = ordinary.envelopes(raw, NOW)
    if quick is not None:
        read = careful(raw)
        assert not read.problems
        assert quick == s3.envelopes(read.value["Records"], NOW)


@pytest.mark.parametrize("document", TOLD)
def test_what_s3_writes_goes_the_short_way(document: Any):
    """Were it not so, the figures of the benchmark would mean nothing."""
    raw = orjson.dumps(document)
    assert ordinary.envelopes(raw, NOW) is not None
    agree(raw)


@given(st.data(), st.sampled_from(TOLD))
def test_a_damaged_notification_never_gets_through_the_short_way(
    data: st.DataObject, document: Any
):
    raw = bytearray(orjson.dumps(document))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 4))] = data.draw(
            st.sampled_from(PIECES) | st.binary(max_size=3)
        )
    agree(bytes(raw))


@given(
    st.sampled_from(PIECES), st.sampled_from([b'"size":17', b'"key":"', b'"object":{', b"[", b"{"])
)
@example(b"18446744073709551616", b'"size":17')
@example(b'"key":"x",', b'"object":{')
@example(b'"x":[[[]]],', b'"object":{')
def test_what_is_put_where_it_hurts_never_gets_through_either(piece: bytes, place: bytes):
    """A number that is too large, a name that is there twice, one more level."""
    raw = orjson.dumps(TOLD[0])
    agree(raw.replace(place, place + piece, 1))
    agree(raw.replace(place, piece + place, 1))
    agree(raw.replace(place, place.rstrip(b"17") + piece, 1))

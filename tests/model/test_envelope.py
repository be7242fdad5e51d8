"""The envelope: what a source said, kept as it was said."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError, structs

from headgate.model.envelope import (
    COLUMNS,
    Clock,
    Detector,
    Envelope,
    Kind,
    Provider,
    Strength,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LEAST: dict[str, Any] = {
    "event_id": "e1",
    "source": "test",
    "provider": "file",
    "detector": "event",
    "uri": "file:///a",
    "event_time": NOON,
    "received_at": NOON,
}

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
some = texts.filter(bool)
# Whole minutes, as they are written in ISO 8601.
offsets = st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=offsets)
facts = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | texts
envelopes = st.builds(
    Envelope,
    event_id=some,
    source=some,
    provider=st.sampled_from(get_args(Provider)),
    detector=st.sampled_from(get_args(Detector)),
    kind=st.sampled_from(get_args(Kind)),
    uri=some,
    etag=st.none() | texts,
    version_id=st.none() | texts,
    md5=st.none() | texts,
    version_hint=st.none() | texts,
    strength=st.sampled_from(get_args(Strength)),
    size=st.none() | st.integers(0, 2**63),
    content_type=st.none() | texts,
    event_time=times,
    clock=st.sampled_from(get_args(Clock)),
    received_at=times,
    subject=st.none() | texts,
    sequence=st.none() | texts,
    generation=st.none() | st.integers(1, 2**63),
    item=st.none() | texts,
    dataset=st.none() | texts,
    partition=st.none() | texts,
    trace=st.none() | texts,
    metadata=st.dictionaries(texts, facts, max_size=4),
    data=st.none() | st.binary(),
)


def restored(envelope: Envelope, key: bytes) -> Envelope:
    return Envelope.restore(
        envelope.document(),
        uri=envelope.uri,
        event_time=envelope.event_time,
        received_at=envelope.received_at,
        sequence=envelope.sequence,
        key=key,
        data=envelope.data,
    )


@given(envelopes, st.binary(min_size=32, max_size=32))
def test_an_envelope_comes_back_from_the_ledger_as_it_went_in(envelope: Envelope, key: bytes):
    """Any text, any bytes, any metadata: what a handler sees is what the source said."""
    back = restored(envelope, key)
    assert back == structs.replace(envelope, idempotency_key=key.hex())
    assert [type(v) for v in back.metadata.values()] == [
        type(v) for v in envelope.metadata.values()
    ]


@given(envelopes)
def test_nothing_is_stored_twice(envelope: Envelope):
    """What the ledger has a column for is not in the document, nor what says nothing."""
    document = orjson.loads(envelope.document())
    assert not COLUMNS & document.keys()
    assert None not in document.values()


@given(envelopes)
def test_an_envelope_is_its_own_json(envelope: Envelope):
    """Written as JSON and read again it is equal, bytes and all."""
    assert Envelope.from_json(envelope.json()) == envelope


def test_the_least_envelope_is_enough():
    """Everything that a source may not know has a default that says so."""
    envelope = Envelope(**LEAST)
    assert envelope.idempotency_key is None
    assert (envelope.kind, envelope.strength, envelope.metadata) == ("created", "none", {})
    assert restored(envelope, b"\0" * 32).idempotency_key == "00" * 32


@pytest.mark.parametrize("missing", LEAST)
def test_what_every_change_has_cannot_be_left_out(missing: str):
    """The message names the field."""
    with pytest.raises(TypeError, match=missing):
        Envelope(**{k: v for k, v in LEAST.items() if k != missing})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("event_time", NOON.replace(tzinfo=None)),
        ("received_at", NOON.replace(tzinfo=None)),
        ("event_time", "2026-05-01T12:00:00Z"),
        ("event_time", 1777636800),
        ("event_id", ""),
        ("event_id", "x" * 1025),
        ("source", ""),
        ("uri", ""),
        ("uri", "x" * 4097),
        ("uri", 5),
        ("uri", "a\ud800"),
        ("uri", b"file:///a"),
        ("provider", "ftp"),
        ("detector", "guess"),
        ("kind", "changed"),
        ("strength", "mighty"),
        ("clock", "wall"),
        ("size", -1),
        ("size", "3"),
        ("size", 3.0),
        ("size", True),
        ("generation", 0),
        ("sequence", 7),
        ("metadata", {"a": 1.5}),
        ("metadata", {"a": ["b"]}),
        ("metadata", {1: "b"}),
        ("metadata", [("a", "b")]),
        ("data", "text"),
        ("data", bytearray(b"x")),
        ("etag", 5),
    ],
)
def test_a_value_that_is_almost_right_is_refused(field: str, wrong: object):
    """Strict: nothing is coerced, and the message names the field."""
    with pytest.raises(ValidationError, match=field):
        Envelope(**{**LEAST, field: wrong})


def test_a_field_we_do_not_know_is_refused():
    """A misspelt field is an error, not a loss."""
    with pytest.raises(TypeError, match="etga"):
        Envelope(**{**LEAST, "etga": "x"})


def test_an_envelope_does_not_change():
    """Whoever holds one holds what was received."""
    envelope = Envelope(**LEAST)
    with pytest.raises(AttributeError, match="immutable"):
        envelope.uri = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="immutable"):
        del envelope.etag  # pyright: ignore[reportAttributeAccessIssue]
    assert envelope == Envelope(**LEAST)


def test_a_time_keeps_its_instant_in_any_zone():
    """A source may speak in its own zone; the instant is what counts."""
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert Envelope(**{**LEAST, "event_time": there}).event_time == NOON


_FIRST_AT_ONCE = """
import os, sys, threading
from datetime import UTC, datetime

from headgate.model.envelope import Envelope

sys.setswitchinterval(1e-6)


def first_envelopes():
    now, gate = datetime.now(UTC), threading.Barrier(4)

    def make():
        gate.wait()
        Envelope(
            event_id="1", source="s", provider="file", detector="event", kind="created",
            uri="x:y", event_time=now, received_at=now,
        )

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


for _ in range(150):
    if (child := os.fork()) == 0:
        first_envelopes()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(1)
"""


def test_threads_that_make_the_first_envelopes_at_once_do_no_harm() -> None:
    """A worker begins with several entries in several threads, and does not die of it."""
    assert subprocess.run([sys.executable, "-c", _FIRST_AT_ONCE]).returncode == 0

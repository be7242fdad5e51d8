"""Trace contexts: what others sent is understood or left alone, and costs nothing when off."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model import cloudevent, trace
from headgate.model.envelope import Envelope
from headgate.model.parse import parse
from headgate.model.trace import Context, Span
from headgate.sources.events import EventParser

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENDER = f"00-{TRACE}-{SPAN}-01"


def envelope(**more: object) -> Envelope:
    said = {"event_id": "e", "source": "test", "uri": "test://a", "provider": "webhook"}
    times = {"event_time": NOW, "received_at": NOW, "detector": "event"}
    return Envelope(**{**said, **times, **more})


@pytest.mark.parametrize(
    ("text", "context"),
    [
        (SENDER, Context(TRACE, SPAN)),
        (f"00-{TRACE}-{SPAN}-00", Context(TRACE, SPAN, sampled=False)),
        (f"00-{TRACE}-{SPAN}-03", Context(TRACE, SPAN)),
        (f"42-{TRACE}-{SPAN}-01-more-of-a-later-version", Context(TRACE, SPAN)),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (SENDER.upper(), None),
        (SENDER + "\n", None),
        ("", None),
        (None, None),
    ],
)
def test_a_header_is_read_as_w3c_says(text: str | None, context: Context | None) -> None:
    """What is no context is nobody's trace; what a later version adds is passed over."""
    assert trace.read(text) == context


@given(st.text(max_size=80))
def test_no_header_breaks_it(text: str) -> None:
    """Whatever a stranger sends, the envelope it is carried in can be stored and sent on."""
    found = trace.read(text, text)
    kept = trace.carried(envelope(), found or trace.read(SENDER, text))
    assert trace.read(kept.trace) is not None
    assert Envelope.from_json(kept.json()) == kept
    cloudevent.binary(kept)


def test_what_is_carried_comes_back_from_the_ledgers_document() -> None:
    """Both headers; and an envelope keeps the context that it came with."""
    sent = trace.carried(envelope(), trace.read(SENDER, "vendor=1,other=2"))
    assert trace.of_document(sent.document()) == Context(TRACE, SPAN, True, "vendor=1,other=2")
    assert trace.of_document(sent.document("00-other")) == trace.of_envelope(sent)
    assert trace.carried(sent, Context("a" * 32, "b" * 16)) is sent
    stamped = envelope().document(SENDER, "rain")
    assert trace.of_document(stamped) == Context(TRACE, SPAN)
    assert msgspec.json.decode(stamped)["metadata"] == {"queue": "rain"}
    assert trace.of_document(envelope().document()) is None


@pytest.mark.parametrize("mode", ["structured", "batch", "binary"])
def test_a_cloud_event_carries_it_there_and_back(mode: str) -> None:
    """The extension for distributed tracing, written and read in each mode."""
    sent = trace.carried(envelope(data=b"1"), trace.read(SENDER, "vendor=1"))
    headers: dict[str, str] = {}
    if mode == "binary":
        headers, body = cloudevent.binary(sent)
    else:
        body = cloudevent.structured(sent) if mode == "structured" else cloudevent.batch([sent])
    (got,) = parse(body, received_at=NOW, headers=headers).records
    assert isinstance(got, Envelope)
    assert trace.of_envelope(got) == Context(TRACE, SPAN, True, "vendor=1")


def test_a_stream_of_events_tells_it_in_a_field_or_in_a_cloud_event() -> None:
    """Readers that do not know the field pass it over; bad ones are no trace."""
    stream = (
        f"traceparent: {SENDER}\ntracestate: vendor=1\ndata: one\n\n"
        f'data: {{"specversion": "1.0", "traceparent": "{SENDER}"}}\n\n'
        f'data: {{"traceparent": "{SENDER}"}}\n\n'
        "traceparent: nonsense\ndata: two\n\ndata: three\n\n"
    )
    found = [event.trace for event in EventParser(1000).feed(stream.encode())]
    assert found == [Context(TRACE, SPAN, True, "vendor=1"), Context(TRACE, SPAN), None, None, None]


def test_only_what_is_sampled_is_shown() -> None:
    """A share of nothing shows nothing of ours, and all of what a sender asked for."""
    heard: list[Span] = []
    stop = trace.export_to(heard.append, share=0.0)
    try:
        with trace.during("ours", "internal"):
            pass
        with trace.during("theirs", "internal", parent=trace.read(SENDER)):
            assert trace.current() is not None
        with trace.during("unasked", "internal", parent=trace.read(SENDER[:-1] + "0")):
            pass
    finally:
        stop()
    assert [span.name for span in heard] == ["theirs"]
    assert (heard[0].context.trace_id, heard[0].parent) == (TRACE, SPAN)
    with trace.during("off", "internal") as span:
        assert span is None
        assert trace.current() is None


def test_a_handler_that_seeds_chance_does_not_make_all_traces_one() -> None:
    """Ids differ whatever anybody does to Python's generator."""
    import random

    made = []
    for _ in range(3):
        random.seed(7)
        made.append(trace.child(None).trace_id)
    assert len(set(made)) == 3

"""A change can be followed from its source to its commit, through any process and on any day."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.aws.emulator import Aws
from tests.aws.mail import Mail, notification
from tests.net.webs import Asked, say, speaking
from tests.server.doors import app_of, ask, secret, signed, whsec
from tests.telemetry.collector import collecting
from tests.world import World, change

import headgate as hg
from headgate.model import signal, trace
from headgate.model.ports import Delivery
from headgate.model.trace import Span
from headgate.runtime.drain import read

SENDER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = SENDER.split("-")[1]

COUNTING = """
from typing import TypedDict
import headgate as hg

rain = hg.Directory({incoming!r}, settle=0, every=0.05, name="rain")
p = hg.Pipeline("p", store={store!r}, sources=[rain])

class Row(TypedDict):
    id: int

@p.rows("item", key="id", schema=Row)
def item(obj):
    yield obj.json()
"""


@contextmanager
def spans() -> Iterator[list[Span]]:
    """Every span that ends in this process."""
    heard: list[Span] = []
    stop = trace.export_to(heard.append)
    try:
        yield heard
    finally:
        stop()


def named(heard: list[Span], name: str) -> list[Span]:
    return [span for span in heard if span.name.startswith(name)]


async def test_one_change_is_one_trace_from_its_source_to_its_commit(world: World) -> None:
    """`up` with a collector: the look at the folder, the ledger, the handlers and the commit are
    spans of one trace, though three processes made them; and the metrics arrive by their names.
    """
    file = world.folder / "counting.py"
    file.write_text(COUNTING.format(store=str(world.lake), incoming=str(world.incoming)))
    world.put("a.json", '{"id": 1}')
    with collecting() as collector:
        await world.up(file, otlp_endpoint=collector.url, env="test", energy=True)
    (settle,) = [s for s in collector.spans if s.name == "settle p"]
    told = {span.name: span for span in collector.trace(settle.trace)}
    assert set(told) == {"scan rain", "receive rain", "process p", "settle p"}
    kinds = {name: span.kind for name, span in told.items()}
    assert kinds == {
        "scan rain": "client",
        "receive rain": "producer",
        "process p": "consumer",
        "settle p": "client",
    }
    assert told["scan rain"].parent == ""
    assert told["receive rain"].parent == told["scan rain"].span
    assert told["process p"].parent == told["receive rain"].span
    assert told["settle p"].parent == told["process p"].span
    said = told["process p"].attributes
    key = await world.val("SELECT encode(key, 'hex') FROM headgate.entry")
    assert (said["headgate.run"], said["headgate.outcome"]) == ("1-1", "finalized")
    assert (said["headgate.idempotency_key"], said["headgate.uri"][-6:]) == (key, "a.json")
    assert said["headgate.energy.joules"] > 0
    assert said["headgate.carbon.grams"] > 0
    assert told["process p"].steps == ["claimed", "fetched", "validated"]
    who = collector.resources[0]
    assert (who["service.name"], who["deployment.environment.name"]) == ("headgate", "test")
    assert collector.value("messages_received_total", queue="rain", env="test") == 1
    assert collector.value("headgate_settled_total", outcome="finalized", env="test") == 1
    assert collector.value("headgate_promotions_total", hashed="true") == 1
    assert (collector.value("headgate_energy_joules_total", pipeline="p") or 0) > 0
    (latency, *_) = collector.points("headgate_commit_seconds")
    assert latency.count == 1
    assert [e.trace_id.hex() for e in latency.exemplars] == [settle.trace]


async def test_a_retry_goes_on_with_the_trace_of_its_sender(world: World) -> None:
    """The context is kept with the entry: whoever tries again, whenever, is in the same trace."""
    p = world.pipeline()
    seen: list[str | None] = []

    @p.transform
    def handle(obj: hg.Object, run: hg.Run) -> None:
        seen.append(run.trace)
        if run.attempt == 1:
            raise hg.Retryable("not yet")

    sent = trace.carried(change("a", b"1"), trace.read(SENDER, "vendor=1"))
    with spans() as heard:
        await world.receive(p, sent)
    assert [span.context.trace_id for span in named(heard, "receive")] == [TRACE]
    # Another process, another day: nothing is left of the first but the ledger.
    with spans() as heard:
        await world.run(p)
    first, second = named(heard, "process p")
    assert {first.context.trace_id, second.context.trace_id} == {TRACE}
    assert first.parent == second.parent == SENDER.split("-")[2]
    assert (first.attributes["headgate.outcome"], first.error) == ("retry", "not yet")
    assert (second.attributes["headgate.outcome"], second.error) == ("finalized", "")
    assert second.context.state == "vendor=1", "what others keep there is handed on"
    assert seen == [first.context.parent, second.context.parent]
    settled = named(heard, "settle p")
    assert [one.parent for one in settled] == [first.context.span_id, second.context.span_id]


async def test_a_thousand_changes_are_a_handful_of_spans(world: World) -> None:
    """What is received together is one span at each stage, with links to those who sent it."""
    p = world.pipeline()

    @p.transform
    def handle(obj: hg.Object) -> None:
        if obj.uri.endswith("/13"):
            raise hg.Permanent("unlucky")

    told = [change(f"o/{n}", b"1") for n in range(1000)]
    told[7] = trace.carried(told[7], trace.read(SENDER))
    with spans() as heard:
        await world.receive(p, *told)
        await world.run(p)
    (received,) = named(heard, "receive")
    assert [link.parent for link in received.links] == [SENDER]
    assert received.attributes["messaging.batch.message_count"] == 1000
    process, settled = named(heard, "process p"), named(heard, "settle p")
    assert len(process) + len(settled) < 50
    assert sum(int(s.attributes["messaging.batch.message_count"]) for s in process) == 1000
    ours = [s for s in process if s.parent == received.context.span_id]
    theirs = [s for s in process if s.context.trace_id == TRACE]
    assert len(ours) + len(theirs) == len(process)
    assert [s.attributes["headgate.uri"] for s in theirs] == ["test://o/7"]
    assert {link.span_id for link in theirs[0].links} <= {s.context.span_id for s in settled}
    assert [s.attributes["headgate.uri"] for s in ours if s.error] == ["test://o/13"]


async def test_without_a_collector_nothing_is_made(world: World) -> None:
    """Off is off: no span, no context in the ledger, and a sender's own is handed to handlers."""
    p = world.pipeline()
    seen: list[str | None] = []

    @p.transform
    def handle(obj: hg.Object, run: hg.Run) -> None:
        seen.append(run.trace)

    own = trace.carried(change("b", b"1"), trace.read(SENDER))
    await world.receive(p, change("a", b"1"), own)
    await world.run(p)
    kept = [json.loads(doc).get("trace") for (doc,) in await documents(world)]
    assert sorted(map(str, kept)) == sorted([SENDER, "None"])
    assert sorted(map(str, seen)) == sorted([SENDER, "None"])
    assert not trace.tracing()


async def documents(world: World) -> list[tuple[str]]:
    return await world.rows("SELECT convert_from(envelope, 'UTF8') FROM headgate.entry")


async def test_a_collector_that_is_away_costs_nothing_but_its_spans(world: World) -> None:
    """Nobody listens at the address: everything is done, and what was dropped is counted."""
    file = world.folder / "counting.py"
    file.write_text(COUNTING.format(store=str(world.lake), incoming=str(world.incoming)))
    for n in range(20):
        world.put(f"{n}.json", f'{{"id": {n}}}')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and never listening: every connection is refused
        heard: dict[str, float] = {}
        stop = signal.listen(lambda s, value, _: heard.update({s.name: value}))
        began = time.monotonic()
        try:
            await world.up(file, otlp_endpoint=f"http://127.0.0.1:{taken.getsockname()[1]}")
        finally:
            stop()
    assert await world.outcomes() == {"finalized": 20}
    assert time.monotonic() - began < 30
    assert heard.get("headgate_telemetry_dropped_total", 0) > 0


def test_a_message_brings_its_context_in_w3cs_words_or_in_those_of_aws() -> None:
    """`traceparent` beside the message counts; without it, X-Ray's header does."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    body = json.dumps(notification("b", "k")).encode()
    source = hg.S3Events(queue="https://sqs.eu-west-1.amazonaws.com/000000000001/q")
    xray = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"
    for attributes, expected in (
        ({"traceparent": SENDER, "tracestate": "v=1", "AWSTraceHeader": "Root=1-0-0"}, SENDER),
        ({"AWSTraceHeader": xray}, SENDER),
        ({"AWSTraceHeader": "Root=nonsense"}, None),
        ({"traceparent": SENDER.replace("4bf92f", "XXXXXX")}, None),
        ({}, None),
    ):
        (envelope,) = read(source, Delivery("m", body, "h", attributes=attributes), now)
        assert isinstance(envelope, hg.Envelope)
        assert envelope.trace == expected
        assert envelope.metadata.get("tracestate") == (
            "v=1" if "tracestate" in attributes else None
        )
    wrapped = {
        "Type": "Notification",
        "TopicArn": "arn:aws:sns:x:1:t",
        "Message": body.decode(),
        "MessageAttributes": {"traceparent": {"Type": "String", "Value": SENDER}},
    }
    (envelope,) = read(source, Delivery("m", json.dumps(wrapped).encode(), "h"), now)
    assert isinstance(envelope, hg.Envelope)
    assert envelope.trace == SENDER


def test_what_is_told_again_under_another_trace_is_the_same_change() -> None:
    """A redelivery has another context, and is a duplicate all the same."""
    from headgate.model.identity import change_key, fingerprint

    first = change("a", b"1", event="e")
    again = trace.carried(first, trace.read(SENDER))
    assert change_key(first) == change_key(again)
    assert fingerprint(first) == fingerprint(again)
    assert msgspec.structs.replace(again, trace=None, metadata={}) == first


async def test_a_queue_hands_on_the_context_of_its_messages(world: World, aws: Aws) -> None:
    """Through a real queue: the message's attribute is the trace of its object, to the commit."""
    mail = Mail(aws, fifo=True, topic=False)  # S3 does not tell such a queue by itself
    p = world.pipeline(sources=[hg.S3Events(queue=mail.queue, name="rain-events")])

    @p.transform
    def handle(obj: hg.Object) -> None:
        pass

    mail.s3.put_object(Bucket=mail.bucket, Key="a.csv", Body=b"1")
    said = {"traceparent": {"DataType": "String", "StringValue": SENDER}}
    told = notification(mail.bucket, "a.csv")
    mail.send(told, MessageAttributes=said, MessageGroupId="g", MessageDeduplicationId="a")
    with spans() as heard:
        await world.run(p)
    stages = [s.name for s in sorted(heard, key=lambda s: s.began) if s.context.trace_id == TRACE]
    assert stages == ["drain rain-events", "receive rain-events", "process p", "settle p"]


async def test_a_call_and_a_poll_hand_on_their_context_too(world: World) -> None:
    """A webhook by its header; a web server by that of its answer, and it hears of ours."""
    key = whsec()
    hook = hg.Webhook(secrets=secret(key), preview="waived")
    orders = world.pipeline("orders", sources=[hook])
    orders.transform(lambda obj: None)
    with spans() as heard:
        app = await app_of(world.db, orders)
        headers = signed(key, b"{}", id="msg_1") | {"traceparent": SENDER, "tracestate": "v=1"}
        assert (await ask(app, "POST", "/hooks/orders", headers, b"{}")).status == 202
        await world.run(orders)
    ours = sorted((s for s in heard if s.context.trace_id == TRACE), key=lambda s: s.began)
    assert [s.name for s in ours] == [
        "POST /hooks/orders",
        "receive webhook",
        "process orders",
        "settle orders",
    ]
    assert {s.context.state for s in ours} == {"v=1"}

    async def answer(asked: Asked, writer: Any) -> None:
        say(writer, "200 OK", b"1", ETag='"1"', traceparent=SENDER)

    with spans() as heard, speaking(answer) as web:
        source = hg.Http(f"http://127.0.0.1:{web.port}/a", every=0.1, name="web")
        polled = world.pipeline("polled", sources=[source])
        polled.transform(lambda obj: None)
        await world.run(polled)
    (process,) = named(heard, "process polled")
    (scan,) = named(heard, "scan web")
    assert process.context.trace_id == TRACE
    assert web.asked[0].headers["traceparent"] == scan.context.parent

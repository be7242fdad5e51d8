"""Webhooks: a signed call counts once, and is durable before it is answered."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from typing import Any, TypedDict

import pytest
from tests.pg.proxy import proxy
from tests.server.doors import Answer, app_of, ask, github, secret, signed, whsec
from tests.world import World

import headgate as hg
from headgate.errors import ConfigError, PipelineError
from headgate.pg import Database

BODY = b'{"order": {"id": 7}, "total": 3}'
JSON = {"content-type": "application/json"}
_IDS = itertools.count(1)


def orders(world: World, key: str, **declared: Any) -> hg.Pipeline:
    source = hg.Webhook(**{"secrets": secret(key), "preview": "waived", **declared})
    return world.pipeline("orders", sources=[source])


class Sender:
    """Signs and sends, each time with an id of its own."""

    def __init__(self, app: Any, key: str) -> None:
        self.app, self.key = app, key

    async def send(self, body: bytes = BODY, query: str = "", **how: Any) -> Answer:
        how.setdefault("id", f"msg_{next(_IDS)}")
        headers = signed(self.key, body, **how) | JSON
        return await ask(self.app, "POST", f"/hooks/orders{query}", headers, body)

    async def look(self, body: bytes = BODY) -> Answer:
        return await self.send(body, "?dry_run=true", id=f"dry_{next(_IDS)}")


async def sender(world: World, **declared: Any) -> tuple[hg.Pipeline, Sender]:
    key = whsec()
    p = orders(world, key, **declared)
    return p, Sender(await app_of(world.db, p), key)


async def test_a_signed_call_becomes_one_object(world: World) -> None:
    """The body is the object: its handlers see the bytes as they were sent."""
    p, by = await sender(world, uri="orders/{order.id}")
    seen: list[bytes] = []
    p.transform(lambda obj: seen.append(obj.read()))
    said = await by.send()
    assert (said.status, said.json["verdict"], said.json["uri"]) == (202, "admitted", "orders/7")
    await world.run(p)
    assert seen == [BODY]
    assert await world.outcomes() == {"finalized": 1}
    (told,) = await world.db.fetch("SELECT envelope::text, event_time FROM headgate.entry")
    document = bytes.fromhex(told["envelope"].removeprefix("\\x"))
    assert b'"provider":"webhook","detector":"webhook"' in document


async def test_a_used_id_is_answered_with_its_first_result(world: World) -> None:
    """409 tells the sender what became of the first call; there is one effect."""
    p, by = await sender(world)
    first = await by.send(id="msg_x")
    await world.run(p)
    again = await by.send(id="msg_x")
    assert (again.status, again.reason) == (409, "request_reused")
    assert again.headers["content-type"] == "application/problem+json"
    assert again.json["type"] == "urn:headgate:problem:request_reused"
    assert again.json["first"].items() >= first.json.items()
    assert again.json["first"]["now"]["status"] == "finalized"
    await world.run(p)
    assert await world.outcomes() == {"finalized": 1}
    assert await world.rows("SELECT id, reuses FROM headgate.request") == [("msg_x", 1)]


async def test_a_sender_that_retries_may_be_told_the_first_result_as_success(world: World) -> None:
    """`reuse="replay"`: 200, marked as a replay, and still one effect."""
    _, by = await sender(world, reuse="replay")
    first = await by.send(id="msg_x")
    again = await by.send(id="msg_x")
    assert (again.status, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.json.items() >= first.json.items()
    assert await world.count("headgate.entry") == 1


@pytest.mark.parametrize("reuse", ["refuse", "replay"])
async def test_the_same_id_with_other_bytes_is_a_conflict(world: World, reuse: str) -> None:
    """Refused and recorded, whatever the sender may replay; also when the uri would differ."""
    _, by = await sender(world, uri="orders/{order.id}", reuse=reuse)
    await by.send(id="msg_x")
    other = await by.send(BODY.replace(b"7", b"8"), id="msg_x")
    assert (other.status, other.reason) == (409, "request_conflict")
    assert await world.count("headgate.entry") == 1
    payload = hashlib.sha256(BODY.replace(b"7", b"8")).digest()
    assert await world.rows("SELECT id, payload, times FROM headgate.request_conflict") == [
        ("msg_x", payload, 1)
    ]


async def test_of_many_calls_with_one_id_at_once_one_counts(world: World) -> None:
    """A race is no way around single use."""
    _, by = await sender(world)
    said = await asyncio.gather(*(by.send(id="msg_x") for _ in range(8)))
    assert sorted(a.status for a in said) == [202] + [409] * 7
    assert await world.count("headgate.entry") == 1


async def test_githubs_scheme_counts_the_same_body_once(world: World) -> None:
    """The delivery's id is not signed: a captured body under another id is the same request."""
    key = "a secret of sixteen or more"
    p = orders(world, key, scheme="github")
    app = await app_of(world.db, p)
    said = [
        await ask(app, "POST", "/hooks/orders", github(key, BODY, id=id), BODY)
        for id in ("one", "two", None)
    ]
    assert [a.status for a in said] == [202, 409, 409]
    assert said[1].json["first"]["request"] == "one"
    assert await world.count("headgate.entry") == 1


async def test_every_secret_of_a_rotation_is_good_and_the_one_that_fitted_is_named(
    world: World,
) -> None:
    """Old and new senders pass side by side; once a secret is taken out, it is out."""
    old, new = whsec(), whsec()
    p = orders(world, "", secrets={"old": secret(old), "new": secret(new)})
    app = await app_of(world.db, p)
    for id, key in (("msg_1", old), ("msg_2", new)):
        assert (await Sender(app, key).send(id=id)).status == 202
    both = {**signed(old, BODY, id="msg_3")}
    both["webhook-signature"] += " " + signed(new, BODY, id="msg_3")["webhook-signature"]
    assert (await ask(app, "POST", "/hooks/orders", both, BODY)).status == 202
    assert await world.rows("SELECT id, key_id FROM headgate.request ORDER BY id") == [
        ("msg_1", "old"), ("msg_2", "new"), ("msg_3", "old"),
    ]  # fmt: skip
    app = await app_of(world.db, orders(world, "", secrets={"new": secret(new)}))
    assert (await Sender(app, old).send()).reason == "signature_wrong"


async def test_what_is_stored_of_a_call(world: World) -> None:
    """Scheme, key id, verdict, hashes, actor and reason; the signature is nowhere."""
    key = whsec()
    app = await app_of(world.db, orders(world, key))
    headers = signed(key, BODY, id="msg_x")
    said = {"headgate-actor": "clerk", "headgate-reason": "price was wrong"}
    await ask(app, "POST", "/hooks/orders", headers | said, BODY)
    (row,) = await world.db.fetch("SELECT * FROM headgate.request")
    assert (row["scheme"], row["key_id"], row["verdict"]) == ("standard", "default", "admitted")
    assert (row["actor"], row["because"]) == ("clerk", "price was wrong")
    assert row["payload"] == hashlib.sha256(BODY).digest()
    signature = headers["webhook-signature"].removeprefix("v1,")
    for table in ("request", "entry", "tally", "deployment"):
        dump = str(await world.db.fetch(f"SELECT t::text FROM headgate.{table} t"))
        assert signature not in dump
        assert signature.encode().hex() not in dump
        assert key not in dump


async def test_a_call_that_changes_something_cites_the_preview_it_saw(world: World) -> None:
    """Without it: 428. With it: the change that was shown, once."""
    p, by = await sender(world, uri="orders/{order.id}", preview="required")
    refused = await by.send()
    assert (refused.status, refused.reason) == (428, "preview_required")
    shown = await by.look()
    assert (shown.status, shown.json["preview"]["action"]) == (200, "create")
    assert await world.count("headgate.entry") == 0
    cited = f"?preview_digest={shown.json['preview_digest']}"
    assert (await by.send(BODY + b" ", cited)).reason == "preview_of_other"
    assert (await by.send(BODY, f"?preview_digest=sha256:{'0' * 64}")).reason == "preview_unknown"
    assert (await by.send(BODY, cited)).status == 202
    assert (await by.send(BODY, cited)).reason == "preview_used"
    await world.run(p)
    assert await world.outcomes() == {"finalized": 1}


async def test_a_preview_shows_what_would_change(world: World) -> None:
    """By path, beside what the validators say, and without secrets."""
    p, by = await sender(world, uri="orders/{order.id}")

    @p.validate
    def cheap(obj: hg.Object) -> None:
        if obj.json()["total"] > 4:
            raise hg.Permanent("too dear")

    await by.send(b'{"order": {"id": 7}, "total": 3, "password": "old"}')
    await world.run(p)
    shown = await by.look(b'{"order": {"id": 7}, "total": 5, "password": "new"}')
    preview = shown.json["preview"]
    assert (preview["action"], preview["current"]["version"]) == ("replace", 1)
    assert preview["changes"] == [
        {"at": "/password", "was": "***", "is": "***"},
        {"at": "/total", "was": "3", "is": "5"},
    ]
    assert [(c["ok"], c["error"]) for c in preview["checks"]] == [(False, "too dear")]
    same = await by.look(b'{"order": {"id": 7}, "total": 3, "password": "old"}')
    assert (same.json["preview"]["action"], same.json["preview"]["changes"]) == ("unchanged", [])


class Line(TypedDict):
    sku: str
    pieces: int
    card_token: str | None


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_preview_shows_which_rows_would_change(world: World, kind: str) -> None:
    """Added, replaced and removed, by key, without secrets; foreign calls are not made."""
    p, by = await sender(world, uri="orders/{order.id}")
    called: list[int] = []

    def lines(obj: hg.Object, run: hg.Run) -> Any:
        if obj.json().get("call"):
            run.call("charge", lambda: called.append(1))
        yield from obj.json()["lines"]

    async def lines_async(obj: hg.Object, run: hg.Run) -> Any:
        for line in lines(obj, run):
            yield line

    handler = lines if kind == "plain" else lines_async
    p.rows("order_line", key="sku", schema=Line)(handler)

    def order(*skus: str, pieces: int = 1, **more: Any) -> bytes:
        made = [{"sku": s, "pieces": pieces, "card_token": "x" * 20} for s in skus]
        return json.dumps({"order": {"id": 7}, "lines": made, **more}).encode()

    await by.send(order("a", "b"))
    await world.run(p)
    shown = (await by.look(order("b", "c", pieces=2))).json["preview"]["rows"]
    masked = {"pieces": 2, "card_token": "***"}
    assert shown == [
        {
            "table": "order_line",
            "add": 1,
            "replace": 1,
            "remove": 1,
            "first": [
                {"remove": {"sku": "a", "pieces": 1, "card_token": "***"}},
                {"replace": {"sku": "b", **masked}},
                {"add": {"sku": "c", **masked}},
            ],
        }
    ]
    refused = (await by.look(order("c", call=True))).json["preview"]["rows"]
    assert "a preview does nothing outside" in refused[0]["error"]
    assert called == []


async def test_a_preview_that_is_no_longer_true_cannot_be_cited(world: World) -> None:
    """Somebody else changed the object in between: look again."""
    p, by = await sender(world, uri="orders/{order.id}")
    shown = await by.look()
    await by.send(b'{"order": {"id": 7}, "total": 4}')
    await world.run(p)
    said = await by.send(BODY, f"?preview_digest={shown.json['preview_digest']}")
    assert (said.status, said.reason) == (409, "preview_stale")
    assert await world.count("headgate.entry") == 1
    assert await world.count("headgate.request WHERE verdict = 'admitted'") == 1


async def test_a_dry_run_cannot_be_turned_into_the_real_thing(world: World) -> None:
    """The address is not signed, the id is: both have to say it."""
    key = whsec()
    p = orders(world, key)
    app = await app_of(world.db, p)
    dry = signed(key, BODY, id="dry_1")
    assert (await ask(app, "POST", "/hooks/orders", dry, BODY)).reason == "dry_run_unsigned"
    wet = signed(key, BODY, id="msg_1")
    said = await ask(app, "POST", "/hooks/orders?dry_run=true", wet, BODY)
    assert (said.status, said.reason) == (400, "dry_run_unsigned")
    assert await world.count("headgate.entry") == await world.count("headgate.request") == 0


HOSTILE = {
    "duplicate_key": b'{"a": 1, "a": 2}',
    "not_a_number": b'{"a": NaN}',
    "float_too_large": b'{"a": 1e400}',
    "integer_too_large": b'{"a": ' + b"9" * 5000 + b"}",
    "too_deep": b"[" * 65 + b"]" * 65,
    "lone_surrogate": b'{"a": "\\ud800"}',
    "nul": b'{"a": "\\u0000"}',
    "not_json": b'{"a": ',
}


async def test_hostile_json_is_refused_with_its_reason(world: World) -> None:
    """It never reaches a handler; its bytes are in quarantine, once."""
    _, by = await sender(world)
    for reason, body in HOSTILE.items():
        said = await by.send(body)
        assert (said.status, said.reason, said.json["code"]) == (400, "body_refused", reason)
    assert [(c, r) for c, r, _ in await world.quarantined()] == [("schema", r) for r in HOSTILE]
    assert await world.count("headgate.work") == 0


async def test_a_body_over_the_limit_is_not_read_to_its_end(world: World) -> None:
    """Neither when it says so nor when it does not."""
    _, by = await sender(world)
    said = await ask(by.app, "POST", "/hooks/orders", {"content-length": "9999999"}, b"x")
    assert (said.status, said.reason) == (413, "body_too_large")
    taken = 0

    def endless() -> Any:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield b"x" * 1024

    said = await ask(by.app, "POST", "/hooks/orders", {}, endless())
    assert said.status == 413
    assert taken <= 66


async def test_a_key_that_calls_too_often_is_told_when_to_come_back(world: World) -> None:
    """Its neighbour is not held up."""
    noisy, quiet = whsec(), whsec()
    p = orders(world, "", secrets={"noisy": secret(noisy), "quiet": secret(quiet)})
    app = await app_of(world.db, p, rate=1)
    said = [await Sender(app, noisy).send() for _ in range(4)]
    assert [a.status for a in said] == [202, 202, 429, 429]
    assert said[-1].headers["retry-after"] == "1"
    assert (await Sender(app, quiet).send()).status == 202


async def test_while_the_ledger_is_away_nothing_is_acknowledged(world: World) -> None:
    """503 and Retry-After; the sender's next try is the first one that counts."""
    key = whsec()
    headers = signed(key, BODY, id="msg_x")
    async with (
        proxy(world.url) as between,
        await Database.open(between.url, max_size=2) as db,
    ):
        app = await app_of(db, orders(world, key))
        there, between.target = between.target, "/nowhere"
        await world.db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        said = await ask(app, "POST", "/hooks/orders", headers, BODY)
        assert (said.status, said.reason) == (503, "ledger_unavailable")
        assert int(said.headers["retry-after"]) > 0
        between.target = there
        await world.close()
        await world.open()
        assert await world.count("headgate.entry") == 0
        assert (await ask(app, "POST", "/hooks/orders", headers, BODY)).status == 202


async def test_a_lost_reply_to_the_commit_is_found_out(world: World) -> None:
    """The sender is told what is so: it was admitted, once."""
    key = whsec()
    async with (
        proxy(world.url) as between,
        await Database.open(between.url, max_size=2) as db,
    ):
        app = await app_of(db, orders(world, key))
        between.fault = "lose_reply"
        said = await ask(app, "POST", "/hooks/orders", signed(key, BODY, id="msg_x"), BODY)
        assert (said.status, between.fault) == (202, None)
    assert await world.count("headgate.entry") == 1


@pytest.mark.parametrize(
    ("declared", "hint"),
    [
        ({"scheme": "github"}, "waived"),
        ({"scheme": "md5"}, "standard"),
        ({"preview": "maybe"}, "waived"),
        ({"reuse": "yes"}, "replay"),
        ({"uri": "orders/{}"}, "braces"),
        ({"secrets": {}}, "hg.env"),
        ({"secrets": {"no spaces": secret("x")}}, "letters"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_declared(declared: Any, hint: str) -> None:
    """With the right way in the message."""
    with pytest.raises(PipelineError) as told:
        hg.Webhook(**{"secrets": secret(whsec()), **declared})
    assert hint in told.value.hint


@pytest.mark.parametrize(
    "weak", ["whsec_", "whsec_YQ==", "password", "whsec_!!!!", "whsec_" + "a" * 200]
)
def test_a_secret_that_protects_nothing_is_refused(weak: str) -> None:
    """An empty or guessable key would let anyone sign."""
    with pytest.raises(ConfigError, match="secret"):
        hg.Webhook(secrets=secret(weak)).check()
    with pytest.raises(ConfigError, match="fewer"):
        hg.Webhook(secrets=secret("short"), scheme="github", preview="waived").check()
    with pytest.raises(ConfigError, match="written into the code"):
        hg.Webhook(secrets="whsec_plain")  # pyright: ignore[reportArgumentType]

"""Actions: what people decide over the API. Once per key, with a reason, by whom it was."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from tests.console.visit import hidden, visitor
from tests.server.doors import Answer, app_of, ask
from tests.world import World, change, until

import headgate as hg
from headgate.ledger import token as tokens
from headgate.model import crash
from headgate.model.entry import Point
from headgate.model.role import Principal
from headgate.runtime.load import load
from headgate.server.actions import ACTIONS, act
from headgate.server.actions.routes import PLACES
from headgate.server.problem import Refusal

OPERATOR = Principal("olga", "operator", None, "token", "olga", None)
STEWARD = Principal("stefan", "steward", None, "token", "stefan", None)
WHY = "repaired upstream"


async def aside(world: World, *names: str, pipeline: str = "p") -> hg.Pipeline:
    """A pipeline that sets aside whatever comes."""
    p = world.pipeline(pipeline)

    @p.validate
    def refuse(obj: hg.Object) -> None:
        raise hg.Permanent("nothing passes today", reason="broken")

    await world.receive(p, *(change(name, name) for name in names))
    await world.run(p)
    return p


async def published(world: World, *versions: str, pipeline: str = "p") -> hg.Pipeline:
    p = world.pipeline(pipeline)

    @p.transform
    def keep(obj: hg.Object) -> Any:
        return {"copy": obj.read()}

    for minute, data in enumerate(versions):
        await world.receive(p, change("a", data, minute=minute))
        await world.run(p)
    return p


async def token(world: World, role: str, **limits: Any) -> dict[str, str]:
    made = await tokens.make(world.db, role, role, 60, **limits)
    return {"authorization": f"Bearer {made.token}"}


async def post(app: FastAPI, path: str, who: dict[str, str], said: Any, **headers: str) -> Answer:
    sent = {**who, **{k.replace("_", "-"): v for k, v in headers.items()}}
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return await ask(app, "POST", path, sent, body)


async def done(world: World) -> list[tuple[Any, ...]]:
    """What the ledger says that people did."""
    return await world.rows("SELECT actor, verb, entry, because FROM headgate.action ORDER BY id")


def test_every_action_has_its_address() -> None:
    """What the console can do, a program can."""
    assert set(PLACES) == set(ACTIONS)


async def test_what_is_decided_is_done_and_kept_with_who_and_why(world: World) -> None:
    """Release, discard and taking that back: as on the command line, by the holder of the token."""
    await aside(world, "a", "b", "c")
    app = await app_of(world.db)
    who = await token(world, "operator")
    release = {"entries": [1], "because": WHY}
    looked = await post(app, "/v1/quarantine/release", who, {**release, "dry_run": True})
    assert (looked.status, looked.json) == (200, {"dry_run": True, "entries": [1]})
    assert await done(world) == []
    assert (await post(app, "/v1/quarantine/release", who, release)).json["entries"] == [1]
    discard = {"entries": [3, 2], "because": "  test\n files "}
    assert (await post(app, "/v1/quarantine/discard", who, discard)).json["entries"] == [2, 3]
    back = {"entries": [3], "because": "it was none"}
    assert (await post(app, "/v1/quarantine/undiscard", who, back)).status == 200
    assert await done(world) == [
        ("operator", "release", 1, WHY),
        ("operator", "discard", 2, "test files"),
        ("operator", "discard", 3, "test files"),
        ("operator", "undiscard", 3, "it was none"),
    ]
    missing = await post(app, "/v1/quarantine/release", who, {"entries": [3, 2], "because": WHY})
    assert (missing.status, missing.reason) == (409, "not_there")
    assert len(await done(world)) == 4
    assert await world.count("headgate.quarantine") == 1


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"entries": [1]}, "reason_needed"),
        ({"entries": [1], "because": " \n "}, "reason_needed"),
        ({"entries": [1], "because": 7}, "bad_request"),
        ({"entries": [1], "because": "a\0b"}, "bad_request"),
        ({"entries": [1], "because": "x" * 1001}, "bad_request"),
        ({"entries": [], "because": WHY}, "bad_request"),
        ({"entries": [0], "because": WHY}, "bad_request"),
        ({"entries": [2**63], "because": WHY}, "bad_request"),
        ({"entries": [1], "because": WHY, "all": True}, "bad_request"),
        ({"entries": [1], "because": WHY, "dry_run": "yes"}, "bad_request"),
        ({"entries": [99], "because": WHY}, "unknown_entry"),
        ([], "bad_request"),
        (b"{", "bad_request"),
        (b"x" * 70_000, "body_too_large"),
    ],
)
async def test_what_is_asked_wrongly_changes_nothing(world: World, said: Any, reason: str) -> None:
    """Each is refused with a problem document and a hint."""
    await aside(world, "a")
    app = await app_of(world.db)
    answer = await post(app, "/v1/quarantine/release", await token(world, "operator"), said)
    assert answer.reason == reason
    assert answer.json["hint"]
    assert await done(world) == []


async def test_a_key_is_answered_again_and_done_once(world: World) -> None:
    """The same request gets the same bytes; another one under that key is a conflict."""
    await aside(world, "a", "b")
    app = await app_of(world.db)
    who = await token(world, "operator")
    said = {"entries": [1], "because": WHY}
    first = await post(app, "/v1/quarantine/release", who, said, idempotency_key="k1")
    again = await post(app, "/v1/quarantine/release", who, said, idempotency_key="k1")
    assert first.status == again.status == 200
    assert first.body == again.body
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    for path, other in (
        ("/v1/quarantine/release", {"entries": [2], "because": WHY}),
        ("/v1/quarantine/release", {"entries": [1], "because": "another reason"}),
        ("/v1/quarantine/discard", said),
    ):
        answer = await post(app, path, who, other, idempotency_key="k1")
        assert (answer.status, answer.reason) == (409, "key_reused")
    assert len(await done(world)) == 1
    # Somebody else's key is another key.
    other = await token(world, "steward")
    answer = await post(
        app, "/v1/quarantine/discard", other, {**said, "entries": [2]}, idempotency_key="k1"
    )
    assert answer.status == 200
    bad = [("idempotency-key", "a"), ("idempotency-key", "b"), *who.items()]
    twice = await ask(app, "POST", "/v1/quarantine/release", bad, json.dumps(said).encode())
    assert twice.reason == "bad_request"


async def test_a_key_that_races_itself_is_done_once(world: World) -> None:
    """Eight at once: one does it, seven wait and get its answer."""
    await aside(world, *"abc")
    app = await app_of(world.db)
    who = await token(world, "operator")
    said = {"reason": "broken", "because": WHY}
    got = await asyncio.gather(
        *(post(app, "/v1/redrives", who, said, idempotency_key="k") for _ in range(8))
    )
    assert {answer.status for answer in got} == {200}
    assert len({answer.body for answer in got}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in got) == 7
    assert await world.count("headgate.redrive") == 1


async def test_a_refusal_uses_no_key_up(world: World) -> None:
    """What could not be done yet can be done later under the same key."""
    app = await app_of(world.db)
    who = await token(world, "operator")
    said = {"reason": "broken", "because": WHY}
    refused = await post(app, "/v1/redrives", who, said, idempotency_key="k")
    assert (refused.status, refused.reason) == (409, "action_refused")
    assert "headgate quarantine summary" in refused.json["hint"]
    await aside(world, "a")
    assert (await post(app, "/v1/redrives", who, said, idempotency_key="k")).status == 200


class Dies(BaseException):
    """Nobody catches it: as good as a killed process."""


async def test_a_crash_before_the_commit_leaves_nothing_and_after_it_everything(
    world: World,
) -> None:
    """The process dies with the action done and not committed; then with the answer not sent."""
    await aside(world, "a")
    app = await app_of(world.db)
    who = await token(world, "operator")
    said = {"entries": [1], "because": WHY}

    def die() -> None:
        raise Dies

    crash.arm(Point.BEFORE_RELEASE, die)
    with pytest.raises(Dies):
        await post(app, "/v1/quarantine/release", who, said, idempotency_key="k")
    crash.disarm()
    assert await done(world) == []
    assert await world.count("headgate.action_key") == 0

    serving = app.state.serving
    by = Principal("operator", "operator", None, "token", "x", None)
    first = await act(serving, by, "release", {"entries": [1]}, because=WHY, request_key="k")
    # Its answer is lost with the process; the next one has the same ledger and nothing else.
    other = (await app_of(world.db)).state.serving
    again = await act(other, by, "release", {"entries": [1]}, because=WHY, request_key="k")
    assert (first.again, again.again) == (False, True)
    assert first.answer == again.answer
    assert len(await done(world)) == 1


async def test_what_the_key_kept_commits_with_the_action_or_not_at_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the answer cannot be kept, nothing was done either."""
    await aside(world, "a")
    serving = (await app_of(world.db)).state.serving

    async def fail(*_: object) -> None:
        raise Dies

    monkeypatch.setattr("headgate.ledger.action_key.keep", fail)
    with pytest.raises(Dies):
        await act(serving, OPERATOR, "release", {"entries": [1]}, because=WHY, request_key="k")
    assert await done(world) == []
    assert await world.count("headgate.quarantine") == 1


async def test_who_is_limited_to_pipelines_decides_there_alone(world: World) -> None:
    """By entry, by plan, by number of a plan: whatever names another pipeline is refused."""
    await aside(world, "a")
    await aside(world, "b", pipeline="q")
    app = await app_of(world.db)
    everyone = await token(world, "admin")
    theirs = await token(world, "admin", pipelines=["p"])
    plan = {"pipeline": "q", "because": WHY}
    assert (await post(app, "/v1/redrives", everyone, plan)).status == 200
    for path, said in (
        ("/v1/quarantine/release", {"entries": [1, 2]}),
        ("/v1/quarantine/discard", {"entries": [2]}),
        ("/v1/redrives", {"pipeline": "q"}),
        ("/v1/redrives", {"reason": "broken"}),
        ("/v1/redrives/1/stop", {}),
        ("/v1/entries/2/reset", {}),
        ("/v1/publications/2/revert", {}),
        ("/v1/pipelines/q/budget", {}),
        ("/v1/replays", {"pipeline": "q", "mode": "verify"}),
    ):
        answer = await post(app, path, theirs, {**said, "because": WHY})
        assert (answer.status, answer.reason) == (403, "pipeline_not_theirs"), path
    own = {"entries": [1], "because": WHY}
    assert (await post(app, "/v1/quarantine/release", theirs, own)).status == 200


async def test_a_redrive_is_planned_paused_and_stopped(world: World) -> None:
    """As on the command line, and each decision is on the record."""
    await aside(world, *"abcdef")
    app = await app_of(world.db)
    who = await token(world, "operator")
    plan = {"class": "schema", "reason": "broken", "canary": 2, "rate": "5/s"}
    shown = await post(app, "/v1/redrives", who, {**plan, "dry_run": True})
    assert (shown.json["entries"], len(shown.json["first"])) == (6, 2)
    made = await post(app, "/v1/redrives", who, {**plan, "because": WHY})
    number = made.json["redrive"]
    for verb, state in (("pause", "paused"), ("resume", "planned"), ("stop", "stopped")):
        said = await post(app, f"/v1/redrives/{number}/{verb}", who, {"because": WHY})
        assert said.json["state"] == state
    again = await post(app, f"/v1/redrives/{number}/stop", who, {"because": WHY})
    assert again.reason == "action_refused"
    assert (
        await post(app, "/v1/redrives/99/stop", who, {"because": WHY})
    ).reason == "unknown_redrive"
    assert (await post(app, "/v1/redrives", who, {"rate": "fast", "because": WHY})).status == 409
    assert [verb for _, verb, _, _ in await done(world)] == [
        f"plan redrive {number}", f"pause redrive {number}", f"resume redrive {number}",
        f"stop redrive {number}",
    ]  # fmt: skip


async def test_a_steward_takes_back_and_an_operator_does_not(world: World) -> None:
    """The preview says what readers would see; a worker then does it."""
    p = await published(world, "one", "two")
    app = await app_of(world.db, p)
    low, high = await token(world, "operator"), await token(world, "steward")
    path = "/v1/publications/2/revert"
    assert (await post(app, path, low, {"because": WHY})).reason == "role_needed"
    shown = await post(app, path, high, {"dry_run": True})
    assert (shown.json["reverts"], shown.json["restores"]) == (2, 1)
    assert shown.json["delta"]
    made = await post(app, path, high, {"because": WHY}, idempotency_key="k")
    assert made.json["entry"] == 3
    assert (await post(app, path, high, {"because": WHY})).reason == "action_refused"
    assert (await post(app, path, high, {"because": WHY}, idempotency_key="k")).json["entry"] == 3
    await world.run(p)
    assert [version for version, _ in (await world.heads()).values()] == [3]
    assert (await post(app, "/v1/publications/9/revert", high, {"because": WHY})).reason == (
        "unknown_publication"
    )


async def test_a_key_is_reset(world: World) -> None:
    """A finalized entry runs again as an entry of its own."""
    p = await published(world, "one")
    app = await app_of(world.db, p)
    who = await token(world, "operator")
    shown = await post(app, "/v1/entries/1/reset", who, {"dry_run": True})
    assert shown.json == {"dry_run": True, "entry": 1, "how": "run again"}
    assert (await post(app, "/v1/entries/1/reset", who, {"because": WHY})).json["runs"] == 2
    assert await done(world) == [("operator", "reset", 2, WHY)]


async def test_a_budget_is_overridden(world: World) -> None:
    """Only one that is spent, of a pipeline that there is."""
    await aside(world, "a")
    app = await app_of(world.db)
    who = await token(world, "operator")
    fine = await post(app, "/v1/pipelines/p/budget", who, {"because": WHY})
    assert fine.reason == "action_refused"
    none = await post(app, "/v1/pipelines/none/budget", who, {"because": WHY})
    assert none.reason == "no_such_pipeline"


PIPELINE = """
import headgate as hg

rain = hg.Pipeline("rain", store={store!r})

@rain.transform
def keep(obj, run):
    return {{"copy": obj.read() + b"{mark}"}}
"""


async def test_a_replay_is_verified_in_the_background_and_published_by_stewards(
    world: World,
) -> None:
    """What this server has not loaded, or not as it is now, it does not run again."""
    file = Path(world.folder / "rain_api.py")
    file.write_text(PIPELINE.format(store=str(world.lake), mark=""))
    (rain,) = cast("list[hg.Pipeline]", load(str(file)))
    await world.receive(rain, change("a", "1"), change("b", "2"))
    await world.run(rain)
    app = await app_of(world.db, rain)
    low, high = await token(world, "operator"), await token(world, "steward")
    said = {"pipeline": "rain", "mode": "verify", "because": WHY}
    shown = await post(app, "/v1/replays", low, {**said, "dry_run": True})
    assert (shown.json["inputs"], shown.json["replay"]) == (2, None)
    begun = await post(app, "/v1/replays", low, said)
    number = begun.json["replay"]

    async def verified() -> bool:
        return await world.val(
            "SELECT state <> 'running' FROM headgate.replay WHERE id = $1", number
        )

    await until(verified, seconds=30)
    report = json.loads(await world.val("SELECT report::text FROM headgate.replay"))
    assert (report["same"], report["diverged"]) == (2, 0)
    stopped = await post(app, f"/v1/replays/{number}/stop", low, {"because": WHY})
    assert stopped.reason == "action_refused"

    publish = {**said, "mode": "publish"}
    assert (await post(app, "/v1/replays", low, publish)).reason == "role_needed"
    made = await post(app, "/v1/replays", high, publish)
    assert made.json["inputs"] == 2
    stopped = await post(app, f"/v1/replays/{made.json['replay']}/stop", low, {"because": WHY})
    assert stopped.json["done"] == 0
    assert (
        await post(app, "/v1/replays/99/stop", low, {"because": WHY})
    ).reason == "unknown_replay"

    busy = {n: asyncio.create_task(asyncio.sleep(60)) for n in range(100, 110)}
    app.state.serving.verifying.update(busy)
    assert (await post(app, "/v1/replays", low, said)).reason == "too_many_requests"
    await app.state.serving.close()
    assert all(task.cancelled() for task in busy.values())
    app.state.serving.verifying.clear()

    other = await post(app, "/v1/replays", low, {**said, "pipeline": "snow"})
    assert (other.status, other.reason) == (409, "not_loaded")
    file.write_text(PIPELINE.format(store=str(world.lake), mark="changed"))
    assert (await post(app, "/v1/replays", low, said)).reason == "not_loaded"


async def test_the_console_and_the_api_do_the_same(world: World) -> None:
    """`act` is told what a form says: text, and numbers as text."""
    await aside(world, "a")
    serving = (await app_of(world.db)).state.serving
    done_ = await act(serving, OPERATOR, "release", {"entries": ["1"]}, because=WHY)
    assert done_.answer == {"entries": [1]}
    assert await done(world) == [("olga", "release", 1, WHY)]
    with pytest.raises(Refusal) as refusal:
        await act(serving, OPERATOR, "revert", {"entry": "1"}, because=WHY)
    assert refusal.value.reason == "role_needed"
    with pytest.raises(Refusal) as refusal:
        await act(serving, STEWARD, "sudo", {}, because=WHY)
    assert refusal.value.reason == "not_found"


async def test_a_form_that_is_sent_twice_is_done_once(world: World) -> None:
    """Both say that it was done; from a page that is opened anew it is asked for anew."""
    p = await published(world, "one", "two")
    app = await app_of(world.db, p)
    steward = await visitor(app, world.db, "steward")
    heard: list[list[str]] = []
    for _ in range(2):
        page = await steward.page("/replays")
        said = {"csrf": hidden(page, "csrf"), "key": hidden(page, "key"), "because": WHY}
        for _ in range(2):
            answer = await steward.post("/console/actions/reset", {**said, "entry": "2"})
            cookie = answer.headers["set-cookie"].split("headgate_said=")[1].partition(";")[0]
            heard.append(json.loads(base64.urlsafe_b64decode(cookie.strip('"'))))
    assert heard[0] == heard[1]
    assert [tone for _, tone, _ in heard] == ["good", "good", "bad", "bad"]
    assert await world.count("headgate.action") == 1


async def test_an_admin_makes_and_ends_tokens(world: World) -> None:
    """The secret is told once and kept nowhere; who is limited hands on no more than that."""
    app = await app_of(world.db)
    who = await token(world, "admin")
    said = {"name": "night shift", "role": "operator", "because": WHY}
    made = await post(app, "/v1/tokens", who, said, idempotency_key="k")
    secret = made.json["token"]
    theirs = {"authorization": f"Bearer {secret}"}
    assert (await post(app, "/v1/redrives/9/stop", theirs, {"because": WHY})).status == 404
    again = await post(app, "/v1/tokens", who, said, idempotency_key="k")
    assert (again.json["id"], again.json["token"]) == (made.json["id"], None)
    kept = await world.rows("SELECT a::text, k::text FROM headgate.action a, headgate.action_key k")
    assert secret not in str(kept)
    listed = await ask(app, "GET", "/v1/tokens", who)
    assert secret not in listed.body.decode()
    assert [(t["name"], t["role"]) for t in listed.json["tokens"]] == [
        ("admin", "admin"), ("night shift", "operator"),
    ]  # fmt: skip
    end = f"/v1/tokens/{made.json['id']}/revoke"
    assert (await post(app, end, who, {"because": "left"})).json["name"] == "night shift"
    assert (await post(app, end, who, {"because": "left"})).reason == "action_refused"
    assert (await post(app, "/v1/redrives/9/stop", theirs, {"because": WHY})).status == 401
    assert [(verb, because) for _, verb, _, because in await done(world)] == [
        ("make token night shift (operator)", WHY), ("end token night shift", "left"),
    ]  # fmt: skip


async def test_who_is_limited_to_pipelines_hands_on_no_more(world: World) -> None:
    """Nor sees or ends the tokens of others."""
    app = await app_of(world.db)
    everyone, theirs = await token(world, "admin"), await token(world, "admin", pipelines=["p"])
    own = {"name": "x", "role": "viewer", "because": WHY}
    assert (await post(app, "/v1/tokens", theirs, own)).json["pipelines"] == ["p"]
    more = {**own, "pipelines": ["p", "q"]}
    assert (await post(app, "/v1/tokens", theirs, more)).reason == "pipeline_not_theirs"
    big = (await post(app, "/v1/tokens", everyone, own)).json["id"]
    ended = await post(app, f"/v1/tokens/{big}/revoke", theirs, {"because": WHY})
    assert ended.reason == "unknown_token"
    seen = (await ask(app, "GET", "/v1/tokens", theirs)).json["tokens"]
    assert {tuple(t["pipelines"]) for t in seen} == {("p",)}
    for wrong in (
        {"role": "root"}, {"name": " "}, {"name": "a\nb"}, {"seconds": 0}, {"pipelines": []},
        {"name": "x" * 101}, {"seconds": 1e12},
    ):  # fmt: skip
        refused = await post(app, "/v1/tokens", everyone, {**own, **wrong})
        assert refused.status in (400, 409), wrong

"""The description of the API is true, and so is the page about it."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.conftest import House
from tests.server.doors import ask

from headgate.server import listen
from headgate.server.app import description
from headgate.server.limits import Buckets
from headgate.server.problem import PROBLEMS, Refusal

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = REFERENCE / "http.md"
PAGES = (PAGE, REFERENCE / "api.md")


def test_the_table_of_problems_is_the_one_of_the_code() -> None:
    """Whoever meets a reason finds it on the page, with its status; nothing else is listed."""
    listed = re.findall(r"^\| `(\w+)` \| (\d{3}) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted((name, str(kind.status)) for name, kind in PROBLEMS.items())


def test_every_route_is_on_a_page(house: House) -> None:
    """And no page names another."""
    text = "\n".join(page.read_text() for page in PAGES)
    said = set(re.findall(r"^### `(\w+) (/\S+)`", text, re.MULTILINE))
    routes = {
        (method.upper(), path)
        for path, methods in description(house.app)["paths"].items()
        for method in methods
    }
    assert said == routes


def test_every_answer_of_every_route_is_documented_with_its_problems(house: House) -> None:
    """OpenAPI names the reasons of each status, so that a client can be written from it."""
    for path, methods in description(house.app)["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert "application/problem+json" in answer["content"], (method, path, status)


@pytest.mark.parametrize("role", [None, "admin"])
def test_schemathesis_finds_nothing(house: House, role: str | None) -> None:
    """Whatever is sent, the answer is one that the description announces; no request fails.

    By nobody, for all of it; and under `/v1` by somebody who may do everything.
    """
    by = {} if role is None else {"authorization": f"Bearer {house.token(role, seconds=600)}"}
    listening = listen.bind("127.0.0.1", 0)
    stopping = asyncio.Event()
    ended = threading.Event()

    async def serve() -> None:
        await listen.serve(house.app, listening, stopping)
        ended.set()

    house.do(_begin(serve()))
    schema = schemathesis.openapi.from_dict(description(house.app))
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    quick = hypothesis.settings(max_examples=12, deadline=None, derandomize=True, database=None)
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.path == "/v1/changes/stream" or (by and not operation.path.startswith("/v1")):
            continue  # a stream has no end

        @quick
        @hypothesis.given(case=operation.as_strategy())
        def answers_as_described(case: schemathesis.Case) -> None:
            answer = case.call(base_url=listen.address(listening), headers=by)
            assert not by or answer.status_code != 401
            case.validate_response(answer, checks=checks)

        answers_as_described()
    house.do(_set(stopping))
    assert ended.wait(15)
    listening.close()


async def _begin(what: object) -> None:
    _running.add(asyncio.ensure_future(what))  # type: ignore[arg-type]


_running: set[object] = set()


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_a_bucket_fills_up_again_and_there_are_only_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand keys cost the memory of a few."""
    monkeypatch.setattr("headgate.server.limits.KEYS_AT_MOST", 3)
    now = 0.0
    buckets = Buckets(1.0, 2.0, clock=lambda: now)
    buckets.take("a")
    buckets.take("a")
    with pytest.raises(Refusal) as refusal:
        buckets.take("a")
    assert refusal.value.headers["Retry-After"] == "1"
    now = 1.0
    buckets.take("a")
    for key in "bcdefg":
        buckets.take(key)
    assert len(buckets._left) == 3


def test_nothing_that_goes_wrong_is_told_to_the_caller(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 is a problem document too, without the words of the error."""

    async def fail(*_: object) -> None:
        raise RuntimeError("the secret plan")

    monkeypatch.setattr("headgate.ledger.token.holder", fail)
    with pytest.raises(RuntimeError, match="plan"):  # the server logs it
        house.ask("GET", "/metrics", {"authorization": "Bearer x"})

    async def answered() -> bytes:
        try:
            return (await ask(house.app, "GET", "/metrics", {"authorization": "Bearer x"})).body
        except RuntimeError:
            return b""

    assert b"plan" not in house.do(answered())

"""A visitor without a browser: pages of the real application, asked in this process."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from urllib.parse import urlencode

from fastapi import FastAPI
from tests.server.doors import Answer, ask

from headgate.ledger import token as tokens
from headgate.model.role import Role
from headgate.pg import Database

BROWSER = {"accept": "text/html,application/xhtml+xml", "host": "localhost"}


class Visitor:
    """Somebody with a session, who gets pages and sends their forms."""

    def __init__(self, app: FastAPI, cookie: str) -> None:
        self.app = app
        self.cookie = cookie

    async def get(self, path: str, **headers: str) -> Answer:
        return await ask(self.app, "GET", path, {**BROWSER, "cookie": self.cookie, **headers})

    async def page(self, path: str) -> str:
        """The text of a page, as it was sent."""
        answer = await self.get(path)
        assert answer.status == 200, f"{path}: {answer.status} {answer.body[:300]!r}"
        return answer.body.decode()

    async def post(self, path: str, said: dict[str, str], **headers: str) -> Answer:
        sent = {
            **BROWSER,
            "cookie": self.cookie,
            "content-type": "application/x-www-form-urlencoded",
            "origin": "http://localhost",
            **headers,
        }
        return await ask(self.app, "POST", path, sent, urlencode(said).encode())


async def visitor(
    app: FastAPI, db: Database, role: Role = "steward", pipelines: Sequence[str] | None = None
) -> Visitor:
    """A session with this role."""
    made = await tokens.make(db, "night shift", role, 600, kind="session", pipelines=pipelines)
    return Visitor(app, f"headgate={made.token}")


def hidden(page: str, name: str) -> str:
    """The value of a hidden field of a page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, f"no field {name}"
    return html.unescape(found[1])


class Markup(HTMLParser):
    """A page as a browser reads it: what in it would run by itself."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.runs: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.runs += [f"{tag} {name}" for name in names if name == "style" or name.startswith("on")]
        self.runs += [f"{tag} {v}" for v in names.values() if (v or "").startswith("javascript:")]
        if tag in ("img", "iframe", "object", "embed", "base", "style"):
            self.runs.append(tag)
        if tag == "script" and not (names.get("src") or "").startswith("/console/static/"):
            self.runs.append(tag)

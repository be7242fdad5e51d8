"""A house with every kind of door, for hundreds of visitors: one application, on a loop of its own.

A visitor is a request. Nothing is shared with the tests but the requests and their answers.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests import scratch
from tests.server import keys
from tests.server.doors import Answer, Dark, Headers, app_of, ask

import headgate as hg
from headgate.ledger import token as tokens
from headgate.pg import Database

T = TypeVar("T")
_NUMBERS = itertools.count(1)


class House:
    """The application over all doors, and what its ledger holds."""

    def __init__(self, url: str, folder: Path) -> None:
        self.web = Dark(keys.pages())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.db = self.do(Database.open(url, max_size=4))
        pipelines = [
            hg.Pipeline(name, sources=[source], store=str(folder))
            for name, source in keys.sources().items()
        ]
        self.app = self.do(app_of(self.db, *pipelines, web=self.web, rate=1e6))

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    def ask(
        self,
        method: str,
        path: str,
        headers: Headers | dict[str, str] = (),
        body: bytes = b"",
        **how: Any,
    ) -> Answer:
        return self.do(ask(self.app, method, path, headers, body, **how))

    def token(self, role: str, *, seconds: float = 60, **limits: Any) -> str:
        return self.do(tokens.make(self.db, "test", role, seconds, **limits)).token

    def holds(self) -> tuple[int, int]:
        """Entries, and calls that were believed."""
        row = self.do(
            self.db.fetchrow(
                "SELECT (SELECT count(*) FROM headgate.entry) AS entries,"
                " (SELECT count(*) FROM headgate.request) AS requests"
            )
        )
        assert row is not None
        return row["entries"], row["requests"]

    def close(self) -> None:
        self.do(self.db.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@pytest.fixture(scope="module")
def house(worlds_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house for the tests of one module."""
    url = scratch.create(worlds_server, f"house_{next(_NUMBERS)}", "template_world")
    built = House(url, tmp_path_factory.mktemp("house"))
    yield built
    built.close()

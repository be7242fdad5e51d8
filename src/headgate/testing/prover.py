"""Proving pipelines from a test: the ground of the worlds, shared by all tests of a run.

with Prover() as prove:
    prove("rain.py", "samples/monday.csv", "samples/tuesday.csv")
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Collection
from concurrent.futures import Future
from pathlib import Path
from typing import Self

from headgate.runtime.loop import run
from headgate.runtime.prove import words
from headgate.runtime.prove.ground import Ground, ground
from headgate.runtime.prove.proof import Proof, Request
from headgate.runtime.prove.proof import prove as play_all


class Unproved(AssertionError):
    """Faults were found. The message is what `headgate prove` prints."""


class Prover:
    """Proves pipelines. The server is started by the first proof and ends with the block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ready: Future[tuple[asyncio.AbstractEventLoop, Ground, asyncio.Event]] = Future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(
        self,
        file: str | os.PathLike[str],
        *samples: str | os.PathLike[str],
        pipeline: str | None = None,
        setup: str | None = None,
        only: Collection[str] = (),
        skip: Collection[str] = (),
        ignore: Collection[str] = (),
        network: bool = False,
        patience_seconds: float = 60.0,
    ) -> Proof:
        """Prove it or raise `Unproved`. `setup` is SQL; `only` chooses among the worlds."""
        proof = self.proof(
            file,
            *samples,
            pipeline=pipeline,
            setup=setup,
            only=only,
            skip=skip,
            ignore=ignore,
            network=network,
            patience_seconds=patience_seconds,
        )
        if not proof.ok:
            raise Unproved(f"{Path(file).name}\n{words.said(proof)}")
        return proof

    def proof(
        self,
        file: str | os.PathLike[str],
        *samples: str | os.PathLike[str],
        pipeline: str | None = None,
        setup: str | None = None,
        only: Collection[str] = (),
        skip: Collection[str] = (),
        ignore: Collection[str] = (),
        network: bool = False,
        patience_seconds: float = 60.0,
    ) -> Proof:
        """What came of it, faults or not."""
        request = Request(
            file=Path(file).resolve(strict=True),
            samples=list(dict.fromkeys(Path(sample).resolve(strict=True) for sample in samples)),
            pipeline=pipeline,
            setup=setup,
            only=frozenset(only),
            skip=tuple(skip),
            ignore=tuple(ignore),
            network=network,
            patience_seconds=patience_seconds,
        )
        loop, made, _ = self._started()
        proving = asyncio.run_coroutine_threadsafe(play_all(made, request), loop)
        try:
            return proving.result()
        except BaseException:
            proving.cancel()  # an interrupted test does not leave its worlds running
            raise

    def close(self) -> None:
        """End the server and everything that was played on it."""
        if self._thread is None:
            return
        if self._ready.exception() is None:
            loop, _, over = self._ready.result()
            loop.call_soon_threadsafe(over.set)
        self._thread.join()

    def _started(self) -> tuple[asyncio.AbstractEventLoop, Ground, asyncio.Event]:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, name="prover", daemon=True)
                self._thread.start()
        return self._ready.result()

    def _live(self) -> None:
        async def live() -> None:
            over = asyncio.Event()
            async with ground() as made:
                self._ready.set_result((asyncio.get_running_loop(), made, over))
                await over.wait()

        try:
            run(live)
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

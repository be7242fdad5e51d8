"""The public `Pipeline`: a declaration that can also run itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headgate.model.pipeline import Pipeline as Declaration
from headgate.model.step import step_of

if TYPE_CHECKING:
    from headgate.sources.own import SourceFunction


class Pipeline(Declaration):
    """A declared pipeline. `headgate up FILE` runs it; so does `run()`, in notebooks and tests."""

    def source(
        self,
        *,
        every: str | float,
        name: str | None = None,
        complete: bool = False,
        shrink_limit: float = 0.5,
        owns: str | None = None,
        deadline: str | float = "10m",
    ) -> Callable[[Callable[[], Any]], SourceFunction]:
        """A source of your own: a function that yields an `hg.Change` for each object there is.

        What it does not yield stays as it was, unless `complete=True` says that it is gone then.
        """
        from headgate.sources.own import OwnSource, SourceFunction

        def decorate(function: Callable[[], Any]) -> SourceFunction:
            step = step_of(self.name, function, (), least=0, kind="source")

            def others() -> list[Any]:
                return [other for other in self.sources if other is not source]

            source = OwnSource(
                function,
                name=name or step.name.rpartition(".")[2],
                every=every,
                complete=complete,
                shrink_limit=shrink_limit,
                owns=owns,
                deadline=deadline,
                others=others,
            )
            self.add_source(source)
            return SourceFunction(function, source)

        return decorate

    def run(self, *, until_idle: bool = True, max_wait_seconds: float | None = None) -> None:
        """Watch, work and sweep in this process, also inside a running event loop.

        Returns when nothing is ready, held or due within `max_wait_seconds`.
        """
        from headgate.runtime import inline
        from headgate.runtime.ledger_home import connected
        from headgate.settings import Settings

        settings = Settings.load()
        tuning = settings.tuning()
        if max_wait_seconds is not None:
            tuning = replace(tuning, max_wait_seconds=max_wait_seconds)

        async def go() -> None:
            async with connected(settings.ledger()) as db:
                await inline.run(db, [self], tuning, until_idle=until_idle)

        _run_anywhere(go)


def _run_anywhere(go: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function to its end, whether or not a loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(go())
        return
    failure: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(go())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="headgate")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]

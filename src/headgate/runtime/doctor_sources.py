"""`headgate doctor FILE.py`: can the sources of these pipelines tell us anything?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from headgate.errors import HeadgateError
from headgate.model.check import Check
from headgate.model.contract import plan_for
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Source, Wired
from headgate.model.queue_plan import queue_plan


async def check_sources(
    pipelines: Sequence[Pipeline], deadline_seconds: float
) -> AsyncGenerator[Check]:
    """Each source of each pipeline; a queue is followed back to the bucket that fills it."""
    for pipeline in pipelines:
        for source in pipeline.sources:
            check = await asyncio.to_thread(_declared, pipeline, source)
            yield check
            if check.state != "fail" and isinstance(source, Wired):
                async for found in _wired(pipeline, source, deadline_seconds):
                    yield found


def _declared(pipeline: Pipeline, source: Source) -> Check:
    try:
        source.check()
    except HeadgateError as error:
        return Check("source", "fail", f"{pipeline.name}: {error}", error.hint)
    return Check("source", "ok", f"{pipeline.name}: {source.name}")


async def _wired(
    pipeline: Pipeline, source: Wired, deadline_seconds: float
) -> AsyncGenerator[Check]:
    from headgate.transports.look import look

    try:
        plan = queue_plan(
            plan_for(pipeline, source),
            ack=source.ack,
            deadline_seconds=pipeline.deadline_seconds or deadline_seconds,
        )
    except HeadgateError as error:
        yield Check("visibility", "fail", f"{pipeline.name}: {error}", error.hint)
        return
    async for check in look(source, plan):
        yield check

"""`hg.aws_lambda(pipeline)`: a Lambda that admits what a queue hands it; workers do the work.

    rain = hg.Pipeline("rain", sources=[hg.S3Events(queue="rain-events")], store="s3://lake")
    handler = hg.aws_lambda(rain)

Lambda calls a plain function, again and again in one process, and freezes the process in between.
The connection to the ledger lives on a loop in the background and is kept from call to call.
"""

from __future__ import annotations

from concurrent.futures import TimeoutError as TooLate
from typing import TYPE_CHECKING, Any, Protocol

from headgate.errors import Unavailable
from headgate.telemetry.log import get_logger
from headgate.transports.lambda_event import Batch, read_event

if TYPE_CHECKING:
    from headgate.model.pipeline import Pipeline
    from headgate.runtime.invoke import Admission, Door

# What is left of an invocation's time when it gives up, so that its answer still arrives.
MARGIN_SECONDS = 1.0
log = get_logger("headgate.lambda")


class Context(Protocol):
    """What Lambda tells about an invocation, as far as we ask."""

    def get_remaining_time_in_millis(self) -> int: ...


class Handler(Protocol):
    """What Lambda calls."""

    def __call__(self, event: Any, context: Context | None = None) -> dict[str, Any] | None: ...


def aws_lambda(pipeline: Pipeline) -> Handler:
    """A handler for Lambda: events of SQS, SNS, S3 or EventBridge in, `batchItemFailures` out.

    What it names has to come again; everything else is durable in the ledger. A push that cannot
    be admitted raises, and Lambda tries it again. The ledger is that of `HEADGATE_DATABASE_URL`.
    """
    ours = object()

    def handler(event: Any, context: Context | None = None) -> dict[str, Any] | None:
        from headgate.net.loop import keep

        batch = read_event(event)
        done = _within(keep(ours, lambda: _door(pipeline)), batch, context)
        log.info(
            "admitted",
            pipeline=pipeline.name,
            new=done.new,
            duplicates=done.duplicates,
            silent=done.silent,
            failed=len(done.failed),
        )
        if batch.queue is not None:
            return batch.failures(done.failed)
        if done.failed:
            raise Unavailable(f"{pipeline.name}: the event was not admitted", upstream="ledger")
        return None

    return handler


def _door(pipeline: Pipeline) -> Door:
    from headgate.runtime.invoke import Door, require_shared
    from headgate.settings import Settings

    ledger = Settings.load().ledger()
    require_shared(pipeline, ledger)
    return Door(pipeline, ledger)


def _within(door: Door, batch: Batch, context: Context | None) -> Admission:
    """Admit it in the time there is. What is cut off may be admitted or not, and comes again."""
    from headgate.net.loop import wait
    from headgate.runtime.invoke import Admission

    left = None
    if context is not None:
        left = max(context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS, 0.1)
    try:
        return wait(door.admit(batch), left)
    except TooLate:
        log.warning("out of time", messages=len(batch.deliveries))
        return Admission({delivery.id for delivery in batch.deliveries})

"""Verifications that go on after the answer: one at a time, in the background of this process.

How far one is stands in the ledger, as when the command line does it: whoever looks sees it there,
and one that was broken off is gone on with when it is asked for again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headgate.errors import HeadgateError
from headgate.ledger.replay import Frozen
from headgate.runtime.again.verify import verify
from headgate.runtime.replays import pins_of
from headgate.server.doors import Loaded, Serving
from headgate.telemetry.log import get_logger

from .action import Answer

if TYPE_CHECKING:
    from .past import Replay

log = get_logger("headgate.replay")

WAITING_MOST = 10


def verify_later(serving: Serving, taken: Replay, answer: Answer) -> None:
    """Begin what was asked for, unless it is under way here already."""
    number: int = answer["replay"]
    if taken.mode != "verify" or number in serving.verifying:
        return
    frozen = Frozen(number, answer["inputs"], answer["manifest"])
    task = asyncio.create_task(_verify(serving, serving.loaded[taken.pipeline], frozen))
    serving.verifying[number] = task
    task.add_done_callback(lambda _: serving.verifying.pop(number, None))


async def _verify(serving: Serving, loaded: Loaded, frozen: Frozen) -> None:
    async with serving.verifier:
        try:
            assert loaded.file is not None
            now = await asyncio.to_thread(pins_of, loaded.pipeline)
            found = await verify(
                serving.db, loaded.file, loaded.pipeline, frozen, now, serving.local
            )
        except HeadgateError as error:
            log.warning("verification broken off", replay=frozen.id, why=str(error))
        except Exception as error:
            log.error(
                "verification failed", replay=frozen.id, why=f"{type(error).__name__}: {error}"
            )
        else:
            log.info("verified", replay=frozen.id, ok=found.ok)

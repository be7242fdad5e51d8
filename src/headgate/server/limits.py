"""Limits: how much, how often and how slowly somebody may talk to us. All of it is bounded."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request

from .problem import Refusal

BODY_SECONDS = 20.0
KEYS_AT_MOST = 10_000


class Buckets:
    """A token bucket per key. Those that were idle longest are forgotten first."""

    def __init__(
        self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_second
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """One request of this key. Raises `Refusal` when it has none left."""
        now = self._clock()
        left, at = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        self._left[key] = (max(0.0, left - 1), now)
        if len(self._left) > KEYS_AT_MOST:
            self._left.popitem(last=False)
        if left < 1:
            raise Refusal("too_many_requests", retry_after=(1 - left) / self._rate)


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The body, as long as it is small enough and arrives in time."""
    announced = request.headers.get("content-length")
    if announced is not None and (not announced.isdecimal() or int(announced) > most_bytes):
        raise _too_large(most_bytes)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most_bytes:
                    raise _too_large(most_bytes)
                chunks.append(chunk)
    except TimeoutError:
        raise Refusal("body_too_slow", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refusal("bad_request", "the connection ended before the body did") from None
    return b"".join(chunks)


def _too_large(most_bytes: int) -> Refusal:
    # The rest is not read, so the connection cannot be used again.
    detail = f"a body has {most_bytes} bytes at most"
    return Refusal("body_too_large", detail, headers={"Connection": "close"})

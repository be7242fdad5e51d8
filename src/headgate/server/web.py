"""The web as a door sees it: guarded, short, and without redirects."""

from __future__ import annotations

from headgate.errors import HeadgateError, Unavailable
from headgate.net.http import Client, Limits

_LIMITS = Limits(connect_seconds=5.0, read_seconds=5.0, total_seconds=10.0, redirects=0)


class GuardedWeb:
    """Asks for keys and certificates. Implements `model.call.Web`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, url: str, *, trusted: bool = False, most_bytes: int = 1 << 20) -> bytes:
        """The body of a successful answer. Raises `Unavailable`, whatever the reason."""
        try:
            async with self._client.ask(url, trusted=trusted, limits=_LIMITS) as answer:
                answer.expect()
                return await answer.read(most_bytes)
        except Unavailable:
            raise
        except HeadgateError as error:
            raise Unavailable(f"{error}", upstream=url) from error

"""Web addresses as a source: what they show now, compared with what they showed before.

Each look asks each address once, "is it still the version I know?" (`If-None-Match`,
`If-Modified-Since`), and most answers are a short "yes" (304). A server that keeps no versions is
read and its bytes are compared. One address that fails costs its neighbours nothing; an outage
deletes nothing. An address is taken for removed when it says so (410), or was missing twice (404).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headgate.errors import HeadgateError, ObjectMissing, PipelineError, Unavailable
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope
from headgate.model.ports import Known, Noticed, Scan
from headgate.model.secret import Secret, reveal
from headgate.net import loop
from headgate.net.http import Answer, Client, Limits, need_aiohttp, shared, shown
from headgate.net.retry_after import http_date

from .address import check_headers, check_url
from .numbered import numbered
from .resume import Reading
from .validator import conditions, hint_of, same, strength_of

if TYPE_CHECKING:
    pass

LONGEST_LOOK_SECONDS = 600.0
_log = logging.getLogger(__name__)


class Http:
    """The resources at one or several web addresses, looked at `every` so often."""

    name: str
    every_seconds: float

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        every: str | float = "15m",
        name: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        parallel: int = 8,
        timeout: str | float = "60s",
        max_bytes: int | None = None,
    ) -> None:
        self.urls = [url] if isinstance(url, str) else list(url)
        for each in self.urls:
            check_url(each)
        if not self.urls or len(set(self.urls)) != len(self.urls):
            raise PipelineError("Http wants one address or several different ones")
        if name is None and len(self.urls) > 1:
            hint = 'Give it one, as in name="stations": the ledger knows the source by it.'
            raise PipelineError("Http with several addresses has no name", hint=hint)
        self.name = name or self.urls[0]
        self.every_seconds = seconds(every, "every")
        if self.every_seconds == 0 or parallel < 1:
            raise PipelineError(f"{self.name}: every and parallel must be more than 0")
        self._headers = check_headers(headers or {})
        self._parallel = parallel
        self._limits = Limits(read_seconds=seconds(timeout, "timeout"), body_bytes=max_bytes)
        self._owned = frozenset(self.urls)
        # What one look leaves for the next, per address: validators seen with bytes we know by
        # digest, how often it was not there, what was complained about. Per host: not before when.
        self._seen: dict[str, tuple[str, str]] = {}
        self._missed: dict[str, int] = {}
        self._complaints: dict[str, str] = {}
        self._resting: dict[str, datetime] = {}

    def check(self) -> None:
        """Raise `UsageError` when the extra or a secret is not there. Asks no server."""
        need_aiohttp()
        for value in self._headers.values():
            reveal(value)

    def scan(self, known: Mapping[str, Known], now: datetime) -> Scan:
        """Ask every address. Raises `Unavailable` when none of them gave an answer."""
        return loop.wait(self._look(shared(), known, now))

    def envelope(self, change: Noticed, generation: int, received_at: datetime) -> Envelope:
        """The change as an envelope, once the ledger has numbered it."""
        tag = change.hint.removeprefix("etag:") if change.hint.startswith("etag:") else None
        return numbered(
            change,
            generation,
            received_at,
            source="http",
            provider="http",
            detector="etag",
            etag=tag,
        )

    def owns(self, uri: str) -> bool:
        """Is the uri one of the addresses?"""
        return uri in self._owned

    def fetch(self, envelope: Envelope) -> Iterator[bytes]:
        """The resource's bytes as they are now, in chunks; a body that was cut is resumed."""
        if envelope.uri not in self._owned:
            raise ObjectMissing(f"{envelope.uri} is not an address of {self.name}")
        host = urlsplit(envelope.uri).netloc
        self._leave_alone(host, datetime.now(UTC))
        reading = Reading(shared(), envelope.uri, self._headers, self._limits)
        try:
            while chunk := loop.wait(reading.chunk()):
                yield chunk
        except Unavailable as error:
            self._rest(host, error, datetime.now(UTC))
            raise
        finally:
            loop.wait(reading.close())

    async def _look(self, client: Client, known: Mapping[str, Known], now: datetime) -> Scan:
        turn = asyncio.Semaphore(self._parallel)
        results = await asyncio.gather(
            *(self._ask_in_turn(turn, client, url, known.get(url), now) for url in self.urls)
        )
        failed = [result for result in results if isinstance(result, HeadgateError)]
        if len(failed) == len(self.urls):
            raise self._unavailable(failed)
        changes = [result for result in results if isinstance(result, Noticed)]
        return Scan(changes, sum(count == 1 for count in self._missed.values()))

    async def _ask_in_turn(
        self,
        turn: asyncio.Semaphore,
        client: Client,
        url: str,
        before: Known | None,
        now: datetime,
    ) -> Noticed | HeadgateError | None:
        async with turn:
            host = urlsplit(url).netloc
            try:
                self._leave_alone(host, now)
                return await self._ask(client, url, before, now)
            except HeadgateError as error:
                self._rest(host, error, now)
                self._complain(url, error)
                return error

    def _leave_alone(self, host: str, now: datetime) -> None:
        """Raise when the host asked for patience and its time has not come."""
        until = self._resting.get(host)
        if until is not None and now < until:
            raise Unavailable(
                f"{host} asked to be left alone until {until:%Y-%m-%d %H:%M:%S} UTC",
                upstream=host,
                delay_seconds=(until - now).total_seconds(),
            )

    def _rest(self, host: str, error: HeadgateError, now: datetime) -> None:
        if isinstance(error, Unavailable) and error.delay_seconds:
            until = now + timedelta(seconds=error.delay_seconds)
            self._resting[host] = max(until, self._resting.get(host, until))

    async def _ask(
        self, client: Client, url: str, before: Known | None, now: datetime
    ) -> Noticed | None:
        hint = before.hint if before is not None and not before.removed else None
        asked = self._validator(url, hint)
        headers = {**self._headers, **(conditions(asked) if asked else {})}
        limits = replace(self._limits, total_seconds=LONGEST_LOOK_SECONDS)
        async with client.ask(url, headers=headers, trusted=True, limits=limits) as answer:
            if answer.status in (404, 410):
                return self._missing(url, answer, before, now)
            self._missed.pop(url, None)
            if answer.status != 304 or not asked:
                answer.expect()
            if self._complaints.pop(url, None) is not None:
                _log.info("%s: %s can be read again", self.name, shown(url))
            if answer.status == 304:
                return None
            return await self._compare(url, answer, before, hint, asked, now)

    def _validator(self, url: str, hint: str | None) -> str | None:
        """What to ask with: the hint itself, or what the server last said of the same bytes."""
        if hint is None:
            return None
        digest, validator = self._seen.get(url, ("", ""))
        return validator if digest == hint else hint

    async def _compare(
        self,
        url: str,
        answer: Answer,
        before: Known | None,
        hint: str | None,
        asked: str | None,
        now: datetime,
    ) -> Noticed | None:
        told = hint_of(answer.headers)
        if told is not None and asked is not None and same(told, asked):
            return None
        size: int | None = None
        if told is None or (hint is not None and hint.startswith("sha256:")):
            digest, size = await _digest(answer)
            if told is not None:
                self._seen[url] = (digest, told)
            if digest == hint:
                return None
            told = told or digest
        else:
            size = _length(answer)
        modified = http_date(answer.headers.get("Last-Modified", ""))
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Noticed(
            uri=url,
            kind="created",
            hint=told,
            strength=strength_of(told),
            event_time=min(modified, now) if modified else now,
            expected=before.generation if before is not None else 0,
            size=size,
            content_type=kind or None,
            clock="object" if modified else "received",  # the server did not say when
            trace=answer.headers.get("traceparent"),
        )

    def _missing(
        self, url: str, answer: Answer, before: Known | None, now: datetime
    ) -> Noticed | None:
        if before is None:
            self._complain(url, answer.trouble())
        if before is None or before.removed:
            return None
        count = self._missed[url] = self._missed.get(url, 0) + 1
        if answer.status == 404 and count < 2:
            return None
        self._missed[url] = 2
        return Noticed(url, "removed", before.hint, "weak", now, before.generation)

    def _complain(self, url: str, error: HeadgateError) -> None:
        """Say it once, until it is another trouble or gone."""
        why = f"{type(error).__name__}:{error.reason}"
        if self._complaints.get(url) != why:
            self._complaints[url] = why
            _log.warning("%s: %s %s", self.name, error, error.hint)

    def _unavailable(self, failed: Sequence[HeadgateError]) -> Unavailable:
        first = failed[0]
        delays = [e.delay_seconds for e in failed if isinstance(e, Unavailable) and e.delay_seconds]
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return Unavailable(
            f"{first}{others}",
            upstream=self.name,
            hint=first.hint,
            delay_seconds=min(delays) if len(delays) == len(failed) else None,
        )


async def _digest(answer: Answer) -> tuple[str, int]:
    """The hint of the bytes themselves, and how many they are."""
    sha, size = hashlib.sha256(), 0
    async for piece in answer.chunks():
        sha.update(piece)
        size += len(piece)
    return f"sha256:{sha.hexdigest()}", size


def _length(answer: Answer) -> int | None:
    """The size of the resource, when it is told and not that of its packing."""
    said = answer.headers.get("Content-Length", "")
    packed = answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity"
    return int(said) if said.isascii() and said.isdecimal() and not packed else None

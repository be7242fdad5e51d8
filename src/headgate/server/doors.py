"""Doors: which call is for which pipeline, and what all routes share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from starlette.requests import Request

from headgate.errors import ConfigError, LedgerUnavailable, PipelineError, Unavailable
from headgate.ledger.inbox import Registered
from headgate.model.call import Call, Unproven, Vouched, Web
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Pushed, Store
from headgate.model.signal import OUTAGE, REQUESTS, emit
from headgate.pg import Database
from headgate.runtime import station
from headgate.runtime.load import file_of
from headgate.runtime.tuning import Tuning
from headgate.sources.webhook import Webhook
from headgate.stores import Local, open_store
from headgate.telemetry.log import get_logger
from headgate.telemetry.metrics import Metrics

from .limits import Buckets, read_body
from .oidc import Issuer, Terms
from .problem import Refusal, unproven

log = get_logger("headgate.serve")

RETRY_AFTER_SECONDS = 5
LEDGER_SECONDS = 20.0
# Snapshots at once: of the connections to the ledger, some are left for calls to be taken in.
READERS = 4
# Many senders may stand behind one address, such as a proxy of ours.
STRANGERS_TIMES = 10


@dataclass(frozen=True, slots=True)
class Door:
    """A pushed source of a pipeline that the ledger knows."""

    pipeline: Pipeline
    to: Registered
    source: Pushed


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pipeline that is loaded here, and the file it came from as it was then."""

    pipeline: Pipeline
    file: Path | None
    content: bytes

    @classmethod
    def of(cls, pipeline: Pipeline) -> Loaded:
        file = file_of(pipeline)
        return cls(pipeline, file, file.read_bytes() if file else b"")

    def is_as_it_was(self) -> bool:
        """Is the file still what was loaded? What runs it again reads it anew."""
        try:
            return self.file is not None and self.file.read_bytes() == self.content
        except OSError:
            return False


@dataclass(slots=True)
class Serving:
    """What every route needs."""

    db: Database
    web: Web
    max_bytes: int
    senders: Buckets
    strangers: Buckets
    metrics: Metrics | None = None
    hooks: dict[str, Door] = field(default_factory=dict[str, Door])
    pushes: dict[str, list[Door]] = field(default_factory=dict[str, list[Door]])
    url: str = ""
    origins: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()
    local: Local = field(default_factory=Local)
    tuning: Tuning = field(default_factory=Tuning)
    readers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))
    downloads: int = 0
    loaded: dict[str, Loaded] = field(default_factory=dict[str, Loaded])
    verifying: dict[int, asyncio.Task[None]] = field(default_factory=dict[int, asyncio.Task[None]])
    issuer: Issuer | None = None
    verifier: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    _stores: dict[str, Store] = field(default_factory=dict[str, Store])

    def store(self, uri: str) -> Store:
        """The store that a publication names."""
        if uri not in self._stores:
            self._stores[uri] = open_store(uri, self.local)
        return self._stores[uri]

    async def close(self) -> None:
        """Break off what goes on in the background; it is gone on with when it is asked for."""
        tasks = list(self.verifying.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hook(self, pipeline: str) -> tuple[Door, Webhook]:
        """The webhook of a pipeline."""
        door = self.hooks.get(pipeline)
        if door is None or not isinstance(door.source, Webhook):
            raise Refusal("unknown_pipeline", f"no pipeline {pipeline!r} here takes webhooks")
        return door, door.source

    async def take(self, request: Request) -> Call:
        """Read a call, within the limits for strangers. Nothing of it is believed yet."""
        self.strangers.take(request.client.host if request.client else "")
        body = await read_body(request, self.max_bytes)
        headers = [
            (k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in request.headers.raw
        ]
        return Call(body, datetime.now(UTC), headers, request.query_params.multi_items())

    async def vouch(self, door: Door, call: Call) -> Vouched:
        """Who sent this? Raises `Refusal`."""
        try:
            vouched = await door.source.vouch(call, self.web)
        except Unproven as error:
            emit(REQUESTS, door=door.source.door, verdict="unproven")
            log.warning(
                "call refused",
                pipeline=door.pipeline.name,
                source=door.source.name,
                reason=error.reason,
            )
            raise unproven(error) from error
        except ConfigError as error:
            log.error("a secret cannot be used", pipeline=door.pipeline.name, why=str(error))
            raise Refusal("secret_unusable", retry_after=60) from error
        except Unavailable as error:
            log.warning("keys cannot be fetched", source=door.source.name, why=str(error))
            raise Refusal("keys_unavailable", retry_after=RETRY_AFTER_SECONDS) from error
        self.senders.take(f"{door.to.pipeline} {vouched.scheme} {vouched.key_id}")
        return vouched


async def open_doors(
    db: Database,
    pipelines: Sequence[Pipeline],
    web: Web,
    *,
    max_bytes: int,
    rate_per_second: float,
    metrics: Metrics | None = None,
    url: str = "",
    origins: Sequence[str] = (),
    hosts: Collection[str] = (),
    local: Local | None = None,
    tuning: Tuning | None = None,
) -> Serving:
    """Make the pipelines known and learn which calls are for them. Raises `UsageError`."""
    station.check_sources(pipelines)
    serving = Serving(
        db,
        web,
        max_bytes,
        Buckets(rate_per_second, 2 * rate_per_second),
        Buckets(STRANGERS_TIMES * rate_per_second, 2 * STRANGERS_TIMES * rate_per_second),
        metrics,
        url=url,
        origins=tuple(origins),
        hosts=frozenset(hosts),
        local=local or Local(),
        tuning=tuning or Tuning(),
    )
    if (terms := Terms.of(serving.tuning)) is not None:
        serving.issuer = Issuer(terms, web)
    serving.loaded = {pipeline.name: Loaded.of(pipeline) for pipeline in pipelines}
    for pipeline in pipelines:
        pushed = [s for s in pipeline.sources if isinstance(s, Pushed)]
        if not pushed and pipeline.dataset is None:
            continue
        at = await station.register(db, pipeline)
        for source in pushed:
            door = Door(pipeline, at, source)
            if source.door != "webhook":
                serving.pushes.setdefault(source.door, []).append(door)
            elif serving.hooks.setdefault(pipeline.name, door) is not door:
                raise PipelineError(
                    f"Pipeline({pipeline.name!r}) has two webhooks, and one address for them",
                    hint="Give one hg.Webhook several secrets, or make two pipelines.",
                )
    return serving


@asynccontextmanager
async def ledger() -> AsyncGenerator[None]:
    """What is asked of the ledger in here ends in time, or nothing is acknowledged: 503."""
    try:
        async with asyncio.timeout(LEDGER_SECONDS):
            yield
    except (LedgerUnavailable, TimeoutError) as error:
        emit(OUTAGE)
        log.warning("ledger away", why=str(error) or f"no answer in {LEDGER_SECONDS:g} s")
        raise Refusal("ledger_unavailable", retry_after=RETRY_AFTER_SECONDS) from error

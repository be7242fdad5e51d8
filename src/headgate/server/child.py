"""The supervisor's child that answers webhooks and pushes, and serves the catalog.

It has user code in it: validators.
"""

from __future__ import annotations

from typing import NoReturn

from headgate.errors import ConfigError
from headgate.model.pipeline import Pipeline
from headgate.model.signal import listen as hear
from headgate.runtime.child import Child, end, main
from headgate.runtime.job import Job
from headgate.runtime.ledger_home import connected
from headgate.telemetry.log import get_logger
from headgate.telemetry.metrics import Metrics

log = get_logger("headgate.serve")

CONNECTIONS = 8


class ServingChild(Child):
    """Serves until it is told to stop."""

    async def do(self, pipelines: list[Pipeline]) -> int:
        try:
            from headgate.net.http import Client

            from .app import make_app
            from .doors import open_doors
            from .listen import address, bind, is_loopback, serve
            from .names import ours
            from .web import GuardedWeb
        except ImportError as error:
            raise ConfigError(
                f"what is served needs a library that is not installed: {error.name}",
                hint="in Headgate's checkout: pip install '.[serve]'",
            ) from error

        tuning = self.job.tuning
        metrics = Metrics(tuning.env)
        deaf = hear(metrics.hear)
        listening = bind(tuning.serve_host, tuning.serve_port)
        try:
            async with (
                connected(self.job.ledger, connections=CONNECTIONS) as db,
                Client() as client,
            ):
                serving = await open_doors(
                    db,
                    pipelines,
                    GuardedWeb(client),
                    max_bytes=tuning.max_envelope_bytes,
                    rate_per_second=tuning.serve_rate,
                    metrics=metrics,
                    url=tuning.serve_url,
                    origins=_listed(tuning.serve_origins),
                    hosts=ours(tuning.serve_url, [tuning.serve_host, *_listed(tuning.serve_hosts)]),
                    local=tuning.local,
                    tuning=tuning,
                )
                log.info("serving", url=address(listening), hooks=sorted(serving.hooks))
                if not is_loopback(tuning.serve_host):
                    log.warning(
                        "serving to other machines without TLS: what is sent can be read on the"
                        " way. Put a proxy that does TLS in front, or bind 127.0.0.1"
                    )
                try:
                    await serve(make_app(serving), listening, self.stopping)
                finally:
                    await serving.close()
        finally:
            listening.close()
            deaf()
        return 0


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def begin(job: Job) -> NoReturn:
    """What a process of its own does (`runtime/hatch.py`)."""
    end(main(ServingChild, job))

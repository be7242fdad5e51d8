"""Headgate: at-least-once in, exactly-once effects out.

    import headgate as hg

    rain = hg.Pipeline("rain", sources=[hg.Directory("incoming/")], store="lake/", version="1")

Everything public is named here and nowhere else. Names are loaded when they are first used, so that
`headgate --help` does not pay for what it does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate._version import __version__

if TYPE_CHECKING:
    from headgate.errors import HeadgateError, Permanent, PipelineError, Retryable, Unavailable
    from headgate.lambda_function import aws_lambda
    from headgate.library import Pipeline
    from headgate.model.envelope import Envelope
    from headgate.model.object import Artifact, BlockingTransaction, Object, Run, Transaction
    from headgate.model.secret import env, file
    from headgate.model.verdict import RetryPlan
    from headgate.sources.directory import Directory
    from headgate.sources.http import Http
    from headgate.sources.s3_events import S3Events
    from headgate.sources.sse import ServerSentEvents

_HOMES = {
    "Artifact": "headgate.model.object",
    "BlockingTransaction": "headgate.model.object",
    "Directory": "headgate.sources.directory",
    "Envelope": "headgate.model.envelope",
    "HeadgateError": "headgate.errors",
    "Http": "headgate.sources.http",
    "Object": "headgate.model.object",
    "Permanent": "headgate.errors",
    "Pipeline": "headgate.library",
    "PipelineError": "headgate.errors",
    "RetryPlan": "headgate.model.verdict",
    "Retryable": "headgate.errors",
    "Run": "headgate.model.object",
    "S3Events": "headgate.sources.s3_events",
    "ServerSentEvents": "headgate.sources.sse",
    "Transaction": "headgate.model.object",
    "Unavailable": "headgate.errors",
    "aws_lambda": "headgate.lambda_function",
    "env": "headgate.model.secret",
    "file": "headgate.model.secret",
}

__all__ = [
    "Artifact",
    "BlockingTransaction",
    "Directory",
    "Envelope",
    "HeadgateError",
    "Http",
    "Object",
    "Permanent",
    "Pipeline",
    "PipelineError",
    "RetryPlan",
    "Retryable",
    "Run",
    "S3Events",
    "ServerSentEvents",
    "Transaction",
    "Unavailable",
    "__version__",
    "aws_lambda",
    "env",
    "file",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"headgate has no {name!r}; it has {', '.join(sorted(_HOMES))}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__

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
    from headgate.errors import (
        Conflict,
        Fenced,
        HeadgateError,
        InProgress,
        Permanent,
        PipelineError,
        Retryable,
        Unavailable,
    )
    from headgate.lambda_function import aws_lambda
    from headgate.library.asgi.middleware import IdempotencyMiddleware
    from headgate.library.once import once
    from headgate.library.operation import operation
    from headgate.library.pipeline import Pipeline
    from headgate.model.change import Change
    from headgate.model.dataset import Dataset
    from headgate.model.envelope import Envelope
    from headgate.model.facts import Check
    from headgate.model.lookup import Lookup
    from headgate.model.object import Artifact, BlockingTransaction, Object, Run, Transaction
    from headgate.model.secret import env, file
    from headgate.model.validation.json_schema import JsonSchema
    from headgate.model.verdict import RetryPlan
    from headgate.model.watermark import EventTime, Watermark
    from headgate.operations.codec import Codec
    from headgate.sources.directory import Directory
    from headgate.sources.http import Http
    from headgate.sources.manifest import Manifest
    from headgate.sources.prefix import Prefix
    from headgate.sources.push import Push
    from headgate.sources.s3_events import S3Events
    from headgate.sources.schedule import Schedule
    from headgate.sources.sse import ServerSentEvents
    from headgate.sources.webhook import Webhook

_HOMES = {
    "Artifact": "headgate.model.object",
    "BlockingTransaction": "headgate.model.object",
    "Change": "headgate.model.change",
    "Check": "headgate.model.facts",
    "Codec": "headgate.operations.codec",
    "Conflict": "headgate.errors",
    "Dataset": "headgate.model.dataset",
    "Directory": "headgate.sources.directory",
    "Envelope": "headgate.model.envelope",
    "EventTime": "headgate.model.watermark",
    "Fenced": "headgate.errors",
    "HeadgateError": "headgate.errors",
    "Http": "headgate.sources.http",
    "IdempotencyMiddleware": "headgate.library.asgi.middleware",
    "InProgress": "headgate.errors",
    "JsonSchema": "headgate.model.validation.json_schema",
    "Lookup": "headgate.model.lookup",
    "Manifest": "headgate.sources.manifest",
    "Object": "headgate.model.object",
    "Permanent": "headgate.errors",
    "Pipeline": "headgate.library.pipeline",
    "PipelineError": "headgate.errors",
    "Prefix": "headgate.sources.prefix",
    "Push": "headgate.sources.push",
    "RetryPlan": "headgate.model.verdict",
    "Retryable": "headgate.errors",
    "Run": "headgate.model.object",
    "S3Events": "headgate.sources.s3_events",
    "Schedule": "headgate.sources.schedule",
    "ServerSentEvents": "headgate.sources.sse",
    "Transaction": "headgate.model.object",
    "Unavailable": "headgate.errors",
    "Watermark": "headgate.model.watermark",
    "Webhook": "headgate.sources.webhook",
    "aws_lambda": "headgate.lambda_function",
    "env": "headgate.model.secret",
    "file": "headgate.model.secret",
    "once": "headgate.library.once",
    "operation": "headgate.library.operation",
}

__all__ = [
    "Artifact",
    "BlockingTransaction",
    "Change",
    "Check",
    "Codec",
    "Conflict",
    "Dataset",
    "Directory",
    "Envelope",
    "EventTime",
    "Fenced",
    "HeadgateError",
    "Http",
    "IdempotencyMiddleware",
    "InProgress",
    "JsonSchema",
    "Lookup",
    "Manifest",
    "Object",
    "Permanent",
    "Pipeline",
    "PipelineError",
    "Prefix",
    "Push",
    "RetryPlan",
    "Retryable",
    "Run",
    "S3Events",
    "Schedule",
    "ServerSentEvents",
    "Transaction",
    "Unavailable",
    "Watermark",
    "Webhook",
    "__version__",
    "aws_lambda",
    "env",
    "file",
    "once",
    "operation",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"headgate has no {name!r}; it has {', '.join(sorted(_HOMES))}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__

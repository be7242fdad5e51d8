"""Wires: queues that hand over deliveries, and hand them over again unless acknowledged."""

from __future__ import annotations

from headgate.model.ports import Wire


async def open_wire(queue: str) -> Wire:
    """The SQS queue of that name, url or arn, ready to be received from.

    Raises `ConfigError` when there is no such queue, `PermissionDenied` and `Unavailable`.
    """
    from .sqs import open_queue

    return await open_queue(queue)

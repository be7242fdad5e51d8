"""Notifications of S3 that come through a queue: directly, by SNS, or by EventBridge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from headgate.errors import PipelineError
from headgate.model.envelope import Envelope, Provider, Refused
from headgate.model.parse import parse
from headgate.model.ports import Delivery
from headgate.model.signal import IGNORED, emit
from headgate.model.uri import split_uri

from .announced import fetch, is_about_one_version

Ack = Literal["admitted", "finalized"]


class S3Events:
    """Objects of S3 that a queue tells about: `hg.S3Events(queue="uploads", suffix=".csv")`.

    `queue` is the name, url or arn of an SQS queue, standard or FIFO; `dead_letters` that of its
    dead letter queue, to be drained into quarantine. Of what is told, `bucket`, `prefix` and
    `suffix` choose; the rest is acknowledged and left alone. A message is acknowledged once the
    ledger has what it tells, or with `ack="finalized"` only when that is done.
    """

    provider: Provider = "s3"

    def __init__(
        self,
        *,
        queue: str,
        dead_letters: str | None = None,
        bucket: str | None = None,
        prefix: str | None = None,
        suffix: str | Sequence[str] | None = None,
        ack: Ack = "admitted",
        name: str | None = None,
    ) -> None:
        from headgate.net.queues import parse as queue_named

        self.name = name or queue_named(queue).name
        self.queue = queue
        self.dead_letters = dead_letters
        self.ack: Ack = ack
        if ack not in ("admitted", "finalized"):
            raise PipelineError(
                f"{self.name}: ack={ack!r}", hint='Say ack="admitted" or ack="finalized".'
            )
        if dead_letters is not None and queue_named(dead_letters).name == queue_named(queue).name:
            raise PipelineError(
                f"{self.name}: the queue is its own dead letter queue",
                hint="Name the queue that messages are moved to when they were received too often.",
            )
        suffixes = suffix if suffix is None or isinstance(suffix, str) else tuple(suffix)
        self.bucket, self.prefix, self.suffix = bucket, prefix, suffixes

    def check(self) -> None:
        """Raise `ConfigError` when the libraries for AWS are not there."""
        from headgate.net import aws

        aws.session()

    def owns(self, uri: str) -> bool:
        """Can this source read the object?"""
        found = split_uri(uri) if uri.startswith("s3://") else None
        return found is not None and self._means(*found)

    def _means(self, bucket: str, key: str) -> bool:
        """Was this object asked for? An address in a message opens nothing else."""
        return (
            self.bucket in (None, bucket)
            and key.startswith(self.prefix or "")
            and key.endswith(self.suffix or "")
        )

    def fetch(self, envelope: Envelope) -> Iterable[bytes]:
        """The object's bytes in chunks: of the version that was told, where there are versions."""
        return fetch(envelope)

    def read(self, delivery: Delivery, received_at: datetime) -> Sequence[Envelope | Refused]:
        """What one message tells about the objects that were asked for."""
        parsed = parse(delivery.body, received_at=received_at)
        told: list[Envelope | Refused] = []
        ignored = parsed.tests + len(parsed.ignored)
        for number, record in enumerate(parsed.records):
            if isinstance(record, Refused):
                told.append(record)
            elif self.owns(record.uri) and not is_about_one_version(record):
                told.append(_ordered(record, delivery, number))
            else:
                ignored += 1
        if ignored:
            emit(IGNORED, ignored, queue=self.name)
        return told


def _ordered(envelope: Envelope, delivery: Delivery, number: int) -> Envelope:
    """In the order of a FIFO queue: its group is the subject, its number the sequence.

    A sequencer of S3 stays: it says more about the object than the order in which it was told,
    and it makes the same event the same change when it is sent a second time.
    """
    group = delivery.attributes.get("MessageGroupId")
    sequence = delivery.attributes.get("SequenceNumber")
    if group is None or sequence is None:
        return envelope
    if envelope.sequence is not None:
        return msgspec.structs.replace(envelope, subject=group)
    # Several records of one message are several changes.
    if number:
        sequence = f"{sequence}.{number:04d}"
    return msgspec.structs.replace(envelope, subject=group, sequence=sequence)

"""Ordinary notifications of S3, read straight into types: most of what ever arrives.

The types below know every name that S3 writes, in its order, and no other. What they read is
written again, and when the bytes are the same, nothing was there twice, nothing was unknown or
nested any deeper, and no number was bent: `strict` would have found nothing either. Anything else
is left to the general way. A property test holds the two together.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

import msgspec

from ..envelope import Envelope
from . import s3
from .result import Bad, Ignored
from .shape import Time


class _Plain(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A struct that writes what it read."""


class _Who(_Plain):
    principalId: str | None = None


class _From(_Plain):
    sourceIPAddress: str | None = None


class _Answer(_Plain, rename={"request": s3.REQUEST, "host": "x-amz-id-2"}):
    request: str | None = None
    host: str | None = None


class _Bucket(s3.Bucket, forbid_unknown_fields=True, omit_defaults=True):
    ownerIdentity: _Who | None = None
    arn: str | None = None


class _Object(s3.Object, forbid_unknown_fields=True, omit_defaults=True):
    pass


class _About(_Plain):
    s3SchemaVersion: str
    configurationId: str
    bucket: _Bucket
    object: _Object


class _Record(_Plain):
    eventVersion: str
    eventSource: str
    awsRegion: str | None
    eventTime: str
    eventName: str
    userIdentity: _Who
    requestParameters: _From
    responseElements: _Answer
    s3: _About


class _Notification(_Plain):
    Records: list[_Record]


_decode = msgspec.json.Decoder(_Notification).decode
_encode = msgspec.json.Encoder().encode
_BEGINS = b'{"Records":[{"eventVersion":"2.'


def envelopes(raw: bytes, received_at: datetime) -> list[Envelope] | None:
    """The envelopes of an ordinary notification; None when it is anything else."""
    # Looking for one byte is twenty times as fast as looking for six.
    if not raw.startswith(_BEGINS) or (b"\\" in raw and b"\\u0000" in raw):
        return None
    try:
        read = _decode(raw)
        if _encode(read) != raw:
            return None
        made: list[Envelope] = []
        for record in read.Records:
            event_id = record.responseElements.request or record.s3.object.sequencer
            if not event_id:
                return None
            event_time = cast("datetime", msgspec.convert(record.eventTime, Time))
            made.append(s3.made(record, event_id, event_time, received_at))
    except (msgspec.DecodeError, UnicodeDecodeError, Bad, Ignored):
        return None
    return made

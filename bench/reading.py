"""How fast what a cloud says becomes envelopes: notifications of S3, in one process."""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import orjson

from headgate.model.envelope import Envelope
from headgate.model.parse import parse

from .processes import Failed
from .result import Figure

RECORDS = 100  # in one notification
TIMES = 300


def _record(n: int) -> dict[str, Any]:
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-central-1",
        "eventTime": "2026-05-01T12:00:00.123Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AWS:loader"},
        "requestParameters": {"sourceIPAddress": "192.0.2.7"},
        "responseElements": {"x-amz-request-id": f"REQ{n:013d}", "x-amz-id-2": "h" * 44},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "all",
            "bucket": {
                "name": "rain",
                "ownerIdentity": {"principalId": "OWNER0000"},
                "arn": "arn:aws:s3:::rain",
            },
            "object": {
                "key": f"stations/2026/05/01/part{'-+'[n % 10 == 0]}{n:05d}.csv",
                "size": 8192 + n,
                "eTag": f"{n:032x}",
                "sequencer": f"0066320A5C0B{n:06X}",
            },
        },
    }


def _seconds(raw: bytes) -> float:
    """Seconds for one notification, the least of many: what others do at the time is left out."""
    now = datetime.now(UTC)
    least = float("inf")
    for _ in range(TIMES):
        began = perf_counter()
        told = parse(raw, received_at=now)
        least = min(least, perf_counter() - began)
        if not all(isinstance(e, Envelope) for e in told.records):
            raise Failed("parse: something was refused")
    return least


def figures() -> list[Figure]:
    """As S3 writes it, and in another order of names, which takes the general way."""
    told = {"Records": [_record(n) for n in range(RECORDS)]}
    usual = orjson.dumps(told)
    other = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
    size = len(usual) // RECORDS
    how = f"{RECORDS} records of {size} bytes in a notification, the quickest of {TIMES}"
    return [
        Figure(name, round(_seconds(raw) / RECORDS * 1e6, 2), "µs", how)
        for name, raw in (("parse", usual), ("parse_general", other))
    ]

"""Documents as the providers write them, small enough to read."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import orjson

from headgate.model.envelope import Envelope, Refused
from headgate.model.parse import Parsed, parse

NOW = datetime(2026, 5, 1, 12, 0, 5, tzinfo=UTC)
THEN = "2026-05-01T12:00:00.250Z"
THEN_AT = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
MD5 = "0cc175b9c0f1b6a831c399e269772661"


def without(value: dict[str, Any]) -> dict[str, Any]:
    """Without what is None."""
    return {name: v for name, v in value.items() if v is not None}


def record(key: str = "in/a.csv", name: str = "ObjectCreated:Put", **about: Any) -> dict[str, Any]:
    """A record of a notification of S3."""
    told = {"size": 17, "eTag": MD5, "versionId": None, "sequencer": "00663230AB12"}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-central-1",
        "eventTime": THEN,
        "eventName": name,
        "userIdentity": {"principalId": "AWS:loader"},
        "requestParameters": {"sourceIPAddress": "192.0.2.7"},
        "responseElements": {"x-amz-request-id": "REQ1", "x-amz-id-2": "host+/="},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "all",
            "bucket": {
                "name": "rain",
                "ownerIdentity": {"principalId": "OWNER"},
                "arn": "arn:aws:s3:::rain",
            },
            "object": without({"key": key, **told, **about}),
        },
    }


def records(*told: Any) -> dict[str, Any]:
    return {"Records": list(told)}


def bridged(kind: str = "Object Created", /, **about: Any) -> dict[str, Any]:
    """An event of S3 by EventBridge."""
    told = {"key": "in/a.csv", "size": 17, "etag": MD5, "sequencer": "00663230AB12"}
    detail = {"reason": "PutObject", **about.pop("detail", {})}
    return {
        "version": "0",
        "id": "eb-1",
        "detail-type": kind,
        "source": "aws.s3",
        "account": "000000000000",
        "time": "2026-05-01T12:00:00Z",
        "region": "eu-central-1",
        "resources": ["arn:aws:s3:::rain"],
        "detail": {
            "version": "0",
            "bucket": {"name": "rain"},
            "object": without({**told, **about}),
            "request-id": "REQ1",
            "requester": "000000000000",
            **detail,
        },
    }


def sns(message: Any, **more: Any) -> dict[str, Any]:
    """A message of SNS that carries this one."""
    text = message if isinstance(message, str) else orjson.dumps(message).decode()
    return {
        "Type": "Notification",
        "MessageId": "m-1",
        "TopicArn": "arn:aws:sns:eu-central-1:000000000000:rain",
        "Message": text,
        "Timestamp": "2026-05-01T12:00:01.000Z",
        "SignatureVersion": "2",
        "Signature": "c2lnbmVk",
        "SigningCertURL": "https://sns.eu-central-1.amazonaws.com/cert.pem",
        **more,
    }


def resource(**more: Any) -> dict[str, Any]:
    """An object of Cloud Storage, as its API describes it."""
    told = {
        "kind": "storage#object",
        "name": "in/a b.csv",
        "bucket": "rain",
        "generation": "1777636800000001",
        "metageneration": "1",
        "contentType": "text/csv",
        "timeCreated": "2026-05-01T11:59:59.500Z",
        "updated": "2026-05-01T11:59:59.500Z",
        "size": "17",
        "md5Hash": base64.b64encode(bytes.fromhex(MD5)).decode(),
        "etag": "CMGV8p6=",
    }
    return without({**told, **more})


def pushed(event: str = "OBJECT_FINALIZE", data: Any = resource, **more: Any) -> dict[str, Any]:
    """A push of Pub/Sub about an object of Cloud Storage."""
    body = orjson.dumps(data()) if callable(data) else data
    attributes = {
        "bucketId": "rain",
        "objectId": "in/a b.csv",
        "objectGeneration": "1777636800000001",
        "eventType": event,
        "eventTime": "2026-05-01T12:00:00.250000Z",
        "payloadFormat": "JSON_API_V1" if body else "NONE",
        **more,
    }
    message = {
        "attributes": without(attributes),
        "data": None if body is None else base64.b64encode(body).decode(),
        "messageId": "ps-1",
        "publishTime": "2026-05-01T12:00:01Z",
    }
    return {"message": without(message), "subscription": "projects/p/subscriptions/s"}


def blob(**more: Any) -> dict[str, Any]:
    """The data of an event about a blob."""
    told = {
        "api": "PutBlob",
        "eTag": "0x8DC69C3B2D0F7A1",
        "contentType": "text/csv",
        "contentLength": 17,
        "blobType": "BlockBlob",
        "url": "https://acct.blob.core.windows.net/rain/in/a%20b.csv",
        "sequencer": "000000000000000000000000000026D80000000000028963",
    }
    return without({**told, **more})


def grid(kind: str = "Microsoft.Storage.BlobCreated", data: Any = None) -> dict[str, Any]:
    """An event in Event Grid's own schema."""
    return {
        "topic": "/subscriptions/s/resourceGroups/g/providers/x/storageAccounts/acct",
        "subject": "/blobServices/default/containers/rain/blobs/in/a b.csv",
        "eventType": kind,
        "id": "eg-1",
        "data": blob() if data is None else data,
        "dataVersion": "",
        "metadataVersion": "1",
        "eventTime": "2026-05-01T12:00:00.2500000Z",
    }


def cloudevent(kind: str = "example.order.placed", **more: Any) -> dict[str, Any]:
    """A CloudEvent in the structured mode."""
    told = {
        "specversion": "1.0",
        "id": "ce-1",
        "source": "https://shop.example/orders",
        "type": kind,
        "subject": "17",
        "time": THEN,
        "datacontenttype": "application/json",
        "data": {"total": 3},
    }
    return without({**told, **more})


def read(document: Any, **options: Any) -> Parsed:
    raw = document if isinstance(document, bytes) else orjson.dumps(document)
    return parse(raw, received_at=NOW, **options)


def one(document: Any, **options: Any) -> Envelope:
    """The one envelope that a document tells."""
    told = read(document, **options)
    assert len(told.records) == 1, told
    assert isinstance(told.records[0], Envelope), told.records[0]
    return told.records[0]


def refused(document: Any, **options: Any) -> tuple[str, str]:
    """The reason and the field of the one refusal of a document."""
    told = read(document, **options)
    assert len(told.records) == 1, told
    assert isinstance(told.records[0], Refused), told.records[0]
    return told.records[0].reason, told.records[0].field

"""Keys of the house, made anew for each run, and what their owners would send with them."""

from __future__ import annotations

import base64
import datetime as dt
import json
import time
from functools import lru_cache
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import RSAAlgorithm
from tests.server.doors import secret, whsec

import headgate as hg

STANDARD_OLD, STANDARD_NEW, OTHER, EVENTS = whsec(), whsec(), whsec(), whsec()
GITHUB = "a github secret, long enough"
AZURE = "an event grid key, long enough"
AUDIENCE = "https://in.example/events/gcs"
EMAIL = "pusher@project.iam.gserviceaccount.com"
GOOGLE_KEYS = "https://keys.example/google"
ENTRA_KEYS = "https://keys.example/entra"
TENANT = "11111111-2222-3333-4444-555555555555"
APP = "4962773b-9cdb-44cf-a8bf-237846a00ab7"
TOPIC = "arn:aws:sns:us-east-1:123456789012:changes"
CERT = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123abcd.pem"
EXPIRED = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0e.pem"
SMALL = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0f.pem"
CURVED = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0c.pem"
NO_CERT = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0d.pem"
SHARED = base64.urlsafe_b64encode(b"a key that both sides would know").decode()


@lru_cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """One key per name."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@lru_cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public_pem(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def jwk(key: rsa.RSAPrivateKey, key_id: str) -> dict[str, Any]:
    made = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**made, "kid": key_id, "alg": "RS256", "use": "sig"}


def certificate(key: Any, *, days: int = 30) -> bytes:
    """A certificate that ends in so many days."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=60))
        .not_valid_after(now + dt.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


@lru_cache
def pages() -> dict[str, bytes]:
    """The part of the web that the house needs."""
    google = {
        "keys": [
            jwk(rsa_key("google"), "g1"),
            {"kty": "oct", "k": SHARED, "kid": "shared", "alg": "HS256"},
        ]
    }
    return {
        GOOGLE_KEYS: json.dumps(google).encode(),
        ENTRA_KEYS: json.dumps({"keys": [jwk(rsa_key("entra"), "e1")]}).encode(),
        CERT: certificate(rsa_key("sns")),
        EXPIRED: certificate(rsa_key("sns"), days=-1),
        SMALL: certificate(rsa_key("small", 1024)),
        CURVED: certificate(ec_key("curved")),
        NO_CERT: b"<html>",
    }


def sources() -> dict[str, Any]:
    """A pipeline for every kind of door."""
    return {
        "standard": hg.Webhook(
            secrets={"old": secret(STANDARD_OLD), "new": secret(STANDARD_NEW)}, preview="waived"
        ),
        "careful": hg.Webhook(secrets=secret(OTHER)),
        "github": hg.Webhook(secrets=secret(GITHUB), scheme="github", preview="waived"),
        "gcs": hg.Push.gcs(audience=AUDIENCE, email=EMAIL, keys=GOOGLE_KEYS),
        "azure": hg.Push.azure(key=secret(AZURE)),
        "entra": hg.Push.azure(audience="api://in", tenant=TENANT, app=APP, keys=ENTRA_KEYS),
        "sns": hg.Push.sns(topic=TOPIC),
        "events": hg.Push.cloudevents(secrets=secret(EVENTS), origins=["events.example"]),
    }


def google_token(
    key: Any = None, *, kid: Any = "g1", alg: str = "RS256", header: Any = None, **claims: Any
) -> str:
    """The token Pub/Sub would send; a claim that is None is left out."""
    now = int(time.time())
    told = {
        "aud": AUDIENCE,
        "iss": "https://accounts.google.com",
        "email": EMAIL,
        "email_verified": True,
        "iat": now - 10,
        "exp": now + 3000,
        "sub": "1",
        **claims,
    }
    told = {k: v for k, v in told.items() if v is not None}
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(
        told, key or rsa_key("google"), algorithm=alg, headers=headers | (header or {})
    )


def entra_token(key: Any = None, **claims: Any) -> str:
    told = {
        "aud": "api://in",
        "iss": f"https://sts.windows.net/{TENANT}/",
        "azp": APP,
        "email": None,
    }
    return google_token(
        key or rsa_key("entra"), kid="e1", **{**told, "email_verified": None, **claims}
    )


S3_EVENT = {
    "Records": [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "awsRegion": "us-east-1",
            "eventTime": "2026-01-01T12:00:00.000Z",
            "eventName": "ObjectCreated:Put",
            "responseElements": {"x-amz-request-id": "R1"},
            "s3": {
                "bucket": {"name": "in"},
                "object": {
                    "key": "a.csv",
                    "size": 3,
                    "eTag": "0" * 32,
                    "sequencer": "0055AED6DCD90281E5",
                },
            },
        }
    ]
}
PUBSUB = {
    "message": {
        "attributes": {
            "eventType": "OBJECT_FINALIZE",
            "bucketId": "in",
            "objectId": "a.csv",
            "objectGeneration": "17",
            "payloadFormat": "NONE",
            "eventTime": "2026-01-01T12:00:00Z",
            "notificationConfig": "projects/_/buckets/in/notificationConfigs/1",
        },
        "messageId": "1",
        "publishTime": "2026-01-01T12:00:00Z",
    },
    "subscription": "projects/p/subscriptions/s",
}
EVENT_GRID = [
    {
        "id": "831e1650-001e-001b-66ab-eeb76e069631",
        "topic": "/subscriptions/s/providers/Microsoft.Storage/storageAccounts/acct",
        "subject": "/blobServices/default/containers/in/blobs/a.csv",
        "eventType": "Microsoft.Storage.BlobCreated",
        "eventTime": "2026-01-01T12:00:00Z",
        "data": {
            "api": "PutBlob",
            "eTag": "0x8D4BCC2E4835CD0",
            "contentType": "text/csv",
            "contentLength": 3,
            "blobType": "BlockBlob",
            "url": "https://acct.blob.core.windows.net/in/a.csv",
            "sequencer": "00000000000004420000000000028963",
        },
        "dataVersion": "1",
        "metadataVersion": "1",
    }
]
VALIDATION = [
    {
        "id": "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66",
        "topic": "/subscriptions/s",
        "subject": "",
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": "2026-01-01T12:00:00Z",
        "data": {"validationCode": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"},
        "dataVersion": "1",
        "metadataVersion": "1",
    }
]
CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "e1",
    "source": "https://shop.example/orders",
    "type": "shop.order",
    "time": "2026-01-01T12:00:00Z",
    "datacontenttype": "application/json",
    "data": {"order": 7},
}


def notification(**changed: Any) -> dict[str, Any]:
    """A message of SNS, signed as SNS signs, after what is changed. None leaves a field out."""
    key = changed.pop("key", rsa_key("sns"))
    message = {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Message": json.dumps(S3_EVENT),
        "Timestamp": "2026-01-01T12:00:00.000Z",
        "SignatureVersion": "2",
        "SigningCertURL": CERT,
        **changed,
    }
    message = {k: v for k, v in message.items() if v is not None}
    return {**message, "Signature": sns_signature(message, key)}


def question(**changed: Any) -> dict[str, Any]:
    """SNS asks whether we want a topic."""
    url = f"https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336"
    asked = {"Type": "SubscriptionConfirmation", "Message": "You have chosen", "Token": "2336"}
    return notification(**{**asked, "SubscribeURL": url, **changed})


def sns_signature(message: dict[str, Any], key: Any) -> str:
    names = [
        "Message",
        "MessageId",
        "Subject",
        "SubscribeURL",
        "Timestamp",
        "Token",
        "TopicArn",
        "Type",
    ]
    if message["Type"] == "Notification":
        names = [n for n in names if n not in ("SubscribeURL", "Token")]
    else:
        names.remove("Subject")
    text = "".join(f"{n}\n{message[n]}\n" for n in names if n in message).encode()
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return base64.b64encode(key.sign(text, ec.ECDSA(hashes.SHA256()))).decode()
    digest = hashes.SHA1() if message["SignatureVersion"] == "1" else hashes.SHA256()
    return base64.b64encode(key.sign(text, padding.PKCS1v15(), digest)).decode()

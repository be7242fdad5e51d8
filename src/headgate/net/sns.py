"""Messages of SNS over HTTP: is it from SNS, and from our topic?

A message names the certificate it was signed with, and anyone may name one. So only the address
where SNS of the topic's own region keeps its certificates is asked, written out here and compared
as text: no part of the address is the message's to choose but the name of the file.

Every line of what is signed has to be what SNS writes. Otherwise a line break inside one field
could pass for the next field.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from headgate.errors import ConfigError, Unavailable
from headgate.model.call import Call, Unproven, Vouched, Web
from headgate.model.parse import strict

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

_ARN = re.compile(
    r"arn:(aws[a-z-]*):sns:([a-z0-9-]{1,40}):(\d{12}):([A-Za-z0-9_-]{1,256}(\.fifo)?)"
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_TOKEN = re.compile(r"[0-9a-f]{1,1024}")
_LINE = re.compile(r"[^\r\n]*")
_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_QUESTION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
SIGNED: Mapping[str, tuple[str, ...]] = {
    "Notification": _NOTIFICATION,
    "SubscriptionConfirmation": _QUESTION,
    "UnsubscribeConfirmation": _QUESTION,
}
CERTIFICATES_AT_MOST = 32
FETCHES_PER_MINUTE = 12


class Topic:
    """A topic of SNS, and where its region keeps what we need."""

    def __init__(self, arn: str) -> None:
        found = _ARN.fullmatch(arn)
        if found is None:
            raise ConfigError(
                f"{arn!r} is not the ARN of a topic",
                hint="As in arn:aws:sns:eu-central-1:123456789012:changes",
            )
        self.arn = arn
        self.region = found[2]
        self.host = f"sns.{self.region}.amazonaws.com" + (".cn" if found[1] == "aws-cn" else "")
        self._certificate = re.compile(
            rf"https://{re.escape(self.host)}/SimpleNotificationService-[0-9a-f]{{1,64}}\.pem"
        )

    def is_certificate(self, url: str) -> bool:
        """Is this where SNS keeps its certificates, and nothing else?"""
        return self._certificate.fullmatch(url) is not None

    def confirmation(self, token: str) -> str:
        """The address that confirms a subscription. The one in the message is not used."""
        asked = {"Action": "ConfirmSubscription", "TopicArn": self.arn, "Token": token}
        return f"https://{self.host}/?{urlencode(asked)}"


class Certificates:
    """Public keys by the address of their certificate, fetched once and bounded."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, tuple[RSAPublicKey, datetime]] = OrderedDict()
        self._fetched: list[float] = []
        self._fetching = asyncio.Lock()

    async def key(self, url: str, web: Web, now: datetime) -> RSAPublicKey:
        """The key of the certificate at `url`. Raises `Unproven`, `Unavailable`."""
        known = self._keys.get(url)
        if known is None or known[1] <= now:
            async with self._fetching:
                known = self._keys.get(url)
                if known is None or known[1] <= now:
                    self._refuse_a_flood()
                    known = _certificate(await web.get(url, most_bytes=65_536), now)
                    self._keys[url] = known
                    if len(self._keys) > CERTIFICATES_AT_MOST:
                        self._keys.popitem(last=False)
        return known[0]

    def _refuse_a_flood(self) -> None:
        # Whoever sends us names the file; they must not make us fetch without end.
        now = time.monotonic()
        self._fetched = [at for at in self._fetched if now - at < 60]
        if len(self._fetched) >= FETCHES_PER_MINUTE:
            raise Unavailable("too many certificates were asked for in a minute", upstream="sns")
        self._fetched.append(now)


async def verify(call: Call, topic: Topic, certificates: Certificates, web: Web) -> Vouched:
    """Is this a message of our topic, signed by SNS? Raises `Unproven`, `Unavailable`."""
    if call.header("x-amz-sns-rawdelivery") is not None:
        raise Unproven(
            "unsigned_mode",
            "raw delivery has no signature",
            hint="Turn raw message delivery off for this subscription.",
        )
    message = _message(call.body)
    if message["TopicArn"] != topic.arn:
        raise Unproven("wrong_topic")
    url = message["SigningCertURL"]
    if not topic.is_certificate(url):
        raise Unproven("certificate_refused")
    try:
        signature = base64.b64decode(message["Signature"], validate=True)
    except (binascii.Error, ValueError):
        raise Unproven("signature_malformed", "Signature is not base64") from None
    key = await certificates.key(url, web, call.received_at)
    _check(key, message["SignatureVersion"], signature, _signed(message))
    sent_at = datetime.fromisoformat(message["Timestamp"].replace("Z", "+00:00"))
    name = url.rpartition("/")[2]
    return Vouched("sns", name, signature, "request", message["MessageId"], sent_at)


def _message(body: bytes) -> dict[str, str]:
    """The fields that count, each as SNS writes it. Raises `Unproven`."""
    read = strict.load(body, len(body))
    if read.problems or not isinstance(read.value, dict):
        raise Unproven("signature_malformed", "the body is not a message of SNS")
    given = cast("dict[str, Any]", read.value)
    kind = given.get("Type")
    names = SIGNED.get(kind) if isinstance(kind, str) else None
    if names is None:
        raise Unproven("signature_malformed", "Type is not one of SNS")
    message: dict[str, str] = {}
    for name in (*names, "SignatureVersion", "Signature", "SigningCertURL"):
        value = given.get(name)
        if value is None and name == "Subject":
            continue
        if not isinstance(value, str):
            missing = name in ("Signature", "SigningCertURL") and value is None
            reason = "signature_missing" if missing else "signature_malformed"
            raise Unproven(reason, f"{name} is not there, or not text")
        message[name] = value
    for name, form in _FORMS.items():
        if name in message and not form.fullmatch(message[name]):
            raise Unproven("signature_malformed", f"{name} is not as SNS writes it")
    return message


_FORMS = {
    "MessageId": _UUID,
    "Timestamp": _TIME,
    "TopicArn": _LINE,
    "Subject": _LINE,
    "SubscribeURL": _LINE,
    "Token": _TOKEN,
    "SignatureVersion": re.compile("[12]"),
}


def _signed(message: Mapping[str, str]) -> bytes:
    names = SIGNED[message["Type"]]
    return "".join(f"{name}\n{message[name]}\n" for name in names if name in message).encode()


def _check(key: RSAPublicKey, version: str, signature: bytes, signed: bytes) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256

    digest = SHA1() if version == "1" else SHA256()  # version 1 is SHA-1: SNS signs so by default
    try:
        key.verify(signature, signed, PKCS1v15(), digest)
    except InvalidSignature:
        raise Unproven("signature_wrong") from None


def _certificate(pem: bytes, now: datetime) -> tuple[RSAPublicKey, datetime]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise Unproven("certificate_refused", "what is there is no certificate") from None
    ends = certificate.not_valid_after_utc
    if not certificate.not_valid_before_utc <= now < ends:
        raise Unproven("certificate_refused", "the certificate is not valid now")
    key = certificate.public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size < 2048:
        raise Unproven("certificate_refused", "the certificate holds no RSA key of 2048 bits")
    return key, ends

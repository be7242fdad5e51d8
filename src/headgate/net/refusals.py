"""What a cloud said when it refused, as one of a few kinds, in words without secrets.

obstore reports what it sent and what came back as one long text. An address in it may carry a
signature or a token, so nothing of it is passed on but the status, the cloud's own error code and
its sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from .aws import NO_CREDENTIALS

if TYPE_CHECKING:
    from .buckets import Bucket


class Kind(StrEnum):
    """What can be done about it decides the kind. The values are stable: they are reasons."""

    MISSING = "missing_object"
    CHANGED = "object_changed"
    EXISTS = "exists"
    UNNAMEABLE = "unreadable_key"
    UNSUPPORTED = "unsupported"
    NO_BUCKET = "no_such_bucket"
    DENIED = "permission"
    CREDENTIALS = "credentials"
    REGION = "wrong_region"
    CLOCK = "clock_skew"
    THROTTLED = "throttled"
    AWAY = "unavailable"


HINTS = {
    Kind.NO_BUCKET: "Make the bucket, or correct its name where the pipeline says it.",
    Kind.DENIED: "Give the identity Headgate runs as the rights that docs/how-to/cloud-stores.md "
    "lists.",
    Kind.CREDENTIALS: "Renew the credentials of the identity Headgate runs as.",
    Kind.REGION: "Set AWS_REGION (or the profile's region) to the bucket's region.",
    Kind.CLOCK: "Set this machine's clock: run an NTP client.",
    Kind.THROTTLED: "The cloud asks for fewer requests. It is tried again by itself.",
    Kind.AWAY: "Look at the endpoint, the network and the cloud's status page. "
    "It is tried again by itself.",
    Kind.UNNAMEABLE: "Rename it: no empty, '.' or '..' part, no slash at either end, "
    "no control characters.",
}

# The clouds' own codes, which say more than the status.
_CODES = {
    "NoSuchBucket": Kind.NO_BUCKET,
    "ContainerNotFound": Kind.NO_BUCKET,
    "NoSuchKey": Kind.MISSING,
    "NoSuchVersion": Kind.MISSING,
    "BlobNotFound": Kind.MISSING,
    "NoSuchUpload": Kind.AWAY,
    "InvalidAccessKeyId": Kind.CREDENTIALS,
    "SignatureDoesNotMatch": Kind.CREDENTIALS,
    "ExpiredToken": Kind.CREDENTIALS,
    "ExpiredTokenException": Kind.CREDENTIALS,
    "TokenRefreshRequired": Kind.CREDENTIALS,
    "InvalidToken": Kind.CREDENTIALS,
    "InvalidAuthenticationInfo": Kind.CREDENTIALS,
    "AuthenticationFailed": Kind.CREDENTIALS,
    "AuthenticationRequired": Kind.CREDENTIALS,
    "RequestTimeTooSkewed": Kind.CLOCK,
    "AuthorizationHeaderMalformed": Kind.REGION,
    "PermanentRedirect": Kind.REGION,
    "TemporaryRedirect": Kind.REGION,
    "IllegalLocationConstraintException": Kind.REGION,
    "PreconditionFailed": Kind.CHANGED,
    "ConditionNotMet": Kind.CHANGED,
    "NotImplemented": Kind.UNSUPPORTED,
    "SlowDown": Kind.THROTTLED,
    "ServerBusy": Kind.THROTTLED,
    "TooManyRequests": Kind.THROTTLED,
}
_STATUS = {
    401: Kind.CREDENTIALS,
    403: Kind.DENIED,
    404: Kind.MISSING,
    405: Kind.MISSING,  # what S3 says of a version that is a delete marker
    301: Kind.REGION,
    307: Kind.REGION,
    412: Kind.CHANGED,
    429: Kind.THROTTLED,
    501: Kind.UNSUPPORTED,
}
_CLASSES = {
    "FileNotFoundError": Kind.MISSING,
    "AlreadyExistsError": Kind.EXISTS,
    "PreconditionError": Kind.CHANGED,
    "PermissionDeniedError": Kind.DENIED,
    "UnauthenticatedError": Kind.CREDENTIALS,
    "InvalidPathError": Kind.UNNAMEABLE,
    "NotSupportedError": Kind.UNSUPPORTED,
    "NotImplementedError": Kind.UNSUPPORTED,
}
_FOUND_STATUS = re.compile(r"status code: (\d{3})")
_FOUND_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\"code\": ?\"(\w{1,60})\"")
_FOUND_MESSAGE = re.compile(r"<Message>([^<\n\\]{1,200})")
_FOUND_KIND = re.compile(r"kind: (Connect|Timeout|Decode|Interrupted|Request|Unknown)\b")
_NETWORK = {"Connect": "no connection", "Timeout": "no answer in time"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused, why, and what to do next."""

    kind: Kind
    said: str
    hint: str | None


def explain(error: Exception, bucket: Bucket) -> Refusal:
    """Read what obstore raised."""
    if bucket.chain is not None and (cause := bucket.chain.failure) is not None:
        return Refusal(Kind.CREDENTIALS, str(cause), cause.hint)
    head, _, debug = str(error).partition("\nDebug source:")
    if _CLASSES.get(type(error).__name__) is Kind.UNNAMEABLE:
        return classify(Kind.UNNAMEABLE, None, None, head.partition("\n")[0][:300])
    if "performing token request" in head:
        return classify(Kind.CREDENTIALS, None, None, "no credentials can be had")
    status = int(found[1]) if (found := _FOUND_STATUS.search(head)) else None
    code = next(filter(None, found.groups()), None) if (found := _FOUND_CODE.search(head)) else None
    network = found[1] if (found := _FOUND_KIND.search(debug)) else None
    return classify(
        _CLASSES.get(type(error).__name__),
        status,
        code,
        found[1].strip() if (found := _FOUND_MESSAGE.search(head)) else None,
        network="wrong region" if "configured region" in head else _NETWORK.get(network or ""),
    )


def classify(
    kind: Kind | None,
    status: int | None,
    code: str | None,
    message: str | None,
    network: str | None = None,
) -> Refusal:
    """The kind: by the cloud's code, else by the class of the error, else by the status."""
    if network == "wrong region":
        kind, message = Kind.REGION, "the bucket is in another region"
    elif kind not in (Kind.EXISTS, Kind.UNNAMEABLE):
        kind = _CODES.get(code or "") or kind
    sure = kind or _STATUS.get(status or 0, Kind.AWAY)
    said = " ".join(filter(None, (code, f"({status})" if status else None)))
    said = ": ".join(filter(None, (said, message))) or network or sure.value.replace("_", " ")
    return Refusal(sure, said, NO_CREDENTIALS if code == "InvalidAccessKeyId" else HINTS.get(sure))

"""How a queue of SQS is written, and what AWS says when it cannot be used.

orders                                                    in our own account and region
https://sqs.eu-central-1.amazonaws.com/111122223333/orders
arn:aws:sqs:eu-central-1:111122223333:orders.fifo
"""

# botocore comes without types.
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from headgate.errors import ConfigError, HeadgateError, PermissionDenied, Unavailable

from .aws import NO_CREDENTIALS

_ARN = re.compile(r"arn:[a-z-]+:sqs:([a-z0-9-]+):(\d{12}):([\w-]{1,80}(?:\.fifo)?)", re.ASCII)
_URL = re.compile(r"https?://([^/\s]+)/(?:[^\s?#]*/)?(\d{12})/([\w-]{1,80}(?:\.fifo)?)", re.ASCII)
_NAME = re.compile(r"[\w-]{1,80}|[\w-]{1,75}\.fifo", re.ASCII)
_HOST = re.compile(r"(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.(?:amazonaws\.com|api\.aws)")

_MISSING = {
    "QueueDoesNotExist",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDeletedRecently",
    "AWS.SimpleQueueService.QueueDeletedRecently",
    "InvalidAddress",
}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "InvalidSecurity",
    "KMS.AccessDeniedException",
    "KmsAccessDenied",
    "AuthorizationError",
}
_CREDENTIALS = {
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "ExpiredTokenException",
    "MissingAuthenticationToken",
    "IncompleteSignature",
}
_THROTTLED = {
    "RequestThrottled",
    "ThrottlingException",
    "Throttling",
    "TooManyRequestsException",
    "KmsThrottled",
    "KMS.ThrottlingException",
    "SlowDown",
}
_AWAY_HINT = "Look at AWS_ENDPOINT_URL, the network and the status page of AWS. It is tried again."


@dataclass(frozen=True, slots=True)
class Queue:
    """Where a queue is. What is None is our own."""

    name: str
    account: str | None = None
    region: str | None = None
    url: str | None = None

    @property
    def is_fifo(self) -> bool:
        return self.name.endswith(".fifo")


def parse(queue: str) -> Queue:
    """Take a name, a url or an arn apart. Nobody is asked. Raises `ConfigError`."""
    if found := _ARN.fullmatch(queue):
        return Queue(found[3], found[2], found[1])
    if found := _URL.fullmatch(queue):
        host = _HOST.match(found[1])
        return Queue(found[3], found[2], host and (host[1] or host[2]), queue)
    if _NAME.fullmatch(queue):
        return Queue(queue)
    raise ConfigError(
        f"{queue!r} cannot be a queue", hint="Give the name of an SQS queue, its url or its arn."
    )


def misconfigured(error: Exception, queue: str) -> ConfigError:
    """No request can even be made: there is no region, no such profile, no usable endpoint."""
    return ConfigError(
        f"the queue {queue} cannot be used as AWS is configured here: {error}",
        hint="Look at AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL and ~/.aws/config.",
    )


def explain(error: Exception, queue: str, action: str) -> HeadgateError:
    """What botocore raised, as an error that says what to do. `action` is what was asked for."""
    from botocore.exceptions import ClientError, NoCredentialsError

    if isinstance(error, ClientError):
        return _refusal(error, queue, action)
    if isinstance(error, NoCredentialsError):
        return ConfigError(
            "no credentials for AWS were found", reason="credentials", hint=NO_CREDENTIALS
        )
    # Only its kind: the text of some carries addresses that are nobody's business.
    return Unavailable(
        f"the queue {queue} cannot be reached: {type(error).__name__}",
        upstream=queue,
        hint=_AWAY_HINT,
    )


def _refusal(error: Any, queue: str, action: str) -> HeadgateError:
    said = cast("dict[str, Any]", error.response)
    code = str(said.get("Error", {}).get("Code", ""))
    status = said.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in _MISSING:
        return ConfigError(
            f"there is no queue {queue}",
            reason="no_such_queue",
            hint="Make the queue, or correct its name, account and region where the pipeline"
            " says it.",
        )
    if code in _DENIED:
        return PermissionDenied(
            f"we may not use the queue {queue}: {code}",
            hint=f"Allow sqs:{action} to the identity Headgate runs as, and the key of the queue"
            " if it is encrypted. docs/how-to/receive-s3-events.md has the whole policy.",
        )
    if code in _CREDENTIALS:
        return Unavailable(
            f"AWS does not accept our credentials for {queue}: {code}",
            upstream=queue,
            reason="credentials",
            hint="Renew the credentials of the identity Headgate runs as.",
        )
    if code in _THROTTLED or status == 429:
        return Unavailable(
            f"the queue {queue} asks for fewer requests: {code or status}",
            upstream=queue,
            reason="throttled",
            hint="It is tried again, more slowly.",
        )
    if code == "OverLimit":
        return Unavailable(
            f"the queue {queue} has as many messages in flight as SQS allows",
            upstream=queue,
            reason="over_limit",
            hint='Let consumers catch up, or use ack="admitted". It is tried again.',
        )
    return Unavailable(
        f"the queue {queue} refuses {action}: {code or 'no reason'} ({status})",
        upstream=queue,
        hint=_AWAY_HINT,
    )

"""Looking at queues, topics and buckets of AWS, for `headgate doctor`. Nothing is changed.

What is found is judged in `checkup` (the queue) and `checkup_way` (the way to it).
"""

# aiobotocore comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from headgate.errors import HeadgateError
from headgate.model.check import Check
from headgate.model.ports import Wired
from headgate.model.queue_plan import QueuePlan
from headgate.net import aws, queues

from .checkup import Queue, check_dead_letters, check_queue, redrive_target
from .checkup_way import Bucket, Wanted, check_bucket, check_senders

SKEW_SECONDS, REFUSED_SKEW_SECONDS = 60.0, 300.0
CHAIN = {
    "env": "the environment (AWS_ACCESS_KEY_ID)",
    "explicit": "the program itself",
    "shared-credentials-file": "the credentials file of a profile",
    "config-file": "the config file of a profile",
    "custom-process": "a program that the profile names (credential_process)",
    "sso": "single sign-on",
    "login": "aws login",
    "assume-role": "a role that a profile assumes",
    "assume-role-with-web-identity": "a role by web identity (as on Kubernetes)",
    "container-role": "the container's role",
    "iam-role": "the instance's role",
}
_DOCTOR = "Attach doctor_policy_arn of infra/terraform/messaging to this role."


async def look(source: Wired, plan: QueuePlan) -> AsyncGenerator[Check]:
    """Everything between a bucket and the pipeline, the first thing first."""
    async with AsyncExitStack() as stack:
        try:
            named = queues.parse(source.queue)
            session = aws.session()
            check = await _credentials(session)
            yield check
            if check.state == "fail":
                return
            sqs = await stack.enter_async_context(_client(session, "sqs", named.region))
        except Exception as error:
            yield _cannot("aws", error)
            return
        yield await _dns(str(sqs.meta.endpoint_url))
        try:
            queue, said_at = await _queue(sqs, named)
        except Exception as error:
            yield _no_queue(named.name, error)
            return
        yield check_clock(said_at, datetime.now(UTC))
        for check in check_queue(queue, plan):
            yield check
        dead = await _dead(sqs, queue)
        for check in check_dead_letters(queue, plan, dead, source.dead_letters):
            yield check
        async for check in _way(session, stack, source, queue):
            yield check


async def _way(
    session: Any, stack: AsyncExitStack, source: Wired, queue: Queue
) -> AsyncGenerator[Check]:
    """From the bucket to the queue, where the pipeline says which bucket."""
    wanted = _wanted(source)
    found: Bucket | None = None
    if wanted.bucket:
        try:
            s3 = await stack.enter_async_context(_client(session, "s3"))
            sns = await stack.enter_async_context(_client(session, "sns"))
            found = await _bucket(s3, sns, wanted.bucket, queue)
        except Exception as error:
            yield _cannot("bucket", error, wanted.bucket)
    for check in check_senders(queue, found):
        yield check
    if found is not None:
        for check in check_bucket(wanted, found, queue):
            yield check


def _wanted(source: Wired) -> Wanted:
    """What the source chooses of what it is told, where it says so."""
    suffix: str | tuple[str, ...] = getattr(source, "suffix", None) or ""
    return Wanted(
        bucket=getattr(source, "bucket", None) or "",
        prefix=getattr(source, "prefix", None) or "",
        suffixes=(suffix,) if isinstance(suffix, str) else suffix,
    )


def _client(session: Any, service: str, region: str | None = None) -> Any:
    from botocore.config import Config

    # Who waits for a diagnosis does not wait long.
    patience = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2})
    return session.create_client(service, region_name=region, config=patience)


async def _credentials(session: Any) -> Check:
    """Are there some, and which link of the chain gave them?"""
    found = await session.get_credentials()
    if found is None:
        return Check("credentials", "fail", "none were found for AWS", aws.NO_CREDENTIALS)
    async with _client(session, "sts") as sts:
        said = f"from {CHAIN.get(found.method, found.method)}"
        try:
            who = await sts.get_caller_identity()
        except Exception as error:
            if _code(error) in ("ExpiredToken", "InvalidClientTokenId", "SignatureDoesNotMatch"):
                return Check(
                    "credentials", "fail", f"{said}: refused ({_code(error)})", aws.NO_CREDENTIALS
                )
            return Check("credentials", "warn", f"{said}; AWS was not asked whose: {_why(error)}")
    return Check("credentials", "ok", f"{said}: {who['Arn']}")


async def _dns(endpoint: str) -> Check:
    host = urlsplit(endpoint).hostname or endpoint
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError as error:
        hint = "Check the resolver, the region's name, and the VPC endpoint if there is one."
        return Check("dns", "fail", f"{host} has no address: {error.strerror or error}", hint)
    return Check("dns", "ok", f"{host} is {found[0][4][0]}")


def check_clock(theirs: datetime | None, ours: datetime) -> Check:
    if theirs is None:
        return Check("clock", "warn", "AWS did not say what time it is")
    skew = (ours - theirs).total_seconds()
    # Their time has whole seconds, and the answer was on its way.
    said = f"ours differs from that of AWS by {skew:+.0f} s"
    hint = "Run a time daemon (chrony, ntpd). AWS refuses what is five minutes off."
    if abs(skew) >= REFUSED_SKEW_SECONDS:
        return Check("clock", "fail", said, hint)
    if abs(skew) >= SKEW_SECONDS:
        return Check("clock", "warn", said, hint)
    return Check("clock", "ok", said)


async def _queue(sqs: Any, named: queues.Queue) -> tuple[Queue, datetime | None]:
    owner = {"QueueOwnerAWSAccountId": named.account} if named.account else {}
    url = named.url or (await sqs.get_queue_url(QueueName=named.name, **owner))["QueueUrl"]
    answer = await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return Queue(url, answer.get("Attributes", {})), parsedate_to_datetime(date) if date else None


async def _dead(sqs: Any, queue: Queue) -> Queue | None:
    arn = redrive_target(queue)
    if arn is None:
        return None
    try:
        return (await _queue(sqs, queues.parse(arn)))[0]
    except Exception:
        return None


async def _bucket(s3: Any, sns: Any, name: str, queue: Queue) -> Bucket:
    notification = await s3.get_bucket_notification_configuration(Bucket=name)
    versioning = await s3.get_bucket_versioning(Bucket=name)
    subscriptions: dict[str, list[dict[str, Any]]] = {}
    for topic in notification.get("TopicConfigurations", ()):
        arn = topic["TopicArn"]
        subscriptions[arn] = [s async for s in _subscriptions(sns, arn, queue.arn)]
    return Bucket(name, notification, versioning.get("Status", "Off"), subscriptions)


async def _subscriptions(sns: Any, topic: str, queue: str) -> AsyncGenerator[dict[str, Any]]:
    pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    async for page in pages:
        for each in page["Subscriptions"]:
            if each["Endpoint"] != queue:
                continue
            if not each["SubscriptionArn"].startswith("arn:"):
                yield {**each, "PendingConfirmation": "true"}
                continue
            answer = await sns.get_subscription_attributes(SubscriptionArn=each["SubscriptionArn"])
            yield {**each, **answer["Attributes"]}


def _no_queue(name: str, error: Exception) -> Check:
    why = queues.explain(error, name, "GetQueueAttributes")
    if why.reason == "no_such_queue":
        hint = f"aws sqs create-queue --queue-name {name}, or use infra/terraform/messaging."
        return Check("queue", "fail", f"there is no queue {name} in this account and region", hint)
    return Check("queue", "fail", str(why), why.hint)


def _cannot(name: str, error: Exception, what: str = "AWS") -> Check:
    """We could not look; that is a finding too."""
    if isinstance(error, HeadgateError):
        return Check(name, "fail", str(error), error.hint)
    code = _code(error)
    if code in (
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "403",
    ):
        return Check(name, "warn", f"{what}: this role may not look at it", _DOCTOR)
    if code in ("NoSuchBucket", "404"):
        return Check(name, "fail", f"there is no bucket {what}", f"aws s3 mb s3://{what}")
    return Check(name, "fail", f"{what} cannot be looked at: {_why(error)}", "Is AWS_REGION right?")


def _code(error: Exception) -> str:
    response: Any = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _why(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""Does an event find its way from the bucket to the queue? Judged from what each place says.

    bucket ──notification──▶ topic ──subscription──▶ queue ◀── its policy must let the topic send

Everything here is a pure function of fetched documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, cast

from headgate.model.check import Check

from .checkup import Queue

Document = Mapping[str, Any]
_SNS, _S3 = "sns.amazonaws.com", "s3.amazonaws.com"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the pipeline says it listens to."""

    bucket: str
    prefix: str = ""
    suffixes: Sequence[str] = ("",)

    def __str__(self) -> str:
        return ", ".join(f"{self.prefix}*{suffix}" for suffix in self.suffixes)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as S3 describes it; `subscriptions` are those of the topics it announces to."""

    name: str
    notification: Document
    versioning: str
    subscriptions: Mapping[str, Sequence[Document]] = field(
        default_factory=dict[str, Sequence[Document]]
    )


def check_bucket(wanted: Wanted, found: Bucket, queue: Queue) -> Iterator[Check]:
    """Is what the pipeline wants announced, and does it reach the queue?"""
    reaching = list(_reaching(found, queue))
    if found.notification.get("EventBridgeConfiguration") is not None and not reaching:
        said = f"{wanted.bucket} announces to EventBridge; its rules were not looked at"
        yield Check("notifications", "ok", said)
    elif not reaching:
        said = f"nothing that {wanted.bucket} announces reaches {queue.name}"
        yield Check("notifications", "fail", said, _announce(wanted, queue))
    elif not all(any(_covers(c, wanted.prefix, s) for c in reaching) for s in wanted.suffixes):
        shown = ", ".join(_filters(each) for each in reaching)
        said = f"{wanted.bucket} announces {shown}; the pipeline wants {wanted}"
        yield Check("notifications", "fail", said, _announce(wanted, queue))
    else:
        covers = [c for c in reaching if any(_covers(c, wanted.prefix, s) for s in wanted.suffixes)]
        yield _events(wanted, covers, queue)
    for arn in _topics(found):
        for subscription in found.subscriptions.get(arn, ()):
            if subscription.get("Endpoint") == queue.arn:
                yield from _subscription(subscription)
    yield _versioning(wanted.bucket, found.versioning)


def check_senders(queue: Queue, found: Bucket | None) -> Iterator[Check]:
    """Does the queue's policy let in whoever is to send, and nobody else?"""
    statements = _statements(queue)
    for service, arn in _senders(found, queue):
        who = arn.rpartition(":")[2]
        if any(_allows(statement, service, arn) for statement in statements):
            yield Check("policy", "ok", f"{queue.name} lets {who} send")
        else:
            hint = queue.set(Policy=json.dumps(_policy(queue, service, arn)))
            yield Check("policy", "fail", f"{queue.name} does not let {who} send", hint)
    for statement in statements:
        if statement.get("Effect") == "Allow" and _open(statement):
            hint = "Name the topic in a Condition on aws:SourceArn, as infra/terraform/messaging."
            said = f"{queue.name} lets anyone send ({statement.get('Sid') or 'no Sid'})"
            yield Check("policy", "fail", said, hint)
    if not any(_only_tls(statement) for statement in statements):
        hint = "Add a Deny where aws:SecureTransport is false, as infra/terraform/messaging does."
        yield Check("policy", "warn", f"{queue.name} may be used without TLS", hint)


def _reaching(found: Bucket, queue: Queue) -> Iterator[Document]:
    for each in _listed(found.notification, "QueueConfigurations"):
        if each.get("QueueArn") == queue.arn:
            yield each
    for each in _listed(found.notification, "TopicConfigurations"):
        heard = found.subscriptions.get(str(each.get("TopicArn")), ())
        if any(s.get("Endpoint") == queue.arn for s in heard):
            yield each


def _events(wanted: Wanted, configured: Sequence[Document], queue: Queue) -> Check:
    events = sorted({str(event) for each in configured for event in each.get("Events", ())})
    said = f"{wanted.bucket} announces {', '.join(events)} of {_filters(configured[0])}"
    if not any(event.startswith("s3:ObjectCreated:") for event in events):
        return Check("notifications", "fail", f"{said}: no creations", _announce(wanted, queue))
    if "s3:ObjectCreated:*" not in events:
        said += ": objects that are made in other ways (copies, large uploads) are not announced"
        return Check("notifications", "warn", said, _announce(wanted, queue))
    if not any(event.startswith("s3:ObjectRemoved:") for event in events):
        return Check("notifications", "ok", f"{said}; removals are not announced")
    return Check("notifications", "ok", said)


def _subscription(found: Document) -> Iterator[Check]:
    name = str(found.get("TopicArn", "")).rpartition(":")[2]
    if found.get("PendingConfirmation") == "true":
        hint = "aws sns confirm-subscription, with the token that was sent to the queue."
        yield Check("subscription", "fail", f"{name}: not confirmed yet", hint)
        return
    raw = found.get("RawMessageDelivery") == "true"
    said = "the notification itself (raw)" if raw else "wrapped in SNS's own JSON"
    yield Check("subscription", "ok", f"{name} delivers {said}; both are read")
    change = (
        f"aws sns set-subscription-attributes --subscription-arn {found.get('SubscriptionArn')}"
    )
    if (policy := found.get("FilterPolicy")) and policy != "{}":
        said = f"{name} delivers only what matches {policy}"
        hint = (
            f"If it was not meant: {change} --attribute-name FilterPolicy --attribute-value '{{}}'"
        )
        yield Check("subscription", "warn", said, hint)
    if not found.get("RedrivePolicy"):
        said = f"{name}: what cannot be delivered is dropped"
        hint = (
            f"{change} --attribute-name RedrivePolicy"
            ' --attribute-value \'{"deadLetterTargetArn": "DEAD_LETTERS_ARN"}\''
        )
        yield Check("subscription", "warn", said, hint)


def _versioning(bucket: str, status: str) -> Check:
    if status == "Enabled":
        said = f"{bucket} keeps versions: each change is read as it was, and known by its version"
        return Check("versioning", "ok", said)
    hint = (
        f"aws s3api put-bucket-versioning --bucket {bucket}"
        " --versioning-configuration Status=Enabled"
    )
    said = (
        f"{bucket} keeps no versions: changes are known by their sequencer, and one that was"
        " overwritten before it was read is read as its successor"
    )
    return Check("versioning", "warn", said, hint)


def _covers(configured: Document, wanted_prefix: str, wanted_suffix: str) -> bool:
    prefix, suffix = _filter(configured)
    return wanted_prefix.startswith(prefix) and wanted_suffix.endswith(suffix)


def _filter(configured: Document) -> tuple[str, str]:
    """Prefix and suffix. S3 writes the names in either case."""
    rules = configured.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    said = {str(rule["Name"]).lower(): str(rule.get("Value", "")) for rule in rules}
    return said.get("prefix", ""), said.get("suffix", "")


def _filters(configured: Document) -> str:
    prefix, suffix = _filter(configured)
    return f"{prefix}*{suffix}"


def _announce(wanted: Wanted, queue: Queue) -> str:
    if queue.fifo:
        return "S3 announces to no FIFO queue: turn on EventBridge and send by a rule."
    configured = [
        {
            "QueueArn": queue.arn,
            "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
            "Filter": {"Key": {"FilterRules": _rules(prefix=wanted.prefix, suffix=suffix)}},
        }
        for suffix in wanted.suffixes
    ]
    said = json.dumps({"QueueConfigurations": configured})
    return (
        f"aws s3api put-bucket-notification-configuration --bucket {wanted.bucket}"
        f" --notification-configuration '{said}' (it replaces all that is configured)"
    )


def _rules(**wanted: str) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value} for name, value in wanted.items() if value]


def _topics(found: Bucket) -> list[str]:
    return [str(t.get("TopicArn")) for t in _listed(found.notification, "TopicConfigurations")]


def _listed(document: Document, name: str) -> list[Document]:
    return cast("list[Document]", document.get(name) or [])


def _senders(found: Bucket | None, queue: Queue) -> Iterator[tuple[str, str]]:
    """Who is to send here, by what the bucket and its topics say."""
    if found is None:
        return
    if any(
        c.get("QueueArn") == queue.arn for c in _listed(found.notification, "QueueConfigurations")
    ):
        yield _S3, f"arn:{queue.arn.split(':')[1]}:s3:::{found.name}"
    for arn, subscriptions in found.subscriptions.items():
        if any(s.get("Endpoint") == queue.arn for s in subscriptions):
            yield _SNS, arn


def _statements(queue: Queue) -> list[Document]:
    try:
        policy = json.loads(queue.attributes.get("Policy") or "{}")
    except ValueError:
        return []
    found = policy.get("Statement", [])
    return [found] if isinstance(found, dict) else found


def _allows(statement: Document, service: str, arn: str) -> bool:
    named = _anyone(statement) or service in _many(_principal(statement).get("Service"))
    arns = _source_arns(statement)
    meant = not arns or any(fnmatchcase(arn, pattern) for pattern in arns)
    return statement.get("Effect") == "Allow" and _sends(statement) and named and meant


def _open(statement: Document) -> bool:
    return _sends(statement) and _anyone(statement) and not statement.get("Condition")


def _sends(statement: Document) -> bool:
    actions = [action.lower() for action in _many(statement.get("Action"))]
    return any(fnmatchcase("sqs:sendmessage", action) for action in actions)


def _anyone(statement: Document) -> bool:
    said = statement.get("Principal")
    return said == "*" or "*" in _many(_principal(statement).get("AWS"))


def _only_tls(statement: Document) -> bool:
    condition = statement.get("Condition", {}).get("Bool", {})
    said = condition.get("aws:SecureTransport")
    return statement.get("Effect") == "Deny" and str(said).lower() in ("false", "['false']")


def _principal(statement: Document) -> Document:
    said = statement.get("Principal")
    return cast("Document", said) if isinstance(said, dict) else {}


def _source_arns(statement: Document) -> list[str]:
    return [
        value
        for condition in cast("Document", statement.get("Condition", {})).values()
        for name, values in cast("Document", condition).items()
        if name.lower() == "aws:sourcearn"
        for value in _many(values)
    ]


def _policy(queue: Queue, service: str, arn: str) -> Document:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": "sqs:SendMessage",
                "Resource": queue.arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": arn}},
            }
        ],
    }


def _many(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    return [str(one) for one in cast("list[object]", value)]

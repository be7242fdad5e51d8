"""SNS: what it wraps, and what it asks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.parse.documents import bridged, one, read, record, records, refused, sns

from headgate.model.parse import Confirmation

TOPIC = "arn:aws:sns:eu-central-1:000000000000:rain"
ADDRESS = "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=t0"
ASKED = {
    "Type": "SubscriptionConfirmation",
    "MessageId": "m-1",
    "Token": "t0",
    "TopicArn": TOPIC,
    "Message": "You have chosen to subscribe",
    "SubscribeURL": ADDRESS,
    "Timestamp": "2026-05-01T12:00:00.000Z",
}


def test_a_question_is_handed_on_and_not_answered():
    """Only whoever knows the topic may visit the address."""
    told = read(ASKED, provider="sns")
    assert told.confirmation == Confirmation(TOPIC, "t0", ADDRESS)
    assert told.records == []


def test_a_good_bye_is_ignored():
    """Its address would subscribe again."""
    told = read(ASKED | {"Type": "UnsubscribeConfirmation"})
    assert (told.confirmation, told.ignored) == (None, ["sns:UnsubscribeConfirmation"])


@pytest.mark.parametrize("provider", [None, "sns", "s3"])
def test_wrapped_and_raw_are_both_read(provider: str | None):
    wrapped = one(sns(records(record())), provider=provider)
    assert wrapped == one(records(record()), provider=provider)
    assert one(sns(bridged()), provider=provider) == one(bridged(), provider=provider)


@pytest.mark.parametrize(
    ("document", "reason", "field"),
    [
        (ASKED | {"Token": ""}, "missing_field", "Token"),
        (ASKED | {"SubscribeURL": "http://sns.example/"}, "out_of_range", "SubscribeURL"),
        (ASKED | {"Type": "Greeting"}, "unknown_event", "Type"),
        (ASKED | {"Type": 5}, "unknown_event", "Type"),
        (sns("hello"), "not_json", "Message"),
        (sns(""), "empty", "Message"),
        (sns("{}"), "unknown_shape", "Message"),
        (sns(sns(records(record()))), "unknown_shape", "Message"),
        (sns("x", Message=None), "wrong_type", "Message"),
        (sns(records(record(), 5)) | {"Message": "[5]"}, "unknown_shape", "Message[0]"),
    ],
)
def test_what_is_wrong_is_named(document: Any, reason: str, field: str):
    assert refused(document) == (reason, field)


def test_only_the_shapes_of_the_provider_are_taken():
    """Who may push for one provider does not speak for another."""
    for provider in ("gcs", "azure", "cloudevents", "headgate", "eventbridge", "minio"):
        assert refused(sns(records(record())), provider=provider)[0] == "unknown_shape"
    assert refused(sns({"uri": "s3://a/b"}), provider="s3")[0] == "unknown_shape"


def test_a_provider_that_is_none_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="there are s3, minio"):
        read(b"{}", provider="ftp")

"""Bucket → topic → queue → dead letters on the emulator, as the Terraform module makes them."""

from __future__ import annotations

import json

from tests.aws.emulator import Aws

import headgate as hg
from headgate.model.queue_plan import queue_plan
from headgate.model.verdict import UPSTREAM

PLAN = queue_plan(UPSTREAM, ack="admitted", deadline_seconds=3600)


def build(aws: Aws, **attributes: str) -> hg.S3Events:
    """All of it, under fresh names; `attributes` are set on the queue beside what is right."""
    sqs, sns, s3 = (aws.client(service) for service in ("sqs", "sns", "s3"))
    queue, dead, bucket = aws.name("rain"), aws.name("dead"), aws.bucket("rain", versions=True)
    kept = {"MessageRetentionPeriod": str(PLAN.dead_letter_retention_seconds)}
    encrypted = {"SqsManagedSseEnabled": "true"}
    dead_url = sqs.create_queue(QueueName=dead, Attributes=kept | encrypted)["QueueUrl"]
    named = sqs.get_queue_attributes(QueueUrl=dead_url, AttributeNames=["QueueArn"])
    dead_arn = named["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name=aws.name("events"))["TopicArn"]
    arn = dead_arn.removesuffix(dead) + queue
    send = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    tls = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    redrive = {"deadLetterTargetArn": dead_arn, "maxReceiveCount": PLAN.max_receive_count}
    sqs.create_queue(
        QueueName=queue,
        Attributes={
            "VisibilityTimeout": str(PLAN.visibility_seconds),
            "MessageRetentionPeriod": str(PLAN.retention_seconds),
            "RedrivePolicy": json.dumps(redrive),
            "Policy": json.dumps({"Version": "2012-10-17", "Statement": [send, tls]}),
            **encrypted,
            **attributes,
        },
    )
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=arn,
        Attributes={
            "RawMessageDelivery": "true",
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": dead_arn}),
        },
    )
    s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={
            "TopicConfigurations": [
                {
                    "TopicArn": topic,
                    "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
                    "Filter": {"Key": {"FilterRules": [{"Name": "suffix", "Value": ".csv"}]}},
                }
            ]
        },
    )
    return hg.S3Events(queue=queue, dead_letters=dead, bucket=bucket, suffix=".csv")

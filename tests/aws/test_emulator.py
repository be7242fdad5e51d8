"""The AWS that tests talk to is there, is alone on loopback, and goes when the tests go."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.aws.emulator import PROJECT, Aws

# Starts an emulator, says where it is, and waits to be killed.
HOLD = """
import sys, tempfile
from pathlib import Path
from tests.aws.emulator import running
with running(Path(tempfile.mkdtemp(dir=sys.argv[1]))) as aws:
    print(aws.endpoint, flush=True)
    sys.stdin.read()
"""


def test_a_bucket_tells_its_topic_and_the_topic_its_queue(aws: Aws) -> None:
    """Bucket → topic → queue works on the emulator, so that triggers can be tested on it."""
    s3, sns, sqs = aws.client("s3"), aws.client("sns"), aws.client("sqs")
    topic = sns.create_topic(Name=aws.name("changes"))["TopicArn"]
    queue = sqs.create_queue(QueueName=aws.name("changes"))["QueueUrl"]
    asked = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=asked["Attributes"]["QueueArn"])
    bucket = aws.bucket(versions=True)
    s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={
            "TopicConfigurations": [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]
        },
    )
    s3.put_object(Bucket=bucket, Key="rain.csv", Body=b"mm\n")
    bodies = ""
    while "rain.csv" not in bodies:
        got = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, MaxNumberOfMessages=10)
        assert got.get("Messages"), "the queue was told nothing"
        bodies += "".join(message["Body"] for message in got["Messages"])
    assert "ObjectCreated:Put" in bodies
    assert "versionId" in bodies


def test_the_emulator_goes_with_whoever_started_it(aws: Aws, tmp_path: Path) -> None:
    """Tests that are killed leave no server behind."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        endpoint = holder.stdout.readline().strip()
        assert _answers(endpoint)
        os.kill(holder.pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while _answers(endpoint) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _answers(endpoint)


def _answers(endpoint: str) -> bool:
    host, _, port = endpoint.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0

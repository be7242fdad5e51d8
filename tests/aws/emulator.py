"""AWS on this machine: `ministack` on a free port of 127.0.0.1, one per process that runs tests.

A test that asks for `aws` finds the environment pointing to the emulator, as it would find it on a
machine of AWS: whatever reads `AWS_ENDPOINT_URL` and the usual variables talks to it, in this
process and in those it starts. Names are shared by the tests of a process: take fresh ones
(`aws.name("orders")`).
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PYTHON = PROJECT / ".venv-aws" / "bin" / "python"
SERVICES = "s3,sqs,sns,sts,iam,kms,events"
REGION = "eu-central-1"
START_SECONDS = 60
_NUMBERS = itertools.count(1)

# It ends with whoever started it, however that ended: its standard input is then at its end.
LAUNCH = """
import os, sys, threading
def end_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)
threading.Thread(target=end_with_parent, daemon=True).start()
from ministack.app import main
sys.argv = ["ministack"]
main()
"""

# What a developer has set up for the real AWS must not reach the tests, nor the tests it.
_FOREIGN = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN")


class Aws:
    """An emulated AWS account."""

    def __init__(self, endpoint: str, pid: int) -> None:
        self.endpoint = endpoint
        self.region = REGION
        self.pid = pid

    @property
    def env(self) -> dict[str, str]:
        """The variables that lead to it; nothing else of AWS should be in the environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def client(self, service: str) -> Any:
        """A botocore client, for what a test does on the other side: `aws.client("s3")`."""
        return _client(self.endpoint, service)

    def name(self, stem: str) -> str:
        """A name that no other test uses, fit for buckets, queues and topics."""
        return f"{stem}-{os.getpid()}-{next(_NUMBERS)}"

    def bucket(self, stem: str = "lake", *, versions: bool = False) -> str:
        """A new bucket, with versioning if asked for; its name."""
        name, s3 = self.name(stem), self.client("s3")
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": self.region})
        if versions:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return name


@pytest.fixture(scope="session")
def aws_server() -> Iterator[Aws]:
    """The emulator's process, for as long as the tests of this process run."""
    if not PYTHON.exists():
        pytest.skip("NOT TESTED: no emulator of AWS here. Run: make .venv-aws/ready")
    folder = Path(tempfile.mkdtemp(prefix="hg-aws-"))
    try:
        with running(folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def aws(aws_server: Aws, monkeypatch: pytest.MonkeyPatch) -> Aws:
    """An emulated AWS account, and the environment that leads to it."""
    for name in _FOREIGN:
        monkeypatch.delenv(name, raising=False)
    for name, value in aws_server.env.items():
        monkeypatch.setenv(name, value)
    return aws_server


@contextmanager
def running(folder: Path) -> Iterator[Aws]:
    """An emulator that keeps its files in `folder`; ended by its process id."""
    with _started(folder) as (server, endpoint):
        try:
            yield Aws(endpoint, server.pid)
        finally:
            server.terminate()
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()


@contextmanager
def _started(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    # Another process may take the free port between our looking and the emulator's.
    for _ in range(5):
        port = _free_port()
        endpoint = f"http://127.0.0.1:{port}"
        with (folder / "log").open("wb") as log, _launch(folder, port, log.fileno()) as server:
            if _answers(endpoint, server):
                yield server, endpoint
                return
            server.kill()
    log = (folder / "log").read_text(errors="replace")
    pytest.fail(f"the emulator of AWS does not start:\n{log[-2000:]}")


def _launch(folder: Path, port: int, log: int) -> subprocess.Popen[bytes]:
    own = {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": REGION,
        "SERVICES": SERVICES,
        "LOG_LEVEL": "WARNING",
        "TMPDIR": str(folder),
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.Popen(
        [PYTHON, "-c", LAUNCH],
        env=kept | own, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log,
    )  # fmt: skip


def _answers(endpoint: str, server: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{endpoint}/_ministack/ready", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)  # there is no event for a port that is about to be open
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@cache
def _client(endpoint: str, service: str) -> Any:
    from botocore.config import Config
    from botocore.session import Session

    return Session().create_client(
        service,
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
    )

"""Servers of the services tier: on a free port of 127.0.0.1, ended by their process id.

`scripts/services` installs them into `.services/`. One that is not there is reported as not tested.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

SERVICES = Path(__file__).parents[2] / ".services"
AZURITE = SERVICES / "azurite/node_modules/azurite/dist/src/blob/main.js"
FAKE_GCS = SERVICES / "fake-gcs-server/fake-gcs-server"
PROMETHEUS = SERVICES / "prometheus/usr/bin/prometheus"
START_SECONDS = 60


@contextmanager
def azure(folder: Path) -> Iterator[dict[str, str]]:
    """Azure's blob storage with an account of its own; the environment that leads to it."""
    node = shutil.which("node")
    if node is None or not AZURITE.exists():
        pytest.skip("NOT TESTED: no azurite here (it needs node). Run: make test-services")
    port, key = free_port(), base64.b64encode(secrets.token_bytes(64)).decode()
    command = [node, str(AZURITE), "--blobHost", "127.0.0.1", "--blobPort", str(port),
               "--location", str(folder), "--skipApiVersionCheck", "--silent",
               "--disableTelemetry"]  # fmt: skip
    with _running(command, {"AZURITE_ACCOUNTS": f"headgate:{key}"}, port, folder):
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": "headgate",
            "AZURE_STORAGE_ACCOUNT_KEY": key,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/headgate",
        }


@contextmanager
def google(folder: Path) -> Iterator[dict[str, str]]:
    """Google's storage; the environment that leads to it. It asks for no credentials."""
    if not FAKE_GCS.exists():
        pytest.skip("NOT TESTED: no fake-gcs-server here (it needs go). Run: make test-services")
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [str(FAKE_GCS), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
               "-external-url", endpoint, "-public-host", f"127.0.0.1:{port}",
               "-backend", "memory"]  # fmt: skip
    with _running(command, {}, port, folder):
        yield {"GOOGLE_BASE_URL": endpoint, "GOOGLE_BEARER_TOKEN": secrets.token_hex(8)}


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    """A Prometheus with the `prometheus.yml` of a folder; its address."""
    if not PROMETHEUS.exists():
        pytest.skip("NOT TESTED: no prometheus here (it needs apt). Run: make test-services")
    port = free_port()
    command = [
        str(PROMETHEUS),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with _running(command, {}, port, folder):
        yield f"http://127.0.0.1:{port}"


def make_container(env: Mapping[str, str], name: str) -> None:
    """Make a container of Azure. obstore has no call for that, so it is signed here."""
    account, key = env["AZURE_STORAGE_ACCOUNT_NAME"], env["AZURE_STORAGE_ACCOUNT_KEY"]
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    lines = ["PUT", *[""] * 11, *(f"{one}:{headers[one]}" for one in sorted(headers))]
    lines += [f"/{account}/{account}/{name}", "restype:container"]
    seal = hmac.new(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(seal).decode()}"
    headers["Content-Length"] = "0"
    _ask(env["AZURE_STORAGE_ENDPOINT"], "PUT", f"/{name}?restype=container", headers)


def make_bucket(env: Mapping[str, str], name: str) -> None:
    """Make a bucket of Google, with versions."""
    asked = json.dumps({"name": name, "versioning": {"enabled": True}})
    headers = {"Content-Type": "application/json"}
    _ask(env["GOOGLE_BASE_URL"], "POST", "/storage/v1/b?project=p", headers, asked)


def put_object(env: Mapping[str, str], bucket: str, name: str, body: str) -> str:
    """Put an object into a bucket of Google; its generation."""
    path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
    return str(json.loads(_ask(env["GOOGLE_BASE_URL"], "POST", path, {}, body))["generation"])


def _ask(
    endpoint: str, method: str, path: str, headers: dict[str, str], body: str | None = None
) -> bytes:
    at = urlsplit(endpoint)
    connection = http.client.HTTPConnection(at.netloc, timeout=30)
    connection.request(method, at.path + path, body and body.encode(), headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status in (200, 201), f"{method} {path}: {answer.status} {said[:500]!r}"
    return said


@contextmanager
def _running(
    command: Sequence[str], env: Mapping[str, str], port: int, folder: Path
) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, env=os.environ | env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + START_SECONDS
        while not _open(port):
            if server.poll() is not None or time.monotonic() > until:
                pytest.fail(f"{command[0]} does not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)  # there is no event for a port that is about to be open
        yield
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

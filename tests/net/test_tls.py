"""https: the name is proved by its certificate, though the address is the one that was checked."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.net.webs import Asked, say, speaking

# In a process of its own: which certificates are trusted is decided when a process starts.
ASK = """
import asyncio, sys
from headgate.errors import HeadgateError
from headgate.net.guard import Guard
from headgate.net.http import Client

async def lookup(host, port):
    return ["127.0.0.1"]

async def ask(url, trusted):
    guard = Guard("127.0.0.1", lookup=lookup)
    async with Client(guard=guard) as client, client.ask(url, trusted=trusted) as answer:
        answer.expect()
        return (await answer.read(100)).decode()

async def main():
    for url in sys.argv[1:]:
        try:
            print("read", await ask(url, "localhost" in url))
        except HeadgateError as error:
            print(error.reason, error)

asyncio.run(main())
"""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """For `files.example` and `localhost`; key and certificate in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    names = [x509.DNSName("files.example"), x509.DNSName("localhost")]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


def test_names_are_proved_and_https_is_not_left(certificate: Path) -> None:
    """SNI and the certificate are by name; another name fails; a redirect to http is refused."""
    heard: list[str] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _sock, name, _context: heard.append(str(name))

    async def plain(_: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "200 OK", b"plain")

    async def speak(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.path == "/down":
            return say(writer, "302 Found", Location=f"http://files.example:{open_web.port}/")
        say(writer, "200 OK", asked.headers["host"].encode())

    with speaking(plain) as open_web, speaking(speak, ssl=context) as web:
        urls = [
            f"https://files.example:{web.port}/",
            f"https://other.example:{web.port}/",
            f"https://localhost:{web.port}/down",
        ]
        done = subprocess.run(
            [sys.executable, "-c", ASK, *urls],
            env={**os.environ, "SSL_CERT_FILE": str(certificate)},
            capture_output=True,
            text=True,
            timeout=30,
        )
    good, other, down = done.stdout.splitlines()
    assert good == f"read files.example:{web.port}"
    assert other.startswith("unavailable")
    assert "ertificate" in other
    assert down.startswith("egress_refused")
    assert "from https to http" in down
    assert heard == ["files.example", "other.example", "localhost"]
    assert not open_web.asked

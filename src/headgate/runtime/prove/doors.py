"""The doors of a process: connections and other programs. Seen, told, and shut where they must be.

The interpreter announces both to an audit hook, whichever library asks, as long as it asks through
Python. Loopback stays open: that is where mail sinks and test servers listen. What lies beyond this
machine is refused unless the network was asked for. A database that Headgate cannot put a scratch
one in place of is refused wherever it is.
"""

from __future__ import annotations

import inspect
import ipaddress
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from .scene import Log, is_aside, is_users

# Postgres, MySQL, SQL Server, Oracle, MongoDB, Redis: real data, with drivers we do not know.
DATABASE_PORTS = frozenset({5432, 6432, 3306, 1433, 1521, 27017, 6379})
_KINDS = {"smtplib": "smtp", "http.client": "http", "ftplib": "ftp", "httpcore": "http"}
_TOLD_WHEN_SENT = ("smtp", "http")
_REQUEST = re.compile(rb"([A-Z]+) \S+ HTTP/")


class ConnectionShut(ConnectionRefusedError):
    """A connection that `headgate prove` does not open."""


def watch(log: Log, dsn: str, *, network: bool) -> None:
    """See and guard the doors of this process from now on."""
    doors = _Doors(log, dsn, network)
    events: dict[str, Callable[[tuple[Any, ...]], None]] = {
        "socket.connect": lambda given: doors.connect(given[1]),
        "socket.sendto": lambda given: doors.connect(given[1]),
        "http.client.send": lambda given: doors.http(*given),
        "smtplib.send": lambda given: doors.smtp(*given),
        "subprocess.Popen": lambda given: doors.process(given[1]),
        "os.system": lambda given: doors.process(given[0]),
        "os.posix_spawn": lambda given: doors.process(given[1]),
        "os.exec": lambda given: doors.process(given[1]),
    }

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if (seen := events.get(event)) is not None and not is_aside() and is_users():
            seen(given)

    sys.addaudithook(hook)


class _Doors:
    def __init__(self, log: Log, dsn: str, network: bool) -> None:
        self._log = log
        self._network = network
        self._scratch = _addresses(dsn)

    def connect(self, address: Any) -> None:
        to = _text(address)
        if to in self._scratch:
            return  # Headgate itself, or a connection of the user's that was led there and told
        shut, kind = self._shut(address), _kind()
        # Mail and requests are told when they are sent: a connection may serve many, or none.
        if shut is not None or kind not in _TOLD_WHEN_SENT:
            self._log.tell("connect", to=to, kind=kind, refused=shut is not None)
        if shut is not None:
            raise ConnectionShut(f"headgate prove did not connect to {to}: {shut}")

    def http(self, client: Any, data: Any) -> None:
        if isinstance(data, bytes) and (said := _REQUEST.match(data)) is not None:
            to = f"{client.host}:{client.port}"
            kind = f"http {said[1].decode()}"
            self._log.tell("connect", to=to, kind=kind, refused=False)

    def smtp(self, client: Any, data: Any) -> None:
        text = data if isinstance(data, str) else bytes(data[:10]).decode("ascii", "replace")
        if text[:10].lower() == "mail from:":
            to = _text(client.sock.getpeername())
            self._log.tell("connect", to=to, kind="smtp", refused=False)

    def _shut(self, address: Any) -> str | None:
        """Why nobody goes there; None when they may."""
        if isinstance(address, (str, bytes)):
            if ".s.PGSQL." in os.fsdecode(address):
                return "it is a database, and not the scratch one"
            return None
        host, port = cast("Sequence[Any]", address)[:2]
        if port in DATABASE_PORTS:
            return "it is a database, and not the scratch one"
        if self._network or _is_here(str(host)):
            return None
        return "it is beyond this machine (--network allows it)"

    def process(self, command: Any) -> None:
        match command:
            case str() | bytes() | os.PathLike():
                text = os.fsdecode(cast("str | bytes", command))
            case _:
                text = shlex.join(os.fsdecode(part) for part in command)
        self._log.tell("process", command=text)


def _kind() -> str:
    """What is spoken, by the library that speaks it."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if (kind := _KINDS.get(name) or _KINDS.get(name.partition(".")[0])) is not None:
            return kind
        frame = frame.f_back
    return "socket"


def _addresses(dsn: str) -> set[str]:
    """Where the scratch server listens, as `_text` says it."""
    parts = urlsplit(dsn)
    folders = parse_qs(parts.query).get("host", [])
    port = parts.port or int(parse_qs(parts.query).get("port", ["5432"])[0])
    hosts = [parts.hostname] if parts.hostname else []
    if "localhost" in hosts:
        hosts += ["127.0.0.1", "::1"]
    return {f"{host}:{port}" for host in hosts} | {
        f"{folder}/.s.PGSQL.{port}" if folder.startswith("/") else f"{folder}:{port}"
        for folder in folders
    }


def _text(address: Any) -> str:
    if isinstance(address, (str, bytes)):
        return os.fsdecode(address)
    host, port = address[:2]
    return f"{host}:{port}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in ("", "localhost")

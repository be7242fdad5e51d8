"""The doors of a process: connections and other programs. Seen, told, and shut where they must be.

The interpreter announces both to an audit hook, whichever library asks, as long as it asks through
Python. Loopback stays open: that is where mail sinks and test servers listen. What lies beyond this
machine is refused unless the network was asked for. A database that Headgate cannot put a scratch
one in place of is refused wherever it is.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import os
import re
import shlex
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from .imports import when_imported
from .scene import Log, is_aside, is_users

# Postgres, MySQL, SQL Server, Oracle, MongoDB, Redis: real data, with drivers we do not know.
DATABASE_PORTS = frozenset({5432, 6432, 3306, 1433, 1521, 27017, 6379})
_KINDS = {"smtplib": "smtp", "http.client": "http", "ftplib": "ftp", "httpcore": "http"}
_TOLD_WHEN_SENT = ("smtp", "http")
_DATABASE = "it is a database, and not the scratch one"
_UNKNOWN = "whoever listens there is real (say --network if it may be spoken to)"
_BEYOND = "it is beyond this machine (--network allows it)"
# A program that is told which database to go to. Without being told it goes to the scratch one.
_NAMES_DATABASE = re.compile(
    r"\b(postgres(ql)?|mysql|mongodb(\+srv)?|rediss?|mssql)://"
    r"|^(\S*/)?(psql|pg_restore|mysql|mongosh|redis-cli)\b.*(\s-h|--host|\bhost=)"
)
_REQUEST = re.compile(rb"([A-Z]+) \S+ HTTP/")


class ConnectionShut(ConnectionRefusedError):
    """A connection that `headgate prove` does not open."""


def watch(log: Log, dsn: str, *, network: bool) -> None:
    """See and guard the doors of this process from now on."""
    doors = _Doors(log, dsn, network)
    events: dict[str, Callable[[tuple[Any, ...]], None]] = {
        "socket.connect": lambda given: doors.connect(given[1]),
        "socket.sendto": lambda given: doors.connect(given[1]),
        "socket.getaddrinfo": lambda given: doors.look_up(*given[:2]),
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
    when_imported("uvloop", _make_plain)


def _make_plain(module: ModuleType) -> None:
    """uvloop connects in C, where no hook is asked: here its loops are asyncio's own."""
    uvloop = cast("Any", module)
    uvloop.new_event_loop = uvloop.Loop = asyncio.new_event_loop
    uvloop.EventLoopPolicy = asyncio.DefaultEventLoopPolicy


class _Doors:
    def __init__(self, log: Log, dsn: str, network: bool) -> None:
        self._log = log
        self._network = network
        self._scratch = _addresses(dsn)

    def connect(self, address: Any) -> None:
        to = _text(address)
        if to in self._scratch:
            return  # Headgate itself, or a connection of the user's that was led there and told
        if (why := self._shut(address)) is not None:
            self._refuse(to, why)
        # Mail and requests are told when they are sent: a connection may serve many, or none.
        if (kind := _kind()) not in _TOLD_WHEN_SENT:
            self._log.tell("connect", to=to, kind=kind, refused=False)

    def look_up(self, host: Any, port: Any) -> None:
        """A name beyond this machine is refused before it is looked up: that may take long."""
        name = "" if host is None else os.fsdecode(host)
        if self._network or name in ("", socket.gethostname()) or _is_here(name):
            return
        try:
            ipaddress.ip_address(name)  # asks nobody; `connect` will judge it
        except ValueError:
            self._refuse(f"{name}:{port}", _BEYOND)

    def _refuse(self, to: str, why: str) -> None:
        self._log.tell("connect", to=to, kind=_kind(), refused=True)
        raise ConnectionShut(f"headgate prove did not connect to {to}: {why}")

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
            path = os.fsdecode(address)
            if ".s.PGSQL." in path:
                return _DATABASE
            return None if self._network or _is_scratch(path) else _UNKNOWN
        host, port = cast("Sequence[Any]", address)[:2]
        if port in DATABASE_PORTS:
            return _DATABASE
        if self._network or _is_here(str(host)):
            return None
        return _BEYOND

    def process(self, command: Any) -> None:
        match command:
            case str() | bytes() | os.PathLike():
                text = os.fsdecode(cast("str | bytes", command))
            case _:
                text = shlex.join(os.fsdecode(part) for part in command)
        shut = _NAMES_DATABASE.search(text) is not None
        self._log.tell("process", command=text, refused=shut)
        if shut:
            raise ConnectionShut(f"headgate prove did not start {text.split()[0]}: {_DATABASE}")


def _kind() -> str:
    """What is spoken, by the library that speaks it."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if (kind := _KINDS.get(name) or _KINDS.get(name.partition(".")[0])) is not None:
            return kind
        frame = frame.f_back
    return "socket"


def _is_scratch(path: str) -> bool:
    """A socket without a name, or in a folder that ends with this process."""
    folders = (tempfile.gettempdir(), os.getcwd())
    return not path or any(os.path.abspath(path).startswith(f + os.sep) for f in folders)


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
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host in ("", "localhost")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    return address.is_loopback or address.is_unspecified

"""The egress guard: a stranger does not choose which machine we talk to.

A host that is written in pipeline code was chosen by the operator and is not guarded. A host that
arrives in data, or in the redirect of a server, is: it must be a public address on an ordinary
port, unless the operator's list (`egress_allow`) has it.

A name is resolved once, every address it has is checked, and the connection goes to one of exactly
these: a name server that answers differently the second time is not asked a second time.
"""

from __future__ import annotations

import asyncio
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from headgate.errors import ConfigError, PermissionDenied, Unavailable

from .address import Address, literal, why_not

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
PORTS = frozenset({80, 443})
HINT = (
    "Nothing was sent. If this is meant, allow it: "
    'HEADGATE_EGRESS_ALLOW="files.example:8080, .internal.example, 10.1.0.0/16"'
)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")


def refused(what: str, why: str) -> PermissionDenied:
    """The error of everything that is stopped here."""
    return PermissionDenied(f"{what} is not asked: {why}", reason="egress_refused", hint=HINT)


@dataclass(frozen=True, slots=True)
class Allowed:
    """One entry of the list: a host, a suffix of hosts, or a network; on one port or on all."""

    name: str
    network: IPv4Network | IPv6Network | None
    port: int | None

    def has_name(self, host: str, port: int) -> bool:
        if self.network is not None or self.port not in (None, port):
            return False
        return host.endswith(self.name) if self.name[0] == "." else host == self.name

    def has_address(self, address: Address, port: int) -> bool:
        return self.network is not None and self.port in (None, port) and address in self.network


class Guard:
    """What may be reached when others say where to. `lookup` resolves a name into addresses."""

    def __init__(
        self,
        allow: str | Iterable[str] = (),
        *,
        ports: Iterable[int] = PORTS,
        lookup: Lookup | None = None,
    ) -> None:
        entries = re.split(r"[,\s]+", allow) if isinstance(allow, str) else allow
        self._allow = [_entry(entry) for entry in entries if entry]
        self._ports = frozenset(ports)
        self._lookup = lookup or _system_lookup

    def allows(self, host: str, port: int) -> bool:
        """Is this host on the list by name? Then it is the operator's, wherever it lives."""
        name = plain_host(host)
        return any(entry.has_name(name, port) for entry in self._allow)

    def check(self, address: str, port: int) -> None:
        """May this address be connected to? Raises `PermissionDenied`."""
        try:
            parsed = ip_address(address.removeprefix("[").removesuffix("]"))
        except ValueError:
            raise refused(address, "it is not an address") from None
        if any(entry.has_address(parsed, port) for entry in self._allow):
            return
        if (why := why_not(parsed)) is not None:
            raise refused(address, f"it {why}")
        if port not in self._ports:
            raise refused(f"{address}, port {port}", "the port is not one of the web's")

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, each of them checked. Raises `PermissionDenied`, `Unavailable`.

        One bad address among good ones is refused with them: whoever mixes them is up to something.
        """
        name = plain_host(host)
        try:
            address = literal(name)
        except ValueError as error:
            raise refused(host, f"it {error}") from None
        if address is not None:
            found: Sequence[str] = [name.removeprefix("[").removesuffix("]")]
        else:
            found = await self._look_up(name, port)
        if not any(entry.has_name(name, port) for entry in self._allow):
            for each in found:
                self.check(each, port)
        return list(found)

    async def _look_up(self, name: str, port: int) -> Sequence[str]:
        if not _NAME.fullmatch(name) or len(name) > 253:
            raise refused(name, "it is not a host name")
        try:
            found = await self._lookup(name, port)
        except OSError as error:
            said = f"{name} cannot be resolved: {error.strerror or error}"
            raise Unavailable(said, upstream=name) from error
        if not found:
            raise Unavailable(f"{name} has no address", upstream=name)
        return found


def plain_host(host: str) -> str:
    """A host as it is looked up: what looks like a dot or a digit is one, no dot at the end."""
    text = unicodedata.normalize("NFKC", host.translate(_DOTS)).lower().removesuffix(".")
    if text.isascii():
        return text
    try:
        return text.encode("idna").decode()
    except UnicodeError:
        raise refused(host, "it is not a host name") from None


async def _system_lookup(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    flags = socket.AI_ADDRCONFIG
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    # A zone would be lost in the text of the address alone; then it must not look public.
    texts = (f"{at[0]}%{at[3]}" if len(at) == 4 and at[3] else at[0] for *_, at in found)
    return list(dict.fromkeys(map(str, texts)))


def _entry(entry: str) -> Allowed:
    text = entry.strip().lower()
    hint = "Write hosts, .suffixes, addresses or networks, each with :port if you like."
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?", text)
    if bracketed:
        name, port = bracketed[1], bracketed[2]
    elif text.count(":") == 1:
        name, _, port = text.partition(":")
    else:
        name, port = text, None
    try:
        number = None if port is None else int(port)
        if number is not None and not 0 < number < 65_536:
            raise ValueError
        if "/" in name or ":" in name or literal(name) is not None:
            return Allowed(name, ip_network(name), number)
    except ValueError:
        raise ConfigError(f"egress_allow: {entry!r} cannot be used", hint=hint) from None
    name = plain_host(name.removeprefix("*"))
    if not _NAME.fullmatch(name.removeprefix(".")):
        raise ConfigError(f"egress_allow: {entry!r} cannot be used", hint=hint)
    return Allowed(name, None, number)


_installed = Guard()


def install(guard: Guard) -> None:
    """Use this guard in this process from now on. Called once, with what the settings say."""
    global _installed  # noqa: PLW0603 (a process has one list of what it may reach)
    _installed = guard


def installed() -> Guard:
    """The guard of this process."""
    return _installed

"""Which addresses are no business of a stranger: all that is not plainly the public internet.

Of IPv6 only what is handed out to the public may pass: a range nobody thought of is refused. An
address that carries an IPv4 address inside is refused whatever is inside, since who unpacks it is
somebody else; only NAT64's well-known prefix is looked into, because on networks without IPv4 every
ordinary answer of the DNS has that form.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

_V4 = {
    IPv4Network("0.0.0.0/8"): "means this very machine",
    IPv4Network("10.0.0.0/8"): "is private",
    IPv4Network("100.64.0.0/10"): "is shared behind a carrier's NAT",
    IPv4Network("127.0.0.0/8"): "is loopback",
    IPv4Network("168.63.129.16/32"): "is the cloud's own agent",
    IPv4Network("169.254.0.0/16"): "is link-local, where clouds keep their credentials",
    IPv4Network("172.16.0.0/12"): "is private",
    IPv4Network("192.0.0.0/24"): "is reserved for protocols",
    IPv4Network("192.0.2.0/24"): "is for documentation",
    IPv4Network("192.88.99.0/24"): "is a 6to4 relay",
    IPv4Network("192.168.0.0/16"): "is private",
    IPv4Network("198.18.0.0/15"): "is for benchmarks",
    IPv4Network("198.51.100.0/24"): "is for documentation",
    IPv4Network("203.0.113.0/24"): "is for documentation",
    IPv4Network("224.0.0.0/4"): "is multicast",
    IPv4Network("240.0.0.0/4"): "is reserved",
}
_V6_PUBLIC = IPv6Network("2000::/3")
_V6 = {
    IPv6Network("::/128"): "means this very machine",
    IPv6Network("::1/128"): "is loopback",
    IPv6Network("::ffff:0:0/96"): "is IPv4 in disguise",
    IPv6Network("::/96"): "is IPv4 in disguise",
    IPv6Network("::ffff:0:0:0/96"): "is IPv4 in disguise",
    IPv6Network("64:ff9b:1::/48"): "is translated by a local NAT64",
    IPv6Network("2001::/32"): "is a Teredo tunnel",
    IPv6Network("2001::/23"): "is reserved for protocols",
    IPv6Network("2001:db8::/32"): "is for documentation",
    IPv6Network("2002::/16"): "is a 6to4 tunnel",
    IPv6Network("3fff::/20"): "is for documentation",
    IPv6Network("fc00::/7"): "is private",
    IPv6Network("fe80::/10"): "is link-local",
    IPv6Network("fec0::/10"): "is site-local",
    IPv6Network("ff00::/8"): "is multicast",
}
_NAT64 = IPv6Network("64:ff9b::/96")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)


def why_not(address: Address) -> str | None:
    """Why a stranger may not send us there, or None."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in _V4.items() if address in network), None)
    if address.scope_id is not None:
        return "has a zone, so it is link-local"
    if address in _NAT64:
        return why_not(IPv4Address(int(address) & 0xFFFF_FFFF))
    for network, why in _V6.items():
        if address in network:
            return why
    if address not in _V6_PUBLIC:
        return "is not public"
    if (int(address) >> 32) & 0xFFFF_FFFF in (0x0000_5EFE, 0x0200_5EFE):
        return "is an ISATAP tunnel"
    return None


def literal(host: str) -> Address | None:
    """The address that `host` spells, or None when it is a name.

    Raises `ValueError` for a number in an odd notation (`0x7f.1`, `2130706433`, `127.1`): programs
    disagree about which address that is.
    """
    bare = host.removeprefix("[").removesuffix("]")
    if ":" in bare:
        try:
            return IPv6Address(bare)
        except AddressValueError:
            raise ValueError("is not an IPv6 address") from None
    try:
        return IPv4Address(bare)
    except AddressValueError:
        if _NUMBER.fullmatch(bare.rstrip(".").rpartition(".")[2]):
            raise ValueError("is a number in an odd notation") from None
        return None

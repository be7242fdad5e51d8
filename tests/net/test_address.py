"""What the guard takes for public is public by the registries' account, too."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.net.address import Address, literal, why_not

NAT64 = int(IPv6Address("64:ff9b::"))


@given(st.ip_addresses())
def test_nothing_passes_that_python_does_not_call_global(address: Address) -> None:
    """Two lists by two authors: ours refuses whatever the standard library's refuses."""
    if why_not(address) is None and int(address) >> 32 != NAT64 >> 32:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4))
def test_a_nat64_address_is_what_is_inside(inside: IPv4Address) -> None:
    """The translated address passes exactly when the one inside does."""
    assert why_not(IPv6Address(NAT64 + int(inside))) == why_not(inside)


@given(st.ip_addresses(v=4))
def test_ipv4_in_any_other_disguise_is_refused(inside: IPv4Address) -> None:
    """Mapped, compatible, translated, 6to4, Teredo: whatever is inside."""
    number = int(inside)
    for disguised in (
        0xFFFF << 32 | number,
        number,
        0xFFFF << 48 | number,
        0x2002 << 112 | number << 80,
        0x2001_0000 << 96 | number << 64,
        0x2607 << 112 | 0x5EFE << 32 | number,
    ):
        assert why_not(IPv6Address(disguised)) is not None


@given(st.text("0123456789abcdefx.", min_size=1, max_size=20))
def test_what_the_system_takes_for_a_number_is_no_name(host: str) -> None:
    """Whatever `inet_aton` reads as an address is refused or is the same address to us."""
    try:
        packed = socket.inet_aton(host)
    except OSError:
        return
    try:
        address = literal(host)
    except ValueError:
        return
    assert address == ip_address(packed)


@pytest.mark.parametrize("name", ["files.example", "1password.example", "a1", "x.0b", "dead.beef"])
def test_names_are_names(name: str) -> None:
    """A name with digits in it is no number."""
    assert literal(name) is None

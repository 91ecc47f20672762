"""Which addresses a page may have: only those that are reachable from everywhere, and those that the settings list.

Asked for the address that a socket is about to connect to, so that no name, redirect or DNS answer gets round it.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network

_GLOBAL_V6 = IPv6Network("2000::/3")  # RFC 4291, 2.4: what is given out to the internet
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052, 2.1: the last 32 bits are an address of IPv4
_METADATA = {IPv4Address("168.63.129.16")}  # looks public, and is Azure's own, in each of its machines


def allowed(address: str, networks: Sequence[Network]) -> bool:
    """Whether a page at `address` (of IPv4 or IPv6, without a port) may be connected to.

    Args:
        networks: that are allowed beside the public ones.
    """
    given = ip_address(address)
    if isinstance(given, IPv6Address) and given.ipv4_mapped is not None:
        given = given.ipv4_mapped
    return any(given in network for network in networks) or _is_public(given)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and address not in _METADATA
    if address in _NAT64:
        return _is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.sixtofour is not None:  # RFC 3056
        return _is_public(address.sixtofour)
    return address in _GLOBAL_V6 and address.is_global

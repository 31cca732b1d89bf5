"""The addresses that are of the internet, and those among them that aren't: one table, for network policies and for programs.

Sources: [4] IANA IPv4 Special-Purpose Address Registry, [6] IANA IPv6 Special-Purpose Address Registry, [G] IANA IPv6 Global
Unicast Address Assignments (RFC 4291: all of it lies in 2000::/3), or what stands beside an entry. Where Python's `ipaddress`
knows these differs from version to version, so nothing here asks it.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class Block(NamedTuple):
    """A range that holds the internet's addresses, and the ranges within it that belong to nobody there, sorted."""

    cidr: str
    denied: tuple[str, ...]


IPV4 = Block(
    "0.0.0.0/0",
    (
        "0.0.0.0/8",  # this network [4]
        "10.0.0.0/8",  # private [4]
        "100.64.0.0/10",  # shared [4]; 100.100.100.200 is Alibaba Cloud's metadata service
        "127.0.0.0/8",  # loopback [4]
        "168.63.129.16/32",  # Azure's WireServer: Microsoft, "What is IP address 168.63.129.16?"
        "169.254.0.0/16",  # link-local [4]; 169.254.169.254 is most clouds' metadata service
        "172.16.0.0/12",  # private [4]
        "192.0.0.0/24",  # protocol assignments [4]; 192.0.0.192 is Oracle Cloud's metadata service
        "192.0.2.0/24",  # documentation [4]
        "192.88.99.0/24",  # 6to4 relays, deprecated [4] (RFC 7526)
        "192.168.0.0/16",  # private [4]
        "198.18.0.0/15",  # benchmarks [4]
        "198.51.100.0/24",  # documentation [4]
        "203.0.113.0/24",  # documentation [4]
        "224.0.0.0/4",  # multicast (RFC 5771)
        "240.0.0.0/4",  # reserved, and broadcast [4]
    ),
)
IPV6 = Block(
    "2000::/3",  # [G]; loopback, mapped, NAT64, discard, SRv6, unique local, link-local and multicast lie outside
    (
        "2001::/23",  # protocol assignments [6], Teredo and ORCHID among them
        "2001:db8::/32",  # documentation [6]
        "2002::/16",  # 6to4 [6]: it holds an IPv4 address, and a relay would reach it
        "3fff::/20",  # documentation [6] (RFC 9637)
    ),
)
BLOCKS = (IPV4, IPV6)
_NETWORKS = [
    (ipaddress.ip_network(block.cidr), [ipaddress.ip_network(one) for one in block.denied]) for block in BLOCKS
]


def is_of_the_internet(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address lies in a block of the internet, and in none of what is denied there."""
    return any(
        address in network and not any(address in one for one in denied)
        for network, denied in _NETWORKS
        if network.version == address.version
    )

"""Connections to the internet alone: a name is looked up once, every address it has must be public, and just that is spoken to.

A tenant chooses the URL, so it could name the cloud's metadata service or a neighbour; a name that is looked up twice could
change in between, so the connection is made to the address that was checked.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from urllib.parse import urlsplit

from . import ending, ranges

SECONDS = 60.0  # without a byte
_EMBEDDING = (  # networks whose addresses hold an IPv4 address: (network, bits that follow it)
    (ipaddress.ip_network("64:ff9b::/96"), 0),
    (ipaddress.ip_network("64:ff9b:1::/48"), 0),
    (ipaddress.ip_network("2002::/16"), 80),
    (ipaddress.ip_network("::/96"), 0),
)


def is_public(text: str) -> bool:
    """Return whether an address is one of the internet: not private, shared, link-local, loopback, multicast or reserved.

    The table of `ranges` decides. An IPv6 address that holds an IPv4 one is as public as that is.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(str(address.ipv4_mapped))
        for network, after in _EMBEDDING:
            if address in network:
                return is_public(str(ipaddress.IPv4Address((int(address) >> after) & 0xFFFFFFFF)))
    return ranges.is_of_the_internet(address)


def resolved(host: str, port: int) -> list[str]:
    """Return a host's addresses, all of them public. Raises Failed: one that isn't speaks against the name."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: a name that DNS doesn't have, by its letters or its length
        raise ending.Failed(ending.SOURCE_UNAVAILABLE, f"{host} can't be looked up: {error}") from None
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        if not is_public(address):
            words = f"{host} is {address}, which isn't an address of the internet"
            raise ending.Failed(ending.ADDRESS_REFUSED, words)
    return addresses


class _Pinned(http.client.HTTPSConnection):
    """HTTPS to one address, with the name's certificate."""

    def __init__(self, host: str, port: int, address: str, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=SECONDS, context=context)
        self._address = address
        self._tls = context

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), SECONDS)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def connect(url: str) -> http.client.HTTPConnection:
    """Return a connection to a URL's host. Raises Failed where it isn't https or not of the internet."""
    refusal = ending.Failed(ending.ADDRESS_REFUSED, f"{url.partition('?')[0]!r} is no https:// address")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 443
    except ValueError:
        raise refusal from None
    if parts.scheme != "https" or host is None or parts.username or parts.password:
        raise refusal
    return _first(host, port, resolved(host, port))


def _first(host: str, port: int, addresses: list[str]) -> http.client.HTTPConnection:
    context = ssl.create_default_context()
    trouble = "no address"
    for address in addresses:
        connection = _Pinned(host, port, address, context)
        try:
            connection.connect()
        except OSError as error:
            trouble = str(error)
            continue
        return connection
    raise ConnectionError(f"{host} doesn't answer: {trouble}")

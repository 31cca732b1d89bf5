"""Adds limits to asyncssh that a hostile client could otherwise exceed.

They use attributes of asyncssh that it doesn't document.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any

import asyncssh

# Without the algorithms that cost the gateway much more time than the client.
KEY_EXCHANGES = (
    *("curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "ecdh-sha2-nistp384"),
    *("ecdh-sha2-nistp521", "diffie-hellman-group14-sha256"),
)
SIGNATURES = (  # without those that use SHA-1 or DSA
    *("ssh-ed25519", "sk-ssh-ed25519@openssh.com", "rsa-sha2-256", "rsa-sha2-512"),
    *(f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521)),
)
# Every client accepts packets of 32 KiB (RFC 4253, 6.1). Output in tiny packets would keep the event loop busy.
_MIN_PACKET_BYTES = 1024


def create_session_channel(connection: asyncssh.SSHServerConnection) -> asyncssh.SSHServerChannel[bytes]:
    """Return a channel for a session that refuses environment variables. asyncssh would store any number of them."""
    channel = connection.create_server_channel(encoding=None)
    hooks: Any = channel
    hooks._process_env_request = _refuse_request
    return channel


def _refuse_request(_packet: object) -> bool:
    return False


def accepts_packets(channel: Any) -> bool:
    """Return whether the client accepts packets of a usual size."""
    return int(channel._send_pktsize) >= _MIN_PACKET_BYTES


def watch_transport(connection: asyncssh.SSHServerConnection, set_paused: Callable[[bool], None]) -> None:
    """Call `set_paused` when the TCP connection can't send as fast as the gateway writes, and when it can again.

    asyncssh ignores both calls of the transport. A client with a large window that reads nothing could fill the memory.
    """
    hooks: Any = connection
    hooks.pause_writing = lambda: set_paused(True)
    hooks.resume_writing = lambda: set_paused(False)


def refuse_sha1(key: Any) -> None:
    """Let an RSA key prove itself with SHA-2 only. asyncssh accepts SHA-1 even if `signature_algs` doesn't list it."""
    key.all_sig_algorithms = frozenset((b"rsa-sha2-256", b"rsa-sha2-512"))


def network_of(address: str) -> str:
    """Return the network whose connections are counted together: an IPv4 address, or 64 bits of an IPv6 address."""
    try:
        client = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ip_network((client, 64), strict=False)) if client.version == 6 else address

"""Connects to a port of a pod through the API server, without blocking and with bounded memory."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from allotment.adapters.http_responses import ApiUnavailable
from allotment.adapters.message_socket import MessageSocket
from allotment.problems import escape_unprintable

if TYPE_CHECKING:
    from allotment.adapters.cluster.api import ApiServer

# The API server translates this subprotocol for every kubelet: each message begins with its channel. Channel 0 has the data
# and channel 1 the errors of the only port. The first message of each channel has the number of the port.
PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = b"\x00", b"\x01"
_CHUNK_BYTES = 256 << 10
_MAX_UNSENT_BYTES = 4 << 20
_PING_SECONDS = 20
_Source = socket.socket | MessageSocket


class PodPort:
    """A connection to a port of a pod. Its messages are sent and received through `socket`."""

    def __init__(self, messages: MessageSocket) -> None:
        self.socket = messages
        self._has_number = {_DATA: False, _ERROR: False}

    def send(self, data: bytes) -> None:
        """Send bytes to the port."""
        self.socket.send(_DATA + data)

    def receive(self) -> Iterator[bytes]:
        """Yield the bytes that have arrived. Raises ApiUnavailable, also if the pod refuses the connection."""
        for message in self.socket.receive():
            channel, data = message[:1], message[1:]
            if not self._has_number.get(channel, True):
                self._has_number[channel] = True
            elif channel == _DATA:
                yield data
            elif data:
                raise ApiUnavailable(escape_unprintable(data.decode(errors="replace")))


def open_port(api: ApiServer, namespace: str, pod: str, port: int) -> PodPort:
    """Return a connection to a port of a pod. Raises ApiError or ApiUnavailable."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
    return PodPort(MessageSocket(api.connect(path, [("ports", str(port))], PROTOCOL)))


def forward_port(api: ApiServer, namespace: str, pod: str, port: int) -> socket.socket:
    """Return a socket that is connected to a port of a pod. A thread copies the bytes until either end closes.

    Raises ApiError or ApiUnavailable.
    """
    remote = open_port(api, namespace, pod, port)
    near, far = socket.socketpair()
    threading.Thread(target=_copy, args=(remote, far), daemon=True, name="port-forward").start()
    return near


def _copy(remote: PodPort, local: socket.socket) -> None:
    """Copy bytes in both directions until either end closes, or the pod refuses the connection."""
    received, messages = bytearray(), remote.socket
    local.setblocking(False)
    try:
        while not messages.is_closed:
            messages.flush()
            reads_local = messages.unsent_bytes < _MAX_UNSENT_BYTES
            reads_messages = len(received) < _MAX_UNSENT_BYTES
            sources: list[_Source] = [*([local] if reads_local else []), *([messages] if reads_messages else [])]
            targets: list[_Source] = [*([messages] if messages.unsent_bytes else []), *([local] if received else [])]
            seconds = 0 if messages.has_received_bytes and reads_messages else _PING_SECONDS
            readable, writable, _ = select.select(sources, targets, [], seconds)
            if not (readable or writable or messages.has_received_bytes):
                messages.ping()
            if local in writable:
                del received[: local.send(received)]
            if local in readable:
                data = local.recv(_CHUNK_BYTES)
                if not data:
                    return
                remote.send(data)
            for data in remote.receive() if reads_messages else ():
                received += data
                if len(received) >= _MAX_UNSENT_BYTES:
                    break
        local.setblocking(True)
        local.sendall(received)
    except (ApiUnavailable, OSError):
        return  # the reader sees the end of the stream
    finally:
        local.close()
        messages.close()

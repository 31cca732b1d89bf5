"""Connects a forwarded SSH connection to a port of an instance's pod."""

from __future__ import annotations

from collections.abc import Callable

import asyncssh

from allotment.access.ssh_gateway.message_pump import MessagePump, PumpedSession
from allotment.adapters.cluster.port_forward import PodPort


class PortSession(PumpedSession[bytes], asyncssh.SSHTCPSession[bytes]):
    """A forwarded connection. It calls `on_end` once the client has closed the channel."""

    def __init__(self, port: PodPort, on_end: Callable[[], None]) -> None:
        super().__init__()
        self._port, self._on_end = port, on_end
        self._is_ended = False

    def session_started(self) -> None:
        """Begin to copy bytes."""
        if not self._is_ended:
            self._start_pump(MessagePump(self._port.socket, self._port.receive, self))

    def data_received(self, data: bytes, datatype: object) -> None:
        """Send bytes to the port."""
        if self._pump is not None:
            self._port.send(data)
            self._pump.flush()

    def eof_received(self) -> bool:
        """Keep the connection open: Kubernetes can't close a single direction, and the answer may follow."""
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection to the port."""
        self.close()
        self._on_end()

    def close(self) -> None:
        """End the connection to the port."""
        if self._is_ended:
            return
        self._is_ended = True
        if self._pump is not None:
            self._pump.close()
        else:
            self._port.socket.close()

    def deliver(self, item: bytes) -> None:
        """Send bytes of the port to the client."""
        self._channel.write(item)

    def after_delivery(self) -> None:
        """Do nothing: the connection ends with the WebSocket."""

    def connection_ended(self, error: Exception | None) -> None:
        """Close the forwarded connection, because the port has closed it or refused it."""
        self._channel.close()
        self.close()

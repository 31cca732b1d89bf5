"""Connects a forwarded SSH connection to a port of an instance's pod."""

from __future__ import annotations

from collections.abc import Callable

import asyncssh

from allotment.adapters.cluster.port_forward import PodPort
from allotment.services.ssh_gateway.message_pump import MessagePump


class PortSession(asyncssh.SSHTCPSession[bytes]):
    """A forwarded connection. `on_end` is called when it has ended."""

    def __init__(self, port: PodPort, on_end: Callable[[], None]) -> None:
        self._port, self._on_end = port, on_end
        self._pump: MessagePump[bytes] | None = None
        self._is_ended = False

    def connection_made(self, chan: asyncssh.SSHTCPChannel[bytes]) -> None:
        """Remember the channel of the connection."""
        self._channel = chan

    def session_started(self) -> None:
        """Begin to copy bytes."""
        if not self._is_ended:
            self._pump = MessagePump(self._port.socket, self._port.receive, self)

    def data_received(self, data: bytes, datatype: object) -> None:
        """Send bytes to the port."""
        if self._pump is not None:
            self._port.send(data)
            self._pump.flush()

    def eof_received(self) -> bool:
        """Keep the connection open: Kubernetes can't close a single direction, and the answer may follow."""
        return True

    def pause_writing(self) -> None:
        """Stop to receive bytes, because the client can't keep up."""
        if self._pump is not None:
            self._pump.pause()

    def resume_writing(self) -> None:
        """Continue to receive bytes."""
        if self._pump is not None:
            self._pump.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection to the port."""
        self._end()

    def deliver(self, item: bytes) -> None:
        """Send bytes of the port to the client."""
        self._channel.write(item)

    def after_delivery(self) -> None:
        """Do nothing: the connection ends with the WebSocket."""

    def connection_ended(self, error: Exception | None) -> None:
        """Close the forwarded connection, because the port has closed it or refused it."""
        self._channel.close()
        self._end()

    def set_sender_paused(self, paused: bool) -> None:
        """Stop or continue to take bytes from the client."""
        if paused:
            self._channel.pause_reading()
        else:
            self._channel.resume_reading()

    def _end(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        if self._pump is not None:
            self._pump.close()
        else:
            self._port.socket.close()
        self._on_end()

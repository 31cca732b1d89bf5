"""Pauses the transfer between an SSH channel and a WebSocket while one of the two can't keep up."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from allotment.services.ssh_gateway.client_limits import accepts_packets
from allotment.services.ssh_gateway.message_pump import MessagePump

T = TypeVar("T")


class PumpedSession(Generic[T]):
    """The part that the sessions of containers and of ports share. A session sets `_pump` once its WebSocket is open."""

    _channel: Any

    def __init__(self) -> None:
        self._pump: MessagePump[T] | None = None
        self._pause_reasons = set[str]()

    def connection_made(self, chan: Any) -> None:
        """Remember the channel. A channel with tiny packets is closed."""
        self._channel = chan
        if not accepts_packets(chan):
            chan.abort()

    def pause_writing(self) -> None:
        """Stop receiving, because the window of the channel is full."""
        self._set_paused("window", True)

    def resume_writing(self) -> None:
        """Continue to receive."""
        self._set_paused("window", False)

    def set_transport_paused(self, paused: bool) -> None:
        """Stop receiving, because the TCP connection is full, or continue to receive."""
        self._set_paused("transport", paused)

    def set_sender_paused(self, paused: bool) -> None:
        """Stop or continue to take input from the client."""
        if paused:
            self._channel.pause_reading()
        else:
            self._channel.resume_reading()

    def _start_pump(self, pump: MessagePump[T]) -> None:
        self._pump = pump
        for reason in self._pause_reasons:
            pump.set_paused(reason, True)

    def _set_paused(self, reason: str, paused: bool) -> None:
        if paused:
            self._pause_reasons.add(reason)
        else:
            self._pause_reasons.discard(reason)
        if self._pump is not None:
            self._pump.set_paused(reason, paused)

"""Moves messages between an SSH channel and a WebSocket in an event loop, without blocking the loop, and pauses while one of
the two can't keep up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from allotment.access.ssh_gateway.client_limits import accepts_packets
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.adapters.message_socket import MessageSocket

_PING_SECONDS = 20
_MAX_SILENCE_SECONDS = 90  # a server that is alive answers each ping
_MAX_UNSENT_BYTES = 256 << 10
_MAX_ITEMS = 16  # that are received before other connections have their turn
T = TypeVar("T")
Item_contra = TypeVar("Item_contra", contravariant=True)


class Receiver(Protocol[Item_contra]):
    """The recipient of the received items."""

    def deliver(self, item: Item_contra, /) -> None:
        """Handle one received item. It may pause the pump."""
        ...

    def after_delivery(self) -> None:
        """Handle the end of a series of items, such as the end of the process that sent them."""
        ...

    def connection_ended(self, error: Exception | None) -> None:
        """Handle the end of the connection. `error` is the reason, if it is known."""
        ...

    def set_sender_paused(self, paused: bool) -> None:
        """Stop or continue to send, because too many bytes wait to be sent, or no longer do."""
        ...


class MessagePump(Generic[T]):
    """Moves messages between a WebSocket and its receiver until the connection ends, or `close` is called."""

    def __init__(self, socket: MessageSocket, receive: Callable[[], Iterator[T]], receiver: Receiver[T]) -> None:
        self._socket, self._receive, self._receiver = socket, receive, receiver
        self._loop = asyncio.get_running_loop()
        self._is_closed = self._has_writer = self._has_paused_sender = False
        self._pause_reasons = set[str]()
        self._descriptor = socket.fileno()  # a socket that its peer closed has no number any more
        self._loop.add_reader(self._descriptor, self._read)
        self._pings = self._loop.call_later(_PING_SECONDS, self._ping)
        self._loop.call_soon(self._read)  # TLS may have decrypted the first messages already

    def flush(self) -> None:
        """Send the unsent bytes, now or when the socket accepts them."""
        if self._is_closed:
            return
        self._socket.flush()
        unsent = self._socket.unsent_bytes
        if bool(unsent) is not self._has_writer:
            self._has_writer = bool(unsent)
            if unsent:
                self._loop.add_writer(self._descriptor, self.flush)
            else:
                self._loop.remove_writer(self._descriptor)
        if (unsent >= _MAX_UNSENT_BYTES) is not self._has_paused_sender:
            self._has_paused_sender = not self._has_paused_sender
            self._receiver.set_sender_paused(self._has_paused_sender)

    def set_paused(self, reason: str, paused: bool) -> None:
        """Stop receiving for a reason, or drop the reason. The pump receives while it has no reason to pause."""
        was_paused = bool(self._pause_reasons)
        if paused:
            self._pause_reasons.add(reason)
        else:
            self._pause_reasons.discard(reason)
        if self._is_closed or was_paused is bool(self._pause_reasons):
            return
        if paused:
            self._loop.remove_reader(self._descriptor)
        else:
            self._loop.add_reader(self._descriptor, self._read)
            self._loop.call_soon(self._read)

    def close(self) -> None:
        """Close the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        self._pings.cancel()
        for remove in (self._loop.remove_writer, self._loop.remove_reader):
            with contextlib.suppress(OSError):  # of a closed socket, the event loop forgets both
                remove(self._descriptor)
        self._socket.close()

    def _read(self) -> None:
        if self._is_closed or self._pause_reasons:
            return
        error: Exception | None = None
        try:
            for number, item in enumerate(self._receive(), start=1):
                self._receiver.deliver(item)
                if self._pause_reasons or self._is_closed:
                    return
                if number == _MAX_ITEMS:
                    self._loop.call_soon(self._read)
                    return
        except (ApiError, ApiUnavailable) as problem:
            error = problem
        except Exception:
            if not self._is_closed:
                self.close()
                self._receiver.connection_ended(
                    ApiUnavailable("the gateway failed to read a message of the API server")
                )
            raise  # the event loop logs it
        self._receiver.after_delivery()
        if self._is_closed:
            return
        if error is not None or self._socket.is_closed:
            self.close()
            self._receiver.connection_ended(error)
        else:
            self.flush()  # the answers to pings

    def _ping(self) -> None:
        """Keep the connection alive, and end it after a long silence. A paused pump receives no answers."""
        if not self._pause_reasons and self._loop.time() - self._socket.received_at > _MAX_SILENCE_SECONDS:
            self.close()
            self._receiver.connection_ended(ApiUnavailable(f"it has sent nothing for {_MAX_SILENCE_SECONDS} s"))
            return
        self._socket.ping()
        self.flush()
        self._pings = self._loop.call_later(_PING_SECONDS, self._ping)


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

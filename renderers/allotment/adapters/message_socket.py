"""Sends and receives the messages of a WebSocket without blocking, so that a single thread can serve both directions.

A TLS connection may not be read and written by two threads at the same time, and a thread that blocks while it sends
cannot receive. If both ends then wait for the other to receive, neither continues.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import websocket
from websocket import ABNF

from allotment.adapters.http_responses import ApiUnavailable

_MAX_MESSAGE_BYTES = 16 << 20
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def _limit_length(frames: Any, receive_length: Callable[[], None]) -> Callable[[], None]:
    """Return a function that receives the length of a frame, and refuses the frame if it is too long."""

    def receive() -> None:
        receive_length()
        if frames.length > _MAX_MESSAGE_BYTES:
            raise ApiUnavailable("the server sent a message that is too long")

    return receive


class MessageSocket:
    """The messages of a connected WebSocket.

    `is_closed` is True once the connection has ended, and `is_broken` if an error ended it. `received_at` is the
    time of the last frame, by the monotonic clock.
    """

    def __init__(self, connection: websocket.WebSocket) -> None:
        self._connection = connection
        assert connection.sock is not None  # it is connected
        self._socket = connection.sock
        self._socket.setblocking(False)
        frames: Any = connection.frame_buffer
        frames.recv_length = _limit_length(frames, frames.recv_length)
        self._unsent = bytearray()
        self._fragments = bytearray()
        self.is_closed = False
        self.is_broken = False
        self.received_at = time.monotonic()

    def fileno(self) -> int:
        """Return the file descriptor, for `select`."""
        return int(self._socket.fileno())

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes that wait until the socket is writable."""
        return len(self._unsent)

    @property
    def has_received_bytes(self) -> bool:
        """Whether bytes can be read although `select` does not report them, because TLS has decrypted them already."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send(self, data: bytes, opcode: int = ABNF.OPCODE_BINARY) -> None:
        """Append a message to the unsent bytes. After an error, nothing is sent any more."""
        if self.is_broken:
            return
        self._unsent += ABNF.create_frame(data, opcode).format()

    def ping(self) -> None:
        """Append a ping to the unsent bytes."""
        self.send(b"", ABNF.OPCODE_PING)

    def flush(self) -> None:
        """Send as many of the unsent bytes as the socket accepts.

        After an error, messages can still be received that the server had sent before.
        """
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except _WOULD_BLOCK:
            return
        except OSError:
            self._unsent.clear()
            self.is_broken = True

    def receive(self) -> Iterator[bytes]:
        """Yield the messages that have arrived. Raises ApiUnavailable."""
        while not self.is_closed:
            try:
                frame = self._connection.recv_frame()  # type: ignore[no-untyped-call]
            except _WOULD_BLOCK:
                return
            except websocket.WebSocketConnectionClosedException:
                self.is_closed = True
                return
            except OSError:
                self.is_closed = self.is_broken = True
                return
            except websocket.WebSocketException as error:
                raise ApiUnavailable(f"the server sent an invalid message: {type(error).__name__}") from None
            except ValueError:
                raise ApiUnavailable("the server sent an invalid message") from None
            self.received_at = time.monotonic()
            data = frame.data if isinstance(frame.data, bytes) else frame.data.encode()
            if frame.opcode == ABNF.OPCODE_CLOSE:
                self.is_closed = True
            elif frame.opcode == ABNF.OPCODE_PING:
                if not self._unsent:  # a peer that floods the connection with pings gets few answers
                    self.send(data, ABNF.OPCODE_PONG)
            elif frame.opcode != ABNF.OPCODE_PONG:
                self._fragments += data
                if len(self._fragments) > _MAX_MESSAGE_BYTES:
                    raise ApiUnavailable("the server sent a message that is too long")
                if frame.fin:
                    message = bytes(self._fragments)
                    self._fragments.clear()  # before the caller, which may leave the loop, gets the message
                    yield message

    def close(self) -> None:
        """Close the connection."""
        self._connection.shutdown()  # type: ignore[no-untyped-call]

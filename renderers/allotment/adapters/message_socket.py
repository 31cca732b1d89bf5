"""Sends and receives the messages of a WebSocket without blocking, so that a single thread can serve both directions.

A TLS connection may not be read and written by two threads at the same time, and a thread that blocks while it sends
cannot receive. If both ends then wait for the other to receive, neither continues.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import websocket
from websocket import ABNF

from allotment.adapters.cluster.api import ApiUnavailable

_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class MessageSocket:
    """The messages of a connected WebSocket. `is_closed` is True once the server has closed the connection."""

    def __init__(self, connection: websocket.WebSocket) -> None:
        self._connection = connection
        assert connection.sock is not None  # it is connected
        self._socket = connection.sock
        self._socket.setblocking(False)
        self._unsent = bytearray()
        self._fragments = bytearray()
        self.is_closed = False

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
        """Append a message to the unsent bytes."""
        self._unsent += ABNF.create_frame(data, opcode).format()

    def ping(self) -> None:
        """Append a ping to the unsent bytes."""
        self.send(b"", ABNF.OPCODE_PING)

    def flush(self) -> None:
        """Send as many of the unsent bytes as the socket accepts. Raises ApiUnavailable."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except _WOULD_BLOCK:
            return
        except OSError as error:
            raise ApiUnavailable(f"the connection broke off: {type(error).__name__}") from None

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
            except (websocket.WebSocketException, OSError) as error:
                raise ApiUnavailable(f"the connection broke off: {type(error).__name__}") from None
            data = frame.data if isinstance(frame.data, bytes) else frame.data.encode()
            if frame.opcode == ABNF.OPCODE_CLOSE:
                self.is_closed = True
            elif frame.opcode == ABNF.OPCODE_PING:
                self.send(data, ABNF.OPCODE_PONG)
            elif frame.opcode != ABNF.OPCODE_PONG:
                self._fragments += data
                if frame.fin:
                    yield bytes(self._fragments)
                    self._fragments.clear()

    def close(self) -> None:
        """Close the connection."""
        self._connection.shutdown()  # type: ignore[no-untyped-call]

"""The server's end of a WebSocket, for servers of tests that answer by script."""

from __future__ import annotations

import base64
import hashlib
import socket
import struct
import threading
from typing import Any

from websocket import ABNF, WebSocketConnectionClosedException
from websocket._abnf import frame_buffer

from tests.support.faults import Request

_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3


class ServerSocket:
    """A WebSocket whose handshake is done."""

    def __init__(self, request: Request, protocol: str = "") -> None:
        key = request.headers["Sec-WebSocket-Key"].encode()
        accepted = base64.b64encode(hashlib.sha1(key + _SUFFIX, usedforsecurity=False).digest()).decode()
        request.send_response(101)
        request.send_header("Upgrade", "websocket")
        request.send_header("Connection", "Upgrade")
        request.send_header("Sec-WebSocket-Accept", accepted)
        if protocol:
            request.send_header("Sec-WebSocket-Protocol", protocol)
        request.end_headers()
        self._file: Any = request.wfile
        self._connection = request.connection
        self._lock = threading.Lock()  # two threads write at once what two pipes hold

        def read(size: int) -> bytes:
            # The frame buffer asks for ever where a read returns nothing.
            if data := request.rfile.read(size):
                return bytes(data)
            raise WebSocketConnectionClosedException("the client ended the connection")

        self._frames = frame_buffer(read, skip_utf8_validation=True)

    def receive(self) -> bytes | None:
        """Return the data of the next message; None when the client has closed. Pings are passed over."""
        while True:
            frame = self._frames.recv_frame()
            if frame.opcode == ABNF.OPCODE_CLOSE:
                return None
            if frame.opcode in (ABNF.OPCODE_TEXT, ABNF.OPCODE_BINARY):
                return bytes(frame.data) if isinstance(frame.data, bytes) else frame.data.encode()

    def send(self, data: bytes, opcode: int = ABNF.OPCODE_BINARY) -> None:
        """Send a message."""
        length = struct.pack("!B", len(data)) if len(data) < 126 else struct.pack("!BH", 126, len(data))
        with self._lock:
            self._file.write(bytes([0x80 | opcode]) + length + data)
            self._file.flush()

    def write(self, data: bytes) -> None:
        """Send bytes that need not be a message."""
        self._file.write(data)
        self._file.flush()

    def break_off(self) -> None:
        """End the TCP connection without a message that closes the WebSocket."""
        self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Say that no more messages follow."""
        self.send(struct.pack("!H", 1000), ABNF.OPCODE_CLOSE)

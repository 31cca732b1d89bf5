"""Messages arrive whole and in order, also if a caller leaves the loop after one of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from websocket import ABNF

from allotment.adapters.message_socket import MessageSocket


class Frames:
    """A connected WebSocket with frames that have arrived."""

    def __init__(self, sock: socket.socket, *frames: ABNF) -> None:
        self.sock, self.frames = sock, list(frames)
        self.frame_buffer: Any = self
        self.length = 0

    def recv_length(self) -> None:
        """Return at once: the frames are there."""

    def recv_frame(self) -> ABNF:
        """Return the next frame."""
        if not self.frames:
            raise BlockingIOError
        return self.frames.pop(0)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_a_caller_may_leave_the_loop_after_a_message(ends: tuple[socket.socket, socket.socket]) -> None:
    frames = [ABNF.create_frame(data, ABNF.OPCODE_BINARY) for data in (b"one", b"two", b"three")]
    messages = MessageSocket(Frames(ends[0], *frames))  # type: ignore[arg-type]  # it stands for a WebSocket
    received = []
    for _ in range(4):
        for message in messages.receive():
            received.append(message)
            break
    assert received == [b"one", b"two", b"three"]


def test_fragments_become_one_message(ends: tuple[socket.socket, socket.socket]) -> None:
    parts = [
        ABNF.create_frame(b"on", ABNF.OPCODE_BINARY, 0),
        ABNF.create_frame(b"ping", ABNF.OPCODE_PING),
        ABNF.create_frame(b"e", ABNF.OPCODE_CONT),
        ABNF.create_frame(b"two", ABNF.OPCODE_BINARY),
    ]
    messages = MessageSocket(Frames(ends[0], *parts))  # type: ignore[arg-type]  # it stands for a WebSocket
    assert list(messages.receive()) == [b"one", b"two"]
    assert messages.unsent_bytes > 0, "the answer to the ping"

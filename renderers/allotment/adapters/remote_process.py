"""Defines a process in a pod that a WebSocket connects: input, output, size of the terminal, exit status."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import websocket

from allotment.adapters.message_socket import MessageSocket


class Output(NamedTuple):
    """Bytes that the process wrote, to its standard output or to its standard error."""

    data: bytes
    is_error: bool = False


class RemoteProcess(ABC):
    """A process in a pod. Its messages are sent and received through `socket`."""

    exit_status: int | None = None  # None until the process has ended, or if the server doesn't report it

    def __init__(self, connection: websocket.WebSocket) -> None:
        self.socket = MessageSocket(connection)

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send input to the process."""

    @abstractmethod
    def end_input(self) -> None:
        """Tell the process that no more input follows."""

    @abstractmethod
    def resize(self, columns: int, rows: int) -> None:
        """Tell the process the size of the terminal."""

    @abstractmethod
    def receive(self) -> Iterator[Output]:
        """Yield the output that has arrived. Raises ApiError or ApiUnavailable."""

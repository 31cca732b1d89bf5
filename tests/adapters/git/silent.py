"""A server that takes connections and never answers, or writes some bytes first and then a byte now and then."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PAUSE = 0.1  # seconds between two bytes


@contextmanager
def silent_server(first: bytes = b"", trickle: bytes = b"") -> Iterator[int]:
    """Yield the port of a server that writes `first` and then, again and again, `trickle`."""
    ended = threading.Event()
    held: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                held.append(connection)
                threading.Thread(target=write, args=(connection,), daemon=True).start()

    def write(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.sendall(first)
            while trickle and not ended.wait(PAUSE):
                connection.sendall(trickle)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()

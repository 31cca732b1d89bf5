"""Connects a remote process to the standard input and output of this process, and to its terminal."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from allotment.adapters.http_responses import ApiUnavailable
from allotment.adapters.remote_process import RemoteProcess
from allotment.problems import OperationRefused

_PING_SECONDS = 20  # a proxy may close a connection without traffic after a minute
_MAX_SILENCE_SECONDS = 90  # on a terminal, Ctrl-C goes to the server, and cannot end a command without it
_CHUNK_BYTES = 32 << 10
_MAX_UNSENT_BYTES = 1 << 20


def attach(process: RemoteProcess, *, reads_input: bool, is_terminal: bool) -> None:
    """Copy input and output until the process ends.

    With `reads_input`, copy the standard input to the process. With `is_terminal`, standard input and output are a
    terminal: it passes each key to the process, and the process learns the size of the terminal.
    Raises ApiError or ApiUnavailable.
    """
    with _raw_terminal(is_terminal), _watch_size(is_terminal) as size_changes:
        stdin = sys.stdin.fileno() if reads_input else None
        if is_terminal:
            _send_size(process)
        while not process.socket.is_closed:
            accepts_input = stdin is not None and process.socket.unsent_bytes < _MAX_UNSENT_BYTES
            ready = _wait(process, [*size_changes, *([stdin] if accepts_input and stdin is not None else [])])
            if any(source in ready for source in size_changes):
                os.read(size_changes[0], _CHUNK_BYTES)
                _send_size(process)
            if stdin in ready:
                assert stdin is not None
                if data := os.read(stdin, _CHUNK_BYTES):
                    process.send(data)
                else:
                    process.end_input()
                    stdin = None
            for output in process.receive():
                stream = sys.stderr if output.is_error else sys.stdout
                if stream is not None:  # the stream may be closed
                    stream.buffer.write(output.data)
                    stream.buffer.flush()
            if process.exit_status is not None:
                return
            if is_terminal and time.monotonic() - process.socket.received_at > _MAX_SILENCE_SECONDS:
                raise ApiUnavailable(f"it has sent nothing for {_MAX_SILENCE_SECONDS} s")


def _wait(process: RemoteProcess, sources: list[int]) -> list[int]:
    """Send unsent bytes, and wait until a message or one of `sources` can be read. Return the sources that can be read."""
    connection = process.socket
    connection.flush()
    waits_to_send = [connection.fileno()] if connection.unsent_bytes else []
    seconds = 0 if connection.has_received_bytes else _PING_SECONDS
    readable, writable, _ = select.select([connection.fileno(), *sources], waits_to_send, [], seconds)
    if not (readable or writable or seconds == 0):
        connection.ping()  # a server that is alive answers
    return [source for source in readable if source in sources]


def _send_size(process: RemoteProcess) -> None:
    size = os.get_terminal_size(sys.stdout.fileno())
    process.resize(size.columns, size.lines)


@contextmanager
def _watch_size(is_terminal: bool) -> Iterator[list[int]]:
    """Provide a file descriptor that can be read after each change of the terminal's size; none without a terminal."""
    if not is_terminal:
        yield []
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def report_change(*signal_and_frame: object) -> None:
        try:
            os.write(writer, b"\0")
        except BlockingIOError:  # the pipe is full of changes that nobody has read yet
            return

    handler = signal.signal(signal.SIGWINCH, report_change)
    try:
        yield [reader]
    finally:
        signal.signal(signal.SIGWINCH, handler)
        os.close(reader)
        os.close(writer)


@contextmanager
def _raw_terminal(is_terminal: bool) -> Iterator[None]:
    """Let the terminal pass each key at once and unchanged, also Ctrl-C. Restores the terminal in the end."""
    if not is_terminal:
        yield
        return
    try:
        import termios
        import tty
    except ImportError:
        raise OperationRefused("this system has no POSIX terminal: use --no-tty, or Linux or macOS") from None
    stdin = sys.stdin.fileno()
    settings = termios.tcgetattr(stdin)
    try:
        tty.setraw(stdin)
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, settings)

"""Connects an SSH session to a program in the container of an instance: a shell, a command, or an SFTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import asyncssh

from allotment.access.pods.pod_access import KubernetesAccess
from allotment.access.ssh_gateway.message_pump import MessagePump, PumpedSession
from allotment.adapters.cluster.pod_exec import ExecOptions
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.adapters.remote_process import Output, RemoteProcess
from allotment.problems import OperationRefused, escape_unprintable

FAILURE_STATUS = 255  # of `ssh` itself, if it can't run a command
# The places of OpenSSH's SFTP server in the usual distributions.
_SFTP_SERVER = (
    "/bin/sh",
    "-c",
    "for server in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server"
    ' /usr/lib/sftp-server /usr/libexec/sftp-server; do test -x "$server" && exec "$server"; done;'
    ' echo "the image has no sftp-server: install the package openssh-sftp-server, or use allot storage cp" >&2; exit 127',
)
_WITH_TERM = 'TERM=$1; export TERM; shift; exec "$@"'

# Starts a program in the container, and returns it. Raises ApiError, ApiUnavailable or OperationRefused.
StartProgram = Callable[[ExecOptions], Awaitable[RemoteProcess]]


class _Terminal(NamedTuple):
    """The terminal of the client."""

    type: str
    columns: int
    rows: int


class ContainerSession(PumpedSession[Output], asyncssh.SSHServerSession[bytes]):
    """A session with a program in a container. The session calls `on_end` once the client has closed the channel."""

    def __init__(self, start_program: StartProgram, on_end: Callable[[], None]) -> None:
        super().__init__()
        self._start_program, self._on_end = start_program, on_end
        self._command: tuple[str, ...] = KubernetesAccess.SHELL
        self._terminal: _Terminal | None = None
        self._is_ended = self._has_input_ended = False
        self._early_input = bytearray()
        self._process: RemoteProcess | None = None
        self._task: asyncio.Task[None] | None = None

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: object) -> bool:
        """Accept a terminal."""
        self._terminal = _Terminal(term_type or "xterm", term_size[0], term_size[1])
        return True

    def shell_requested(self) -> bool:
        """Accept a shell: bash if the image has it, otherwise sh."""
        return True

    def exec_requested(self, command: str) -> bool:
        """Accept a command, which the shell of the image interprets."""
        self._command = ("/bin/sh", "-c", command)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """Accept the subsystem `sftp` only."""
        self._command = _SFTP_SERVER
        return subsystem == "sftp"

    def session_started(self) -> None:
        """Start the program."""
        self._task = asyncio.get_running_loop().create_task(self._start())

    def data_received(self, data: bytes, datatype: object) -> None:
        """Send input to the program. Until the program runs, the first input waits here, and further input in the channel."""
        if self._process is not None and self._pump is not None:
            self._process.send(data)
            self._pump.flush()
        else:
            self._early_input += data
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        """Close the input of the program. Its output may follow."""
        self._has_input_ended = True
        self._end_input()
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Tell the program the new size of the terminal."""
        if self._terminal is not None:
            self._terminal = self._terminal._replace(columns=width, rows=height)
            self._resize()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection to the program. A terminal that closes ends its program."""
        self.close()
        self._on_end()

    def close(self) -> None:
        """End the connection to the program, or its start."""
        if self._task is not None:
            self._task.cancel()
        self._end(None)

    def fail(self, message: str) -> None:
        """Tell the client why the session ends, and end it with FAILURE_STATUS."""
        if not self._is_ended:
            self._channel.write(f"{escape_unprintable(message, 500)}\r\n".encode(), asyncssh.EXTENDED_DATA_STDERR)
            self._end(FAILURE_STATUS)

    def deliver(self, item: Output) -> None:
        """Send output of the program to the client."""
        self._channel.write(item.data, asyncssh.EXTENDED_DATA_STDERR if item.is_error else None)

    def after_delivery(self) -> None:
        """End the session once the program has ended."""
        if self._process is not None and self._process.exit_status is not None:
            self._end(self._process.exit_status)

    def connection_ended(self, error: Exception | None) -> None:
        """End the session, because the connection to the program ended before the program."""
        self.fail(f"the connection to the container ended: {error or 'closed by the cluster'}")

    async def _start(self) -> None:
        command = self._command
        if self._terminal is not None:
            command = ("/bin/sh", "-c", _WITH_TERM, "sh", self._terminal.type, *command)
        options = ExecOptions("", command, reads_input=True, is_terminal=self._terminal is not None)
        try:
            process = await self._start_program(options)
        except (ApiError, ApiUnavailable, OperationRefused) as error:
            self.fail(_describe(error))
            return
        except Exception:
            self.fail("the gateway failed to start the program")
            raise  # the event loop logs it
        if self._is_ended:
            process.socket.close()
            return
        self._process = process
        self._start_pump(MessagePump(process.socket, process.receive, self))
        self._resize()
        if self._early_input:
            process.send(bytes(self._early_input))
            self._early_input.clear()
        if self._has_input_ended:
            self._end_input()
        self._channel.resume_reading()
        if self._pump is not None:
            self._pump.flush()

    def _end_input(self) -> None:
        # On a terminal, the client sends Ctrl-D as input instead.
        if self._process is not None and self._pump is not None and self._terminal is None:
            self._process.end_input()
            self._pump.flush()

    def _resize(self) -> None:
        if self._process is not None and self._pump is not None and self._terminal is not None:
            columns, rows = (min(max(size, 1), 0xFFFF) for size in self._terminal[1:])
            self._process.resize(columns, rows)
            self._pump.flush()

    def _end(self, status: int | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        if self._pump is not None:
            self._pump.close()
        if status is not None:
            self._channel.exit(status)


def _describe(error: Exception) -> str:
    """Return why a program could not start, for the client."""
    if isinstance(error, ApiError):
        return f"the program could not start: {error.message or error}"
    return str(error)

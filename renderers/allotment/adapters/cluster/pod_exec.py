"""Starts a command in a container through the API server.

The connection is a WebSocket with the subprotocol v5.channel.k8s.io. The first byte of each message is its channel.
Source: k8s.io/apimachinery, pkg/util/remotecommand/constants.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.adapters.remote_process import Output, RemoteProcess
from allotment.problems import escape_unprintable

if TYPE_CHECKING:
    from allotment.adapters.cluster.api import ApiServer

PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE = (bytes([channel]) for channel in range(5))
_CLOSE = b"\xff"
_MESSAGE_LENGTH = 300
# The last part of the message of a container runtime that could not start a program.
_START_PROBLEM = re.compile(r'exec: "(?:[^"\\\\]|\\\\.)*": [^:]+')


class ExecOptions(NamedTuple):
    """The command to start in `container`; an empty `container` is the only container of the pod.

    - `reads_input` connects the standard input.
    - `is_terminal` starts the command on a terminal. The terminal mixes its standard output and its standard error.
    """

    container: str
    command: tuple[str, ...]
    reads_input: bool = False
    is_terminal: bool = False


class PodProcess(RemoteProcess):
    """A command in a container."""

    def send(self, data: bytes) -> None:
        """Send input to the command."""
        self.socket.send(_STDIN + data)

    def end_input(self) -> None:
        """Close the standard input of the command."""
        self.socket.send(_CLOSE + _STDIN)

    def resize(self, columns: int, rows: int) -> None:
        """Tell the command the size of the terminal."""
        self.socket.send(_RESIZE + json.dumps({"Width": columns, "Height": rows}).encode())

    def receive(self) -> Iterator[Output]:
        """Yield the output that has arrived, and set `exit_status` when the command has ended.

        Raises ApiError if the command could not start, and ApiUnavailable if the connection ends before the command.
        """
        for message in self.socket.receive():
            channel, data = message[:1], message[1:]
            if channel in (_STDOUT, _STDERR) and data:
                yield Output(data, channel == _STDERR)
            elif channel == _STATUS:
                self.exit_status = _parse_exit_status(data)
        if self.socket.is_closed and self.exit_status is None:
            raise ApiUnavailable("the connection broke off before the command ended")


def start_command(api: ApiServer, namespace: str, pod: str, options: ExecOptions) -> PodProcess:
    """Start a command in a container of a pod. Raises ApiError or ApiUnavailable."""
    query = [("command", word) for word in options.command]
    query += [("container", options.container)] if options.container else []
    flags = {
        "stdin": options.reads_input,
        "stdout": True,
        "stderr": not options.is_terminal,
        "tty": options.is_terminal,
    }
    query += [(name, "true") for name, is_set in flags.items() if is_set]
    return PodProcess(api.connect(f"/api/v1/namespaces/{namespace}/pods/{pod}/exec", query, PROTOCOL))


def _parse_exit_status(data: bytes) -> int:
    """Return the exit status in the Status object that ends a command. Raises ApiError if the command could not start."""
    try:
        status: dict[str, Any] = json.loads(data)
        if status.get("status") == "Success":
            return 0
        causes = (status.get("details") or {}).get("causes") or []
        exit_statuses = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
        code, message = int(status.get("code") or HTTPStatus.INTERNAL_SERVER_ERROR), str(status.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ApiUnavailable("the API server ended the command with an unreadable status") from None
    if exit_statuses:
        return exit_statuses[0]
    problem = _START_PROBLEM.search(message)
    raise ApiError(code, 0, escape_unprintable(problem[0] if problem else message, _MESSAGE_LENGTH))

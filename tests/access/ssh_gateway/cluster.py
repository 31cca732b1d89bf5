"""An API server whose containers are processes of this machine: for tests of the SSH gateway without a cluster."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import websocket
from tests.support import live
from tests.support.faults import Request, listed
from tests.support.websocket_server import ServerSocket

SPACE = "/api/v1/namespaces/t-solo-ada"
CONFIG_MAP = f"{SPACE}/configmaps/allot-ssh"


class LocalCluster:
    """The pod of solo-ada/webui, and the ConfigMap that says who may connect to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: list[dict[str, Any]] = [
            live.pod(node="n1", container={"name": "main", **live.started(3, ready=True)})
        ]
        self.data: dict[str, str] | None = {"instances": "webui\n", "authorized_keys": ""}
        self.status = 0  # of every answer, if it isn't 0
        self.requests: list[str] = []
        self.resizes: list[dict[str, int]] = []
        self.sent_bytes = 0  # of the standard output of all processes
        self.breaks_connections = False  # at the end of a process or a port, instead of a message that says so

    def answer(self, request: Request) -> None:
        """Answer a request, or start a process."""
        path, query = request.request_path, parse_qs(urlsplit(request.path).query)
        self.requests.append(path)
        if self.status:
            request.whole(b"{}", self.status)
        elif path == CONFIG_MAP and self.data is not None:
            request.whole(json.dumps({"data": self.data}).encode())
        elif path == f"{SPACE}/pods":
            listed(*self.pods)(request)
        elif path.endswith("/exec"):
            self._run(ServerSocket(request, "v5.channel.k8s.io"), query["command"], is_terminal="tty" in query)
        elif path.endswith("/portforward"):
            self._forward(ServerSocket(request, "v4.channel.k8s.io"), int(query["ports"][0]))
        else:
            request.whole(b"{}", 404)

    def _run(self, connection: ServerSocket, command: list[str], *, is_terminal: bool) -> None:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            bufsize=0,  # a buffer would be written once more, to a command that has ended
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            output: Any = process.stdout
            threading.Thread(target=self._feed, args=(connection, process), daemon=True).start()
            error = threading.Thread(target=_pass_on, args=(connection, b"\x02", process.stderr))
            error.start()
            for data in iter(lambda: output.read(32 << 10), b""):
                connection.send(b"\x01" + data)
                self.sent_bytes += len(data)
            error.join()
        cause = {"reason": "ExitCode", "message": str(process.returncode)}
        status = {"status": "Failure", "details": {"causes": [cause]}} if process.returncode else {"status": "Success"}
        if self.breaks_connections:
            connection.break_off()
            return
        connection.send(b"\x03" + json.dumps(status).encode())
        connection.close()

    def _feed(self, connection: ServerSocket, process: Any) -> None:
        while (message := _receive(connection)) is not None:
            with suppress(OSError, ValueError):  # a command may end before it reads its input
                if message == b"\xff\x00":
                    process.stdin.close()
                elif message[:1] == b"\x00":
                    process.stdin.write(message[1:])
            if message[:1] == b"\x04":
                self.resizes.append(json.loads(message[1:]))

    def _forward(self, connection: ServerSocket, port: int) -> None:
        number = struct.pack("<H", port)
        connection.send(b"\x00" + number)
        connection.send(b"\x01" + number)
        try:
            far = socket.create_connection(("127.0.0.1", port), 5)
        except OSError as error:
            connection.send(b"\x01" + str(error).encode())
            connection.close()
            return
        with far:
            threading.Thread(target=self._feed_port, args=(connection, far), daemon=True).start()
            while data := far.recv(32 << 10):
                connection.send(b"\x00" + data)
        if self.breaks_connections:
            connection.break_off()
        else:
            connection.close()

    def _feed_port(self, connection: ServerSocket, far: socket.socket) -> None:
        with suppress(OSError):  # the port may close before it reads everything
            while (message := _receive(connection)) is not None:
                far.sendall(message[1:])


def _receive(connection: ServerSocket) -> bytes | None:
    """Return the next message; None if no more can be received."""
    try:
        return connection.receive()
    except (OSError, ValueError, websocket.WebSocketException):
        return None


def _pass_on(connection: ServerSocket, channel: bytes, pipe: Any) -> None:
    with suppress(OSError):  # a client may leave before it reads everything
        while data := pipe.read(32 << 10):
            connection.send(channel + data)

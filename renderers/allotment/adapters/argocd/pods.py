"""Lists the pods of an Application, reads their logs, and opens terminals in them, through Argo CD's API.

Argo CD shows only the pods of the Application, and checks the role of the user for each request.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple

import websocket

from allotment.adapters.argocd.server import ArgoCDServer
from allotment.adapters.cluster.pod_log import LogOptions
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.adapters.remote_process import Output, RemoteProcess
from allotment.observed import decoding
from allotment.observed.objects import Pod
from allotment.problems import escape_unprintable

_MESSAGE_LENGTH = 300
_REPEATED_SIZES = 6


class ApplicationPods(NamedTuple):
    """The pods of an Application in one namespace. `argo_namespace` is the namespace of the Application."""

    server: ArgoCDServer
    application: str
    project: str
    argo_namespace: str
    namespace: str

    def list_pods(self, prefix: str) -> list[Pod]:
        """Return the pods with names that begin with `prefix`. Raises ApiError or ApiUnavailable."""
        tree = self.server.read(f"applications/{self.application}/resource-tree", {"appNamespace": self.argo_namespace})
        manifests = []
        for node in _list_nodes(tree):
            name = str(node.get("name"))
            if node.get("kind") == "Pod" and node.get("namespace") == self.namespace and name.startswith(prefix):
                manifests.append(self._read_manifest(name))
        page = json.dumps({"metadata": {}, "items": [manifest for manifest in manifests if manifest is not None]})
        try:
            return [pod for pod in decoding.PODS.decode_page(page.encode()).objects if isinstance(pod, Pod)]
        except decoding.UnreadableResponse:
            raise ApiUnavailable("the response is no pod") from None

    def stream_log(self, pod: str, options: LogOptions) -> Iterator[bytes]:
        """Yield the log of a container, line by line. Raises ApiError or ApiUnavailable."""
        query = {
            "appNamespace": self.argo_namespace,
            "namespace": self.namespace,
            "podName": pod,
            "container": options.container,
            "follow": "true" if options.follow else "false",
            "previous": "true" if options.previous else "false",
            "sinceSeconds": str(options.since_seconds or 0),
            "tailLines": str(options.tail_lines or 0),
        }
        path = f"applications/{self.application}/logs"
        for entry in self.server.stream(path, query, endless=options.follow):
            if not isinstance(entry, dict):
                raise ApiUnavailable("a line of the response is no log entry")
            if isinstance(error := entry.get("error"), dict):
                code, message = error.get("http_code"), str(error.get("message", ""))
                status = code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR
                raise ApiError(status, 0, escape_unprintable(message, _MESSAGE_LENGTH))
            result = entry.get("result")
            if isinstance(result, dict) and not result.get("last"):
                yield str(result.get("content", "")).encode("utf-8", "replace") + b"\n"

    def open_terminal(self, pod: str, container: str) -> Terminal:
        """Open a shell on a terminal in a container. Raises ApiError or ApiUnavailable."""
        query = {
            "pod": pod,
            "container": container,
            "appName": self.application,
            "appNamespace": self.argo_namespace,
            "projectName": self.project,
            "namespace": self.namespace,
        }
        return Terminal(self.server.connect("terminal", query))

    def _read_manifest(self, pod: str) -> object:
        """Return the live manifest of a pod; None if the pod has gone in the meantime."""
        query = {
            "appNamespace": self.argo_namespace,
            "namespace": self.namespace,
            "resourceName": pod,
            "version": "v1",
            "group": "",
            "kind": "Pod",
        }
        answer = self.server.read(f"applications/{self.application}/resource", query)
        try:
            manifest: object = json.loads(answer["manifest"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return manifest


class Terminal(RemoteProcess):
    """A terminal of Argo CD. Argo CD chooses the shell, and reports no exit status."""

    def __init__(self, connection: websocket.WebSocket) -> None:
        super().__init__(connection)
        # A chunk of input may end within a character, and a message must be valid UTF-8.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._size: tuple[int, int] | None = None
        self._has_output = False

    def send(self, data: bytes) -> None:
        """Send the keys of the user."""
        if text := self._decoder.decode(data):
            self._send(operation="stdin", data=text)

    def end_input(self) -> None:
        """Type Ctrl-D, which ends a shell."""
        self._send(operation="stdin", data="\x04")

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell the size of the terminal."""
        self._size = columns, rows
        for _ in range(_REPEATED_SIZES):
            self._send(operation="resize", cols=columns, rows=rows)

    def receive(self) -> Iterator[Output]:
        """Yield the output that has arrived. Raises ApiUnavailable."""
        for message in self.socket.receive():
            try:
                data = (json.loads(message).get("data") or "").encode("utf-8", "surrogatepass")
            except (ValueError, AttributeError, RecursionError):
                raise ApiUnavailable("Argo CD sent an unreadable message") from None
            if not self._has_output:
                self._release_failed_shells()
            self._has_output = True
            yield Output(data)
        if self.socket.is_closed and self.socket.is_broken:
            raise ApiUnavailable("the connection broke off before the shell ended")

    def _release_failed_shells(self) -> None:
        """Send an input and sizes that Argo CD may lose, so that it loses no key of the user.

        Argo CD tries bash before sh. If the image lacks bash, the goroutines of this attempt stay. They consume the first
        input, and some of the sizes, so `resize` sends each size several times. Ctrl-U, which clears an empty line, has no
        effect in a shell that does get it.
        """
        self._send(operation="stdin", data="\x15")
        if self._size is not None:
            self.resize(*self._size)

    def _send(self, **message: object) -> None:
        self.socket.send(json.dumps(message).encode(), websocket.ABNF.OPCODE_TEXT)


def _list_nodes(tree: object) -> list[dict[str, object]]:
    nodes = tree.get("nodes") if isinstance(tree, dict) else None
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []

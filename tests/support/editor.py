"""An editor for tests: starts `allot lsp` and speaks the Language Server Protocol to it, without the server's library."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ALLOT_LSP = (sys.executable, "-m", "allotment", "lsp")
SECONDS = 30  # a lost answer fails the test after this time
Json = dict[str, Any]


class Editor:
    """An editor with a running server. `here` is the folder that the editor opens."""

    def __init__(
        self,
        here: Path,
        *,
        words: Sequence[str] = (),
        encodings: Sequence[str] = ("utf-16",),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.here = here
        self.process = subprocess.Popen(
            [*ALLOT_LSP, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={**os.environ, **(environment or {})},
        )
        self._numbers = itertools.count(1)
        self._messages: queue.Queue[Json] = queue.Queue()
        self._errors: list[bytes] = []
        self._threads = [
            threading.Thread(target=read, daemon=True) for read in (self._read_messages, self._read_errors)
        ]
        for thread in self._threads:
            thread.start()
        self.registrations: list[Json] = []
        self.log: list[str] = []
        self.diagnostics: dict[str, list[Json]] = {}
        self.capabilities = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": here.as_uri(),
                "capabilities": {
                    "general": {"positionEncodings": list(encodings)},
                    "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}},
                },
            },
        )["capabilities"]
        self.notify("initialized", {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            if kind is None and self.process.poll() is None:
                self.request("shutdown", None)
                self.notify("exit", None)
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            for thread in self._threads:
                thread.join()
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None
                pipe.close()

    @property
    def errors(self) -> str:
        """The standard error of the server so far."""
        return b"".join(self._errors).decode()

    def uri(self, path: str) -> str:
        """Return the URI of a file below the folder of the editor."""
        return (self.here / path).as_uri()

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, params: Any) -> Any:
        """Send a request, and return its result."""
        number = next(self._numbers)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for message in self._receive():
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message["error"]
                return message["result"]
        raise AssertionError("no answer")

    def open(self, path: str, text: str, version: int = 1) -> None:
        """Open a document."""
        document = {"uri": self.uri(path), "languageId": "yaml", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, path: str, text: str, version: int) -> None:
        """Replace the text of an open document, without saving it."""
        document = {"uri": self.uri(path), "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def close(self, path: str) -> None:
        """Close a document."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(path)}})

    def report_changes(self, *paths: str) -> None:
        """Report that other programs changed files."""
        changes = [{"uri": self.uri(path), "type": 2} for path in paths]
        self.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def await_diagnostics(self, path: str, version: int | None = None) -> list[Json]:
        """Return the next diagnostics of a file, for this version of its document."""
        for message in self._receive():
            if message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                if params["uri"] == self.uri(path) and params.get("version") == version:
                    return list(params["diagnostics"])
        raise AssertionError("no diagnostics")

    def await_log(self, words: str) -> None:
        """Wait for a line of the log that contains `words`."""
        for _ in self._receive():
            if any(words in line for line in self.log):
                return

    def at(self, path: str, line: int, character: int) -> Json:
        """Return the parameters of a request at a position."""
        return {
            "textDocument": {"uri": self.uri(path)},
            "position": {"line": line, "character": character},
        }

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def _send(self, message: Json) -> None:
        body = json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def _receive(self) -> Iterator[Json]:
        """Yield the messages of the server, after it answered its requests and recorded its notifications."""
        while True:
            message = self._messages.get(timeout=SECONDS)
            method = message.get("method")
            if method == "client/registerCapability":
                self.registrations += message["params"]["registrations"]
            elif method == "window/logMessage":
                self.log.append(message["params"]["message"])
            elif method == "textDocument/publishDiagnostics":
                self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
            elif method == "exit":
                raise AssertionError(f"the server ended: {self.errors}")
            if method is not None and "id" in message:
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": None})
            yield message

    def _read_messages(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None
        while header := pipe.readline():
            assert header.lower().startswith(b"content-length:"), header
            while pipe.readline().strip():
                pass
            self._messages.put(json.loads(pipe.read(int(header.split(b":")[1]))))
        self._messages.put({"method": "exit"})

    def _read_errors(self) -> None:
        pipe = self.process.stderr
        assert pipe is not None
        self._errors.extend(pipe)

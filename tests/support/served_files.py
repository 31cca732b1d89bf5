"""The file server of a folder, as a pod runs it."""

from __future__ import annotations

import http.client
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allotment.manifests.tenant.accessor import SERVER_ARGS
from tests.controlplane import crates
from tests.support.waiting import eventually


@contextmanager
def served(folder: Path, port: int, declared: list[str] = SERVER_ARGS) -> Iterator[subprocess.Popen[bytes]]:
    """Show a folder as an accessor does, on the loopback."""
    arguments = [str(port) if word == "5000" else str(folder) if word == "/data" else word for word in declared]
    process = subprocess.Popen(
        [crates.program("dufs"), *arguments, "--bind", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        eventually(lambda: get(port, "/?json")[0] == 200, "dufs to answer", 20)
        yield process
    finally:
        process.kill()
        process.wait()


def get(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    sent = b"x" if method == "PUT" and body is None else body
    connection.request(method, path, sent, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body

"""A registry of images that can only be read: OCI's distribution API, served from a folder into which tests put images."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.controlplane import images

PRIVATE = "private"  # images under this name need the login ROBOT with PASSWORD
ROBOT, PASSWORD = "robot", "registry-password"
AUTHORIZATION = f"Basic {base64.b64encode(f'{ROBOT}:{PASSWORD}'.encode()).decode()}"
PREFIX, MANIFESTS = ["", "v2"], "manifests"
BLOBS = "blobs/sha256"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def put(folder: Path, offered: Mapping[str, images.Image]) -> dict[str, str]:
    """Offer images by names such as `registry.example/web:1`; return by which digest each can be pulled."""
    pinned = {}
    with tarfile.open(fileobj=io.BytesIO(images.archive(offered))) as archive:
        files = {member.name: file.read() for member in archive if (file := archive.extractfile(member)) is not None}
    for path, data in files.items():
        if path.startswith(f"{BLOBS}/"):
            _write(folder / path, data)
    for manifest in json.loads(files["index.json"])["manifests"]:
        name, digest = manifest["annotations"]["io.containerd.image.name"], manifest["digest"]
        repository, _, tag = name.rpartition(":")
        for reference in (tag, digest):
            _write(folder / MANIFESTS / repository / reference, digest.encode())
        pinned[name] = f"{repository}@{digest}"
    return pinned


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def server(folder: Path, address: str, port: int) -> ThreadingHTTPServer:
    """Return a server of what lies in a folder; it plays every registry, by the name that containerd asks a mirror for."""
    return ThreadingHTTPServer((address, port), partial(_Registry, folder))


class _Registry(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, *arguments: object) -> None:
        self._folder = folder
        super().__init__(*arguments)  # type: ignore[arg-type]  # the server gives what it takes: request, address, itself

    def do_GET(self) -> None:
        """Answer with a manifest or a blob."""
        url = urlsplit(self.path)
        registry = parse_qs(url.query).get("ns", [""])[0]
        parts = url.path.split("/")
        if ".." in parts or parts[:2] != PREFIX or len(parts) < 5:
            self._say(404, "NOT_FOUND")
        elif parts[2] == PRIVATE and self.headers["Authorization"] != AUTHORIZATION:
            self._say(401, "UNAUTHORIZED", {"WWW-Authenticate": 'Basic realm="registry"'})
        elif parts[-2] == MANIFESTS:
            self._manifest(self._folder.joinpath(MANIFESTS, registry, *parts[2:-2], parts[-1]))
        else:
            self._blob(parts[-1], "application/octet-stream", "BLOB_UNKNOWN")

    def do_HEAD(self) -> None:
        """Answer as to GET, without the body."""
        self.do_GET()

    def _manifest(self, named: Path) -> None:
        digest = named.read_text(encoding="ascii") if named.is_file() else ""
        self._blob(digest, MANIFEST, "MANIFEST_UNKNOWN")

    def _blob(self, digest: str, kind: str, otherwise: str) -> None:
        file = self._folder / BLOBS / digest.removeprefix("sha256:")
        if file.is_file():
            self._send(200, file.read_bytes(), {"Content-Type": kind, "Docker-Content-Digest": digest})
        else:
            self._say(404, otherwise)

    def _say(self, status: int, code: str, more: Mapping[str, str] | None = None) -> None:
        document = {"errors": [{"code": code, "message": f"{self.path} isn't given"}]}
        self._send(status, json.dumps(document).encode(), {"Content-Type": "application/json", **(more or {})})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

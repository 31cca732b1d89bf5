"""The client of image registries, with the reference implementation of OCI's distribution API."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from allotment.adapters.registry.client import resolve_image
from allotment.problems import OperationRefused
from tests.controlplane import programs
from tests.controlplane.fixtures import needs
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

CONFIGURATION = """\
version: 0.1
storage:
  filesystem:
    rootdirectory: {folder}
http:
  addr: {host}
"""
OCI = "application/vnd.oci.image"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where an empty registry answers."""
    needs("distribution")
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    (folder / "config.yml").write_text(CONFIGURATION.format(folder=folder / "data", host=address))
    command = [str(programs.program("registry")), "serve", str(folder / "config.yml")]
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        eventually(lambda: _answers(address), "the registry to answer")
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        return urllib3.request("GET", f"http://{address}/v2/", retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def push_blob(host: str, data: bytes, kind: str) -> dict[str, Any]:
    """Put a blob into the registry, and return its descriptor."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    url = urllib3.request("POST", f"http://{host}/v2/team/web/blobs/uploads/").headers["Location"]
    put = urllib3.request(
        "PUT", f"{url}&digest={digest}", body=data, headers={"Content-Type": "application/octet-stream"}
    )
    assert put.status == 201, put.data
    return {"mediaType": f"{OCI}.{kind}", "digest": digest, "size": len(data)}


def push_manifest(host: str, tag: str, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    """Put a manifest or an index into the registry, and return its descriptor."""
    media_type = f"{OCI}.{kind}.v1+json"
    body = json.dumps({"schemaVersion": 2, "mediaType": media_type, **document}).encode()
    url = f"http://{host}/v2/team/web/manifests/{tag}"
    put = urllib3.request("PUT", url, body=body, headers={"Content-Type": media_type})
    assert put.status == 201, put.data
    return {"mediaType": media_type, "digest": put.headers["Docker-Content-Digest"], "size": len(body)}


def test_tags_of_a_manifest_and_of_an_index_are_resolved(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    config, layer = push_blob(host, b"{}", "config.v1+json"), push_blob(host, b"layer", "layer.v1.tar")
    manifest = push_manifest(host, "1", "manifest", {"config": config, "layers": [layer]})
    platform = {"platform": {"os": "linux", "architecture": "amd64"}}
    index = push_manifest(host, "2", "index", {"manifests": [{**manifest, **platform}]})
    assert resolve_image(f"{host}/team/web:1") == f"{host}/team/web:1@{manifest['digest']}"
    assert resolve_image(f"{host}/team/web:2") == f"{host}/team/web:2@{index['digest']}"
    for name in ("team/web:3", "team/other:1"):
        with pytest.raises(OperationRefused, match=r"has no image .*: check the name and the tag \(\w+_UNKNOWN\)"):
            resolve_image(f"{host}/{name}")

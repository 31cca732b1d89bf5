"""A registry that tests put images into: what it answers whoever pulls."""

from __future__ import annotations

import hashlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.controlplane import registry
from tests.controlplane.images import Image

HELLO = Image({"bin/hello": b"#!/bin/sh\necho hello\n"}, ["/bin/hello"])


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Return where a registry of the test's folder answers."""
    server = registry.server(tmp_path, "127.0.0.1", 0)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    serving.join()


def send_request(url: str, method: str = "GET") -> tuple[HTTPMessage, bytes]:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=5) as answer:
        return answer.headers, answer.read()


def refused(url: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as raised:
        send_request(url)
    with raised.value as error:
        return error.code, json.loads(error.read())["errors"][0]["code"]


def test_an_image_is_pulled_by_its_tag_and_by_its_digest(url: str, tmp_path: Path) -> None:
    pinned = registry.put(tmp_path, {"registry.example/team/web:1": HELLO})["registry.example/team/web:1"]
    repository, _, digest = pinned.partition("@")
    assert repository == "registry.example/team/web"
    for reference in ("1", digest):
        address = f"{url}/v2/team/web/manifests/{reference}?ns=registry.example"
        headers, body = send_request(address)
        assert headers["Docker-Content-Digest"] == digest == f"sha256:{hashlib.sha256(body).hexdigest()}"
        assert headers["Content-Type"] == json.loads(body)["mediaType"]
        head, nothing = send_request(address, "HEAD")
        assert (head["Content-Length"], nothing) == (str(len(body)), b"")
    for part in [json.loads(body)["config"], *json.loads(body)["layers"]]:
        _, blob = send_request(f"{url}/v2/team/web/blobs/{part['digest']}?ns=registry.example")
        assert part["digest"] == f"sha256:{hashlib.sha256(blob).hexdigest()}"


def test_the_registry_answers_404_for_an_unknown_manifest_or_blob(url: str, tmp_path: Path) -> None:
    registry.put(tmp_path, {"registry.example/web:1": HELLO})
    for address in ("web/manifests/2?ns=registry.example", "other/manifests/1?ns=registry.example", "web/manifests/1"):
        assert refused(f"{url}/v2/{address}") == (404, "MANIFEST_UNKNOWN")
    assert refused(f"{url}/v2/web/blobs/sha256:{'0' * 64}") == (404, "BLOB_UNKNOWN")
    assert refused(f"{url}/v2/../web/manifests/1") == (404, "NOT_FOUND")
    assert refused(f"{url}/nothing") == (404, "NOT_FOUND")


def test_the_registry_demands_a_login_for_a_private_image(url: str, tmp_path: Path) -> None:
    registry.put(tmp_path, {"registry.example/private/web:1": HELLO})
    address = f"{url}/v2/private/web/manifests/1?ns=registry.example"
    assert refused(address) == (401, "UNAUTHORIZED")
    login = urllib.request.Request(address, headers={"Authorization": registry.AUTHORIZATION})
    with urllib.request.urlopen(login) as response:
        assert response.status == 200

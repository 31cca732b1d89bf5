"""Images as containerd takes them in: an archive of the OCI layout."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import Any

from tests.controlplane.images import Image, archive

HELLO = Image({"bin/hello": b"#!/bin/sh\necho hello\n"}, ["/bin/hello"], {"bin/hi": "hello"})


def blobs(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member)) is not None}


def test_an_archive_has_each_image_by_its_name_and_all_that_it_is_made_of() -> None:
    blobs_by_path = blobs(archive({"a.example/x@sha256:1": HELLO, "a.example/y:2": HELLO}))
    for path, data in blobs_by_path.items():
        if path.startswith("blobs/sha256/"):
            assert path.removeprefix("blobs/sha256/") == hashlib.sha256(data).hexdigest()

    def blob(described: dict[str, Any]) -> bytes:
        data = blobs_by_path["blobs/" + described["digest"].replace(":", "/")]
        assert len(data) == described["size"]
        return data

    manifests = json.loads(blobs_by_path["index.json"])["manifests"]
    assert [descriptor["annotations"]["io.containerd.image.name"] for descriptor in manifests] == [
        "a.example/x@sha256:1",
        "a.example/y:2",
    ]
    manifest = json.loads(blob(manifests[0]))
    assert json.loads(blob(manifest["config"]))["config"]["Entrypoint"] == ["/bin/hello"]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(manifest["layers"][0])))) as layer:
        assert layer.getmember("bin/hello").mode == 0o755
        assert layer.getmember("bin/hi").linkname == "hello"
        assert layer.getmember("tmp").mode == 0o1777


def test_the_same_image_is_the_same_bytes() -> None:
    assert archive({"a": HELLO}) == archive({"a": HELLO})

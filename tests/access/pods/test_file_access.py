"""The URL of a storage gets the token of the person, no other host does, and a refusal names the way out."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import edit
from tests.support.faults import Request, Server, serving

from allotment.access.pods.file_access import PublishedFiles, find_storage
from allotment.adapters.declaration_source import Source
from allotment.adapters.file_server import TransferError
from allotment.adapters.folder_source import FolderSource
from allotment.branches.platform_settings import read_cluster
from allotment.declared.kinds.cluster import Cluster
from allotment.problems import OperationRefused

HOST = "outputs--files--studio-kite.eu-1.gpu.northlight.example"
STORAGE = "tenants/studio-kite/storages/outputs.yaml"


@pytest.fixture
def source(sample: Path) -> Source:
    return FolderSource(sample)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve an empty folder at the URL of the storage, to whoever has a token."""

    def answer(request: Request) -> None:
        status = {"Bearer good": 200, "Bearer viewer": 403, None: 200}.get(request.headers.get("Authorization"), 401)
        request.whole(b'{"paths": [], "dir_exists": true}', status)

    with serving(otherwise=answer) as server:

        def connect(host: str, **options: object) -> http.client.HTTPConnection:
            assert host == HOST
            return http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)

        monkeypatch.setattr(http.client, "HTTPSConnection", connect)
        yield server


def open_files(source: Source, token: str) -> PublishedFiles:
    """Return the access to the storage with a token."""
    cluster = read_cluster(source, "eu-1")
    assert cluster is not None

    def read_token(declared: Cluster) -> str:
        assert declared is cluster
        return token

    storage = find_storage(source, "studio-kite", "outputs")
    return PublishedFiles(cluster, "studio-kite", storage.model, read_token)


def test_the_url_gets_the_token(source: Source, server: Server) -> None:
    with open_files(source, "good").open() as files:
        assert files.list_folder("/") == []
    assert server.requests[0].headers["Authorization"] == "Bearer good"


def test_a_public_url_gets_no_token(source: Source, server: Server, sample: Path) -> None:
    edit(sample, STORAGE, "exposure: Members", "exposure: Public")
    with open_files(source, "good").open() as files:
        assert files.list_folder("/") == []
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("bad", f"https://{HOST} doesn't accept your login: log in again with `allot login eu-1`"),
        ("viewer", "Admins and Members of studio-kite may change files"),
    ],
)
def test_a_refusal_names_the_way_out(token: str, problem: str, source: Source, server: Server) -> None:
    access = open_files(source, token)
    with access.open() as files, pytest.raises(TransferError) as refused:
        files.list_folder("/")
    assert problem in access.explain(refused.value, True)


def test_a_storage_without_a_url_is_explained(source: Source, sample: Path) -> None:
    edit(sample, STORAGE, "exposure: Members", "exposure: Namespace")
    with pytest.raises(OperationRefused, match="has no URL, because the exposure of its accessor is Namespace"):
        open_files(source, "good")

"""What a test's own client does where the API server asks for another try."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import client as module
from tests.controlplane.client import Client

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "prepare", "namespace": "t-studio-kite"}}


class Server:
    """An API server that refuses its first writes with a conflict over an object of `kind`."""

    def __init__(self, kind: str, refusals: int) -> None:
        self.kind = kind
        self.refusals = refusals

    def create(self, *_: object, body: dict[str, Any], **__: object) -> dict[str, Any]:
        from kubernetes.client.exceptions import ApiException
        from kubernetes.dynamic.exceptions import ConflictError

        if self.refusals:
            self.refusals -= 1
            answer = ApiException(status=409, reason="Conflict")
            answer.body = json.dumps({"message": "the object has been modified", "details": {"kind": self.kind}})
            raise ConflictError(answer)
        return body

    server_side_apply = create


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Client:
    monkeypatch.setattr(module, "CONTENDED", (0, 0))
    monkeypatch.setattr(Client, "_kind", lambda *_: None)
    return Client(tmp_path / "kubeconfig")


def test_a_write_that_lost_the_race_for_a_quota_is_sent_again(client: Client) -> None:
    client._api = Server("resourcequotas", 2)  # type: ignore[assignment]  # what it raises is all that is tried
    assert client.create(JOB) == JOB
    client._api = Server("resourcequotas", 2)  # type: ignore[assignment]  # as above
    assert client.apply(JOB) == [JOB]


@pytest.mark.parametrize(("kind", "refusals"), [("resourcequotas", 3), ("jobs", 1)])
def test_a_conflict_that_stays_or_is_another_is_raised(client: Client, kind: str, refusals: int) -> None:
    from kubernetes.dynamic.exceptions import ConflictError

    client._api = Server(kind, refusals)  # type: ignore[assignment]  # as above
    with pytest.raises(ConflictError):
        client.create(JOB)

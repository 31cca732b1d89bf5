"""`allot logs` and `allot exec` through an Argo CD that does what a real one won't do on demand.

`tests/e2e/node/test_people.py` runs both commands against a real Argo CD.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import Allot
from tests.support import live
from tests.support.faults import Request, Server, serving

RUNS = {"name": "main", **live.started(3, ready=True)}
APPLICATION = "/api/v1/applications/solo-ada--eu-1--compute"


class ArgoCD:
    """An Argo CD with pods and a log."""

    def __init__(self) -> None:
        self.pods = [live.pod(node="n1", container=RUNS), live.pod("other", node="n1", container=RUNS)]
        self.log = b'{"result": {"content": "line one"}}\n{"result": {"content": "", "last": true}}\n'
        self.tree: Any = None
        self.refusal: tuple[int, str] | None = None

    def answer(self, request: Request) -> None:
        """Answer a request of the API."""
        if self.refusal is not None:
            status, message = self.refusal
            request.whole(json.dumps({"message": message}).encode(), status)
        elif request.request_path == f"{APPLICATION}/resource-tree":
            nodes = [{"kind": "Pod", "namespace": "t-solo-ada", "name": pod["metadata"]["name"]} for pod in self.pods]
            request.whole(json.dumps({"nodes": nodes} if self.tree is None else self.tree).encode())
        elif request.request_path == f"{APPLICATION}/resource":
            (pod,) = [pod for pod in self.pods if pod["metadata"]["name"] == request.query["resourceName"]]
            request.whole(json.dumps({"manifest": json.dumps(pod)}).encode())
        else:
            request.whole(self.log)


@pytest.fixture
def argocd(tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArgoCD]:
    argocd = ArgoCD()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("ARGOCD_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("ARGOCD_AUTH_TOKEN", raising=False)
    with serving(otherwise=argocd.answer) as server:
        write_login(server, tmp_path)
        path = sample / "platform/platform.yaml"
        text = path.read_text(encoding="utf-8")
        assert "https://argocd.northlight.example" in text
        declared = server.url.replace("http:", "https:")
        path.write_text(text.replace("https://argocd.northlight.example", declared), encoding="utf-8")
        yield argocd


def write_login(server: Server, folder: Path) -> None:
    """Write a login at a server, without TLS."""
    address = server.url.removeprefix("http://")
    config = {
        "current-context": address,
        "contexts": [{"name": address, "server": address, "user": "ada"}],
        "servers": [{"server": address, "plain-text": True}],
        "users": [{"name": "ada", "auth-token": "t"}],
    }
    (folder / "config").write_text(yaml.safe_dump(config), encoding="utf-8")


def run_logs(allot: Allot, sample: Path, *words: str) -> tuple[int, str, str]:
    """Return how `allot logs` of an instance ended."""
    result = allot("logs", "solo-ada/webui", "--repo", sample, *words)
    return result.code, result.out, result.err


def test_without_a_kubeconfig_the_login_prints_the_log(argocd: ArgoCD, allot: Allot, sample: Path) -> None:
    assert run_logs(allot, sample) == (0, "line one\n", "")


def test_an_error_within_the_log_is_an_error(argocd: ArgoCD, allot: Allot, sample: Path) -> None:
    argocd.log = b'{"error": {"http_code": 500, "message": "container main is\\u001b[2J gone"}}\n'
    code, out, error = run_logs(allot, sample)
    assert (code, out) == (2, "")
    assert error.endswith("refused to read logs: container main is\\x1b[2J gone\n")


@pytest.mark.parametrize("log", [b"<html>", b"[]\n", b'{"result": {"content": "line'])
def test_a_response_that_is_no_log_is_an_error(log: bytes, argocd: ArgoCD, allot: Allot, sample: Path) -> None:
    argocd.log = log
    code, out, error = run_logs(allot, sample)
    assert (code, out) == (2, "")
    assert "doesn't answer: a line of the response is no " in error


@pytest.mark.parametrize("tree", [[], {}, {"nodes": 3}, {"nodes": [3]}])
def test_an_application_without_pods_has_no_log(tree: Any, argocd: ArgoCD, allot: Allot, sample: Path) -> None:
    argocd.tree = tree
    code, out, error = run_logs(allot, sample)
    assert (code, out) == (2, "")
    assert "instance solo-ada/webui has no pod in eu-1" in error


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (401, "has expired: log in again with `argocd login`"),
        (403, "doesn't let you list pods of tenant solo-ada: Admins and Members may"),
        (500, "refused to list pods: out of order"),
    ],
)
def test_a_refusal_names_the_way_out(status: int, problem: str, argocd: ArgoCD, allot: Allot, sample: Path) -> None:
    argocd.refusal = status, "out of order"
    code, out, error = run_logs(allot, sample)
    assert (code, out) == (2, "")
    assert problem in error


def test_without_a_login_the_command_names_the_way_to_one(
    argocd: ArgoCD, allot: Allot, sample: Path, tmp_path: Path
) -> None:
    (tmp_path / "config").unlink()
    code, out, error = run_logs(allot, sample, "--argocd")
    assert (code, out) == (2, "")
    assert "log in with `argocd login 127.0.0.1:" in error
    code, out, error = run_logs(allot, sample)
    assert (code, out) == (2, "")
    assert "`argocd login 127.0.0.1:" in error
    assert error.startswith("allot: the browser shows the log at https://127.0.0.1:")
    assert (
        "/solo-ada--eu-1--compute?node=apps/Deployment/t-solo-ada/webui/0&tab=logs, and `allot status solo-ada/webui` prints the"
        " link to a terminal; for this command, there is no" in error
    )


def test_argo_cd_prints_no_log_of_zero_lines(argocd: ArgoCD, allot: Allot, sample: Path) -> None:
    code, _, error = run_logs(allot, sample, "--tail", "0")
    assert code == 2
    assert "use --since instead of --tail 0" in error

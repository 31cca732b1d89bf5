"""`allot logs`: which pod and container it reads, with whose rights, and what it says if there is no log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import Allot
from tests.support import live
from tests.support.faults import Request, Server, listed, serving

from allotment.cli import logs

PODS = "/api/v1/namespaces/t-solo-ada/pods"
Words = tuple[object, ...]
RUNS = {"name": "main", **live.started(3, ready=True)}


class Cluster:
    """An API server with pods and logs, and a kubeconfig with contexts for it."""

    def __init__(self, server: Server, kubeconfig: Path) -> None:
        self.server, self.kubeconfig = server, kubeconfig
        self.pods: list[dict[str, Any]] = [live.pod(node="n1", container=RUNS)]
        self.logs: dict[str, bytes] = {"webui-1": b"line one\nline two\n"}
        self.status = 200
        self.log_problem = ""

    def answer(self, request: Request) -> None:
        """Answer a request for the pods, or for a log."""
        if self.status != 200:
            body = {"kind": "Status", "message": 'pods is forbidden: User "ada" cannot list'}
            request.whole(json.dumps(body).encode(), self.status)
        elif request.request_path == PODS:
            listed(*self.pods)(request)
        elif self.log_problem:
            request.whole(json.dumps({"kind": "Status", "message": self.log_problem}).encode(), 400)
        else:
            pod = request.request_path.removeprefix(f"{PODS}/").removesuffix("/log")
            request.whole(self.logs[pod])

    @property
    def log_request(self) -> tuple[str, dict[str, str]]:
        """The path and the query of the last request."""
        request = self.server.requests[-1]
        return request.request_path, request.query


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    kubeconfig = tmp_path / "kubeconfig"

    def answer(request: Request) -> None:
        test_cluster.answer(request)

    with serving(otherwise=answer) as server:
        contexts = {"current": "http://127.0.0.1:1", "eu-1": server.url}
        text = {
            "current-context": "current",
            "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in contexts],
            "clusters": [{"name": name, "cluster": {"server": url}} for name, url in contexts.items()],
            "users": [{"name": "u", "user": {}}],
        }
        kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **text}))
        test_cluster = Cluster(server, kubeconfig)
        yield test_cluster


@pytest.fixture
def words(cluster: Cluster, sample: Path) -> Words:
    """Return the options that name the cluster and the repository."""
    return ("--kubeconfig", cluster.kubeconfig, "--repo", sample)


def test_logs_prints_the_bytes_of_the_log(cluster: Cluster, words: Words, allot: Allot) -> None:
    result = allot("logs", "solo-ada/webui", *words)
    assert (result.code, result.out, result.err) == (0, "line one\nline two\n", "")
    assert cluster.log_request == (f"{PODS}/webui-1/log", {"container": "main"})
    assert cluster.server.requests[0].query == {"labelSelector": "allotment.dev/instance=webui"}


def test_the_options_select_a_part_of_the_log(cluster: Cluster, words: Words, allot: Allot) -> None:
    cluster.pods = [live.pod(node="n1", container={**RUNS, "restartCount": 2})]
    options = ("--follow", "--since", "1h30m", "--tail", "5", "--previous", "--container", "side")
    assert allot("logs", "solo-ada/webui", *options, *words).code == 0
    assert cluster.log_request[1] == {
        "container": "side",
        "follow": "true",
        "sinceSeconds": "5400",
        "tailLines": "5",
        "previous": "true",
    }


def test_the_newest_running_pod_is_chosen_unless_another_is_named(cluster: Cluster, words: Words, allot: Allot) -> None:
    cluster.pods = [
        live.pod(number=1, node="n1", container=RUNS, creationTimestamp="2026-11-21T10:00:00Z"),
        live.pod(number=2, node="n1", container=RUNS, creationTimestamp="2026-11-21T11:00:00Z"),
        live.pod(number=3, node="n1", creationTimestamp="2026-11-21T12:00:00Z"),
    ]
    cluster.logs = {"webui-1": b"one\n", "webui-2": b"two\n"}
    result = allot("logs", "solo-ada/webui", *words)
    assert result.out == "two\n"
    assert result.err == "3 pods: this is the log of webui-2; --pod names another pod\n"
    result = allot("logs", "solo-ada/webui", "--pod", "webui-1", *words)
    assert (result.out, result.err) == ("one\n", "")
    result = allot("logs", "solo-ada/webui", "--pod", "other", *words)
    assert (result.code, result.out) == (2, "")
    assert "has no pod named 'other' in eu-1; its pods: webui-3, webui-2, webui-1" in result.err


def test_a_storage_has_the_log_of_its_preparation(cluster: Cluster, words: Words, allot: Allot) -> None:
    pod = live.pod("models", node="n1", container=RUNS)
    cluster.pods, cluster.logs = [pod], {"models-1": b"3 of 5 files\n"}
    result = allot("logs", "solo-ada/models", *words)
    assert (result.code, result.out) == (0, "3 of 5 files\n")
    selector = cluster.server.requests[0].query["labelSelector"]
    assert selector == "allotment.dev/storage=models,allotment.dev/role in (prepare,copy)"


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("solo-ida/webui", "no tenant is named 'solo-ida'; did you mean 'solo-ada'?"),
        ("solo-ada/webu", "declares no valid instance or storage named 'webu'; did you mean 'webui'?"),
        ("../solo-ada/webui", "no tenant is named '..'"),
        ("solo-ada", "is not in the format TENANT/NAME"),
    ],
)
def test_a_wrong_name_reaches_no_api_server(
    what: str, problem: str, cluster: Cluster, words: Words, allot: Allot
) -> None:
    result = allot("logs", what, *words)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err
    assert cluster.server.requests == []


def test_logs_explains_a_missing_log(cluster: Cluster, words: Words, allot: Allot) -> None:
    cluster.pods = []
    assert "instance solo-ada/webui has no pod in eu-1: `allot status solo-ada/webui`" in (
        allot("logs", "solo-ada/webui", *words).err
    )
    cluster.pods = [live.pod(node="n1", container=live.waiting("ImagePullBackOff"))]
    assert "has no log, because its container waits: ImagePullBackOff" in allot("logs", "solo-ada/webui", *words).err
    cluster.pods = [live.pod(node="n1", container=RUNS)]
    assert "has not restarted: omit --previous" in allot("logs", "solo-ada/webui", "--previous", *words).err


def test_a_container_that_crashes_again_and_again_has_the_log_of_its_last_run(
    cluster: Cluster, words: Words, allot: Allot
) -> None:
    crashed = {"name": "main", **live.waiting("CrashLoopBackOff", restarts=4, ended={"exitCode": 1})}
    cluster.pods = [live.pod(node="n1", container=crashed)]
    result = allot("logs", "solo-ada/webui", *words)
    assert (result.code, result.out, result.err) == (0, "line one\nline two\n", "")


def test_the_api_server_says_why_there_is_no_log(cluster: Cluster, words: Words, allot: Allot) -> None:
    cluster.log_problem = "container side is not valid for pod webui-1\x1b[2J"
    result = allot("logs", "solo-ada/webui", "--container", "side", *words)
    assert (result.code, result.out) == (2, "")
    assert "refused to read logs: container side is not valid for pod webui-1\\x1b[2J" in result.err


def test_a_similar_name_of_a_folder_can_not_change_the_terminal(
    cluster: Cluster, words: Words, sample: Path, allot: Allot
) -> None:
    (sample / "tenants" / "orbital-lab\x1b[2J").mkdir()
    result = allot("logs", "orbital-labs/webui", *words)
    assert (result.code, cluster.server.requests) == (2, [])
    assert "did you mean 'orbital-lab\\x1b[2J'?" in result.err


def test_missing_rights_name_the_way_out(cluster: Cluster, words: Words, allot: Allot) -> None:
    cluster.status = 403
    result = allot("logs", "solo-ada/webui", *words)
    assert result.code == 2
    assert "your kubeconfig doesn't let you list pods in namespace t-solo-ada of eu-1" in result.err
    assert result.err.endswith("use another --context, or --argocd if you are a member of the tenant\n")


def test_the_context_of_the_cluster_is_preferred(cluster: Cluster, words: Words, allot: Allot) -> None:
    result = allot("logs", "solo-ada/webui", "--context", "current", *words)
    assert result.code == 2
    assert "http://127.0.0.1:1 doesn't answer" in result.err


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"a\x1b[31mred\x1b[0m\tb\r\n", b"a\x1b[31mred\x1b[0m\tb\r\n"),
        (b"\x1b]0;title\x07\x1b[2J\x08", b"]0;title[2J"),
        ("\u009b2J é".encode(), "2J é".encode()),
        (b"\xc2\x00\x9b2J \xc2\x01\x9d0;owned", "\ufffd\ufffd2J \ufffd\ufffd0;owned".encode()),
    ],
)
def test_a_terminal_shows_no_control_characters_but_colors(written: bytes, shown: bytes) -> None:
    assert logs._TerminalFilter().filter(written) == shown


def test_a_control_character_in_two_pieces_is_removed() -> None:
    terminal = logs._TerminalFilter()
    assert terminal.filter(b"a\xc2") + terminal.filter(b"\x9b2J\xc3") + terminal.filter(b"\xa9") == "a2Jé".encode()

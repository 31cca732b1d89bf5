"""`allot exec`: which command it starts where, what it passes on, and what it says if nothing can start.

`tests/e2e/node/test_people.py` runs it against a real kubelet and a real Argo CD.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from tests.conftest import Allot
from tests.support import live
from tests.support.faults import Request, listed, serving
from tests.support.kubeconfig import kubeconfig_of
from tests.support.websocket_server import ServerSocket

pytestmark = pytest.mark.process


PODS = "/api/v1/namespaces/t-solo-ada/pods"
RUNS = {"name": "main", **live.started(3, ready=True)}
SUCCESS = {"status": "Success"}
Play = Callable[[ServerSocket], None]


class Cluster:
    """An API server with a pod in which a played command runs, and a kubeconfig for it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.pods: list[dict[str, Any]] = [live.pod(node="n1", container=RUNS)]
        self.play: Play = lambda connection: end(connection, SUCCESS)
        self.query: dict[str, list[str]] = {}
        self.redirect = ""

    def answer(self, request: Request) -> None:
        """Answer a request for the pods, or start the played command."""
        if request.request_path == PODS:
            listed(*self.pods)(request)
            return
        self.query = parse_qs(urlsplit(request.path).query)
        if self.redirect:
            request.whole(b"", 302, Location=self.redirect)
            return
        connection = ServerSocket(request, "v5.channel.k8s.io")
        self.play(connection)
        connection.close()


def end(connection: ServerSocket, status: dict[str, Any]) -> None:
    """End a command with a Status object."""
    connection.send(b"\x03" + json.dumps(status).encode())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "kubeconfig")
    with serving(otherwise=cluster.answer) as server:
        cluster.kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(server)), encoding="utf-8")
        yield cluster


@pytest.fixture
def run_exec(cluster: Cluster, sample: Path) -> Callable[..., tuple[int, bytes, str]]:
    """Return a function that runs the command in a process of its own, with input, and returns how it ended."""

    def run(*words: str, data: bytes = b"") -> tuple[int, bytes, str]:
        options = ["--kubeconfig", str(cluster.kubeconfig), "--repo", str(sample)]
        command = [sys.executable, "-m", "allotment", "exec", *options, *words]
        done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr.decode()

    return run


Run = Callable[..., tuple[int, bytes, str]]


def test_a_command_gets_its_words_and_its_input_and_gives_its_output_and_status(
    cluster: Cluster, run_exec: Run
) -> None:
    received: list[bytes] = []

    def play(connection: ServerSocket) -> None:
        while (message := connection.receive()) != b"\xff\x00":
            assert message is not None
            received.append(message)
        connection.send(b"\x01out\xff")
        connection.send(b"\x02err\n")
        end(connection, {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}})

    cluster.play = play
    assert run_exec("solo-ada/webui", "--", "cat", "-n", "--", "$HOME", data=b"in\x00\xfe") == (7, b"out\xff", "err\n")
    assert b"".join(message[1:] for message in received) == b"in\x00\xfe"
    assert {message[:1] for message in received} == {b"\x00"}
    assert cluster.query == {
        "command": ["cat", "-n", "--", "$HOME"],
        "container": ["main"],
        "stdin": ["true"],
        "stdout": ["true"],
        "stderr": ["true"],
    }


def test_without_a_command_a_shell_starts(cluster: Cluster, run_exec: Run) -> None:
    assert run_exec("solo-ada/webui", "--no-stdin", "--container", "side") == (0, b"", "")
    assert cluster.query["command"][:2] == ["/bin/sh", "-c"]
    assert cluster.query["container"] == ["side"]
    assert "stdin" not in cluster.query


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (
            {"message": 'exec failed: unable to start container process: exec: "nope": not found in $PATH: unknown'},
            'refused to run commands: exec: "nope": not found in $PATH\n',
        ),
        ({"message": "\x1b[2Jbad", "code": 500}, "refused to run commands: \\x1b[2Jbad\n"),
        ({"code": "many"}, "ended the command with an unreadable status\n"),
        ({"details": {"causes": [{"reason": "ExitCode", "message": "x"}]}}, "with an unreadable status\n"),
        ({"details": []}, "refused to run commands: answered 500\n"),
        ({"code": float("inf")}, "ended the command with an unreadable status\n"),
        ({"details": [1]}, "ended the command with an unreadable status\n"),
        ([], "ended the command with an unreadable status\n"),
    ],
)
def test_a_command_that_does_not_start_is_an_error_in_one_line(
    status: Any, problem: str, cluster: Cluster, run_exec: Run
) -> None:
    cluster.play = lambda connection: end(connection, status)
    code, out, error = run_exec("solo-ada/webui", "--", "nope")
    assert (code, out) == (2, b"")
    assert error.count("\n") == 1
    assert error.endswith(problem), error


def test_a_redirect_is_not_followed_because_it_would_send_the_token_elsewhere(cluster: Cluster, run_exec: Run) -> None:
    with serving(otherwise=lambda request: request.whole(b"")) as other:
        cluster.redirect = f"{other.url.replace('http:', 'ws:')}/x"
        code, out, error = run_exec("solo-ada/webui", "--", "id")
        assert (code, out, other.requests) == (2, b"", [])
    assert "Traceback" not in error


def test_a_command_that_ends_before_its_input_keeps_its_status(cluster: Cluster, run_exec: Run) -> None:
    def play(connection: ServerSocket) -> None:
        connection.receive()
        connection.send(b"\x01first line\n")
        end(connection, {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}})

    cluster.play = play
    for _ in range(3):
        assert run_exec("solo-ada/webui", "--", "head", "-1", data=bytes(20 << 20)) == (7, b"first line\n", "")


@pytest.mark.parametrize("length", [b"\x7f" + (1 << 40).to_bytes(8, "big"), b"\x7f" + (17 << 20).to_bytes(8, "big")])
def test_a_message_that_is_too_long_is_an_error(length: bytes, cluster: Cluster, run_exec: Run) -> None:
    def play(connection: ServerSocket) -> None:
        connection.write(b"\x82" + length + bytes(1000))

    cluster.play = play
    code, out, error = run_exec("solo-ada/webui", "--", "id")
    assert (code, out) == (2, b"")
    assert error.endswith("the server sent a message that is too long\n")


def test_a_pod_with_a_strange_name_is_no_pod(cluster: Cluster, run_exec: Run) -> None:
    cluster.pods[0]["metadata"]["name"] = "webui\x1b]0;owned\x07"
    code, out, error = run_exec("solo-ada/webui", "--", "id")
    assert (code, out) == (2, b"")
    assert "has no pod in eu-1" in error
    assert "\x1b" not in error


def test_a_connection_that_breaks_off_is_an_error(cluster: Cluster, run_exec: Run) -> None:
    cluster.play = lambda connection: connection.send(b"\x01half")
    code, out, error = run_exec("solo-ada/webui", "--", "nope")
    assert (code, out) == (2, b"half")
    assert "doesn't answer: the connection broke off" in error


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("solo-ada/models",), "no command runs in the preparation of a storage: run it in an instance that mounts models"),
        (("solo-ada/webu",), "did you mean 'webui'?"),
        (("solo-ada/webui", "--tty"), "standard input and output are no terminal: omit --tty"),
        (("solo-ada/webui", "--argocd"), "--argocd needs no kubeconfig"),
    ],
)  # fmt: skip
def test_wrong_words_start_nothing(words: tuple[str, ...], problem: str, cluster: Cluster, run_exec: Run) -> None:
    if words[0] == "solo-ada/models":
        cluster.pods = [live.pod("models", node="n1", container=RUNS)]
    code, out, error = run_exec(*words)
    assert (code, out) == (2, b"")
    assert problem in error
    assert cluster.query == {}


def test_a_pod_that_does_not_run_is_explained(cluster: Cluster, run_exec: Run) -> None:
    cluster.pods = [live.pod()]
    code, _, error = run_exec("solo-ada/webui")
    assert code == 2
    assert (
        "pod webui-1 is Pending, so no command can run in it: `allot status solo-ada/webui` shows the reason" in error
    )


def test_the_help_has_examples(allot: Allot) -> None:
    assert "allot exec solo-ada/webui -- nvidia-smi" in allot("exec", "--help").out

"""`allot report`: as a process of its own it watches an API server, commits, survives a kill, and ends when it is told to."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import Allot
from tests.support import damage, live
from tests.support.faults import Answer, Request, Server, listed, serving, stays
from tests.support.instances import CRASHED, RUNS
from tests.support.killed import Run, kill_everywhere, killed_at
from tests.support.published import git
from tests.support.waiting import eventually

from allotment.adapters.git.repository import Repository
from allotment.observed.status import parse_tenant_status

BRANCH, OURS = "refs/heads/status/eu-1", "refs/allotment/status/eu-1"
PATH = f"tenants/{live.TENANT}.yaml"


class Cluster:
    """An API server that lists what a test says, and sends a changed pod to who watches."""

    def __init__(self, server: Server, kubeconfig: Path) -> None:
        self.server = server
        self.kubeconfig = kubeconfig

    objects: tuple[dict[str, Any], ...] = RUNS


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    def answer(request: Request) -> None:
        kind = request.request_path.rsplit("/", 1)[1]
        if request.watches:
            (changes if kind == "pods" else stays)(request)
        else:
            objects = [live_object for live_object in test_cluster.objects if f"{live_object['kind'].lower()}s" == kind]
            listed(*objects)(request)

    def changes(request: Request) -> None:
        """Send the pods whenever they changed."""
        request.begin()
        known = test_cluster.objects
        while not request.server.ending.wait(0.02):
            if test_cluster.objects is not known:
                known = test_cluster.objects
                request.say(
                    *(
                        {"type": "MODIFIED", "object": live_object}
                        for live_object in known
                        if live_object["kind"] == "Pod"
                    )
                )

    answers: Answer = answer
    with serving(*[answers] * 100_000, otherwise=answers) as server:
        kubeconfig = tmp_path / "kubeconfig"
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        text = {
            "current-context": "c",
            "contexts": [context],
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {}}],
        }
        kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **text}))
        test_cluster = Cluster(server, kubeconfig)
        yield test_cluster


@pytest.fixture
def words(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the options of a reporter of that cluster."""
    for key, value in (("NAME", "reporter"), ("EMAIL", "reporter@northlight.example")):
        monkeypatch.setenv(f"GIT_COMMITTER_{key}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    Repository.open_or_create(tmp_path / "remote.git")
    place = ["--to", str(tmp_path / "remote.git"), "--data", str(tmp_path / "data")]
    return ["report", "--cluster", "eu-1", "--kubeconfig", str(cluster.kubeconfig), "--interval", "0", *place]


def remote(words: list[str]) -> Path:
    return Path(words[words.index("--to") + 1])


def state(words: list[str]) -> str:
    status = parse_tenant_status((git(remote(words), "show", f"{BRANCH}:{PATH}") + "\n").encode())
    return status.instances[0].state


def test_once_writes_what_is_seen_now(words: list[str], allot: Allot) -> None:
    result = allot(*words, "--once")
    assert (result.code, result.err) == (0, "")
    assert state(words) == "Running"
    assert git(remote(words), "rev-parse", BRANCH) == git(remote(words), "rev-parse", OURS)


@pytest.mark.parametrize("harm", damage.DAMAGES)
def test_once_reports_from_a_damaged_clone(
    words: list[str], cluster: Cluster, allot: Allot, harm: Callable[[Path], None]
) -> None:
    assert allot(*words, "--once").code == 0
    harm(Path(words[words.index("--data") + 1]))
    cluster.objects = CRASHED
    assert allot(*words, "--once").code == 0
    assert state(words) == "Failed"


def begin(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "allotment", *words, "--listen", "127.0.0.1:0"], stdout=out, stderr=out
        )


@pytest.mark.process
def test_report_commits_until_a_termination_signal(words: list[str], cluster: Cluster, tmp_path: Path) -> None:
    running = begin(words, tmp_path / "log")
    try:
        eventually(lambda: state(words) == "Running", "the first commit", 60)
        begun = time.monotonic()
        cluster.objects = CRASHED
        eventually(lambda: state(words) == "Failed", "the next one", 60, pause=0.02)
        assert time.monotonic() - begun < 30
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
        events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
        assert (events[0], events[-1], events.count("reported")) == ("started", "stopped", 2)
    finally:
        running.kill()
        running.wait()


@pytest.mark.process
def test_a_kill_at_any_step_leaves_a_whole_status(
    words: list[str], cluster: Cluster, tmp_path: Path, allot: Allot
) -> None:
    def killed(step: int) -> tuple[Run, bool]:
        """Report another state, killed; return how it ended, and whether that state is written."""
        before = git(remote(words), "for-each-ref", "--format=%(objectname)", BRANCH)
        wanted = "Failed" if state(words) == "Running" else "Running"
        cluster.objects = CRASHED if wanted == "Failed" else RUNS
        run = killed_at(step, tmp_path / "said", "allotment", *words, "--once")
        tips = {git(remote(words), "for-each-ref", "--format=%(objectname)", name) for name in (BRANCH, OURS)}
        assert len(tips) == 1
        git(remote(words), "fsck", "--strict")
        new = tips != {before}
        assert not new or state(words) == wanted
        return run, new

    assert allot(*words, "--once").code == 0
    kill_everywhere(remote(words), killed)
    cluster.objects = RUNS
    assert allot(*words, "--once").code == 0
    assert state(words) == "Running"


@pytest.mark.process
def test_a_full_disk_is_told_and_nothing_is_half_written(words: list[str], cluster: Cluster, tmp_path: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "allotment", *words, "--once"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    before = git(remote(words), "for-each-ref")
    cluster.objects = CRASHED
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=full)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert git(remote(words), "for-each-ref") == before
    git(remote(words), "fsck", "--strict")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert state(words) == "Failed"


@pytest.mark.parametrize(
    ("wrong", "expected_error"),
    [
        (("--cluster", "../x"), "--cluster"),
        (("--listen", "8080"), "'8080' is not in the format HOST:PORT"),
        (("--lease", "x"), "'x' is not in the format NAMESPACE/NAME"),
        (("--kubeconfig", "/nothing"), "--kubeconfig"),
        (("--context", "other"), "leads to no API server"),
        (("--signing-key", __file__), "is not a private SSH key without a passphrase"),
    ],
)
def test_a_wrong_option_is_told(wrong: tuple[str, ...], expected_error: str, words: list[str], allot: Allot) -> None:
    result = allot(*words, *wrong)
    assert (result.code, result.out) == (2, "")
    assert expected_error in result.err

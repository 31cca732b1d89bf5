"""`allot run`: as a process of its own it publishes what is merged, says so, and ends when it is told to."""

from __future__ import annotations

import contextlib
import hmac
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Allot, edit
from tests.support.published import Place, Running, git
from tests.support.waiting import eventually

pytestmark = pytest.mark.process


WEBUI, STOPPED = "tenants/solo-ada/instances/webui.yaml", ("spec:\n", "spec:\n  state: Stopped\n")


@pytest.fixture
def running(place: Place, tmp_path: Path) -> Iterator[Running]:
    """Return one that looks once an hour, so that only what a test does wakes it."""
    service = Running(place.remote.as_uri(), tmp_path / "data", 3600)
    yield service
    service.process.kill()
    service.process.wait()


def test_run_publishes_a_merge_after_a_webhook(place: Place, running: Running) -> None:
    first = running.event("published", cluster="us-1")
    assert first["commit"] == place.refs()["refs/heads/rendered/us-1"]
    edit(place.root, WEBUI, *STOPPED)
    source = place.merge()
    assert running.get("/webhook", b'{"ref": "refs/heads/evil"}')[0] == 202
    assert running.event("published", source=source)["cluster"] == "eu-1"
    assert place.refs()["refs/allotment/source"] == source
    tip = place.refs()["refs/heads/rendered/eu-1"]
    assert running.metric(f'allotment_published_info{{cluster="eu-1",commit="{tip}"}}') == 1
    assert running.metric('allotment_commits_total{cluster="eu-1"}') == 2
    assert running.metric('allotment_commits_total{cluster="us-1"}') == 1
    assert running.metric("allotment_publish_seconds_count") == 2
    assert 6 < running.metric("allotment_rendered_tenants_total") < 12, "who didn't change isn't rendered again"
    assert running.metric(f'allotment_source_info{{commit="{source}"}}') == 1
    assert running.end() == 0
    assert running.events("stopped")


def test_run_publishes_to_the_remote_that_the_newest_commit_declares(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "rendered.git"
    subprocess.run(["git", "init", "-q", "--bare", str(other)], check=True)
    settings = {f"url.{other.as_uri()}.insteadOf": "https://git.example/rendered"}
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    for name, value in settings.items():
        monkeypatch.setenv("GIT_CONFIG_KEY_0", name)
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", value)
    declared = ("    branch: main\n", "    branch: main\n    rendered: https://git.example/rendered\n")
    edit(place.root, "platform/platform.yaml", *declared)
    source = place.merge()
    service = Running(place.remote.as_uri(), tmp_path / "data", 3600)
    try:
        service.event("published", cluster="us-1", source=source)
        assert place.refs() == {}, "nothing is written where the declarations are"
        assert git(other, "rev-parse", "refs/allotment/source") == source
        edit(place.root, "platform/platform.yaml", *reversed(declared))
        source = place.merge()
        service.get("/webhook", b"")
        service.event("published", cluster="us-1", source=source)
        assert place.refs()["refs/allotment/source"] == source
    finally:
        service.process.kill()
        service.process.wait()


def test_run_reports_and_counts_problems_and_continues(place: Place, running: Running) -> None:
    running.event("published", cluster="us-1")
    edit(place.root, WEBUI, "l4-quarter", "l4-fifth")
    source = place.merge()
    running.get("/webhook", b"")
    event = running.event("tenant kept")
    assert (event["tenant"], event["reason"], event["level"]) == ("solo-ada", "Invalid", "warning")
    assert "no GPUSpec is named 'l4-fifth'" in event["problems"][0]
    assert running.metric('allotment_kept_tenant{tenant="solo-ada"}') == 1
    assert running.metric('allotment_retained_tenants{reason="Invalid"}') == 1
    assert running.metric('allotment_retained_tenants{reason="Brake"}') == 0
    edit(place.root, "platform/specs/l4-quarter.yaml", "gpu:\n", "gpus:\n")
    place.merge()
    running.get("/webhook", b"")
    assert running.event("nothing published")["reason"] == "platform-invalid"
    assert running.metric('allotment_errors_total{reason="platform-invalid"}') == 1
    assert running.get("/readyz")[0] == 200, "it reaches all it needs"
    git(place.root, "reset", "-q", "--hard", f"{source}~")
    git(place.root, "push", "-q", "--force", "origin", "main")
    running.get("/webhook", b"")
    running.event("nothing published", reason="rewound")
    git(place.root, "reset", "-q", "--hard", source)
    edit(place.root, WEBUI, "l4-fifth", "l4-quarter")
    source = place.merge()
    running.get("/webhook", b"")
    eventually(lambda: place.refs()["refs/allotment/source"] == source, "it to be published")
    eventually(lambda: running.metric('allotment_kept_tenant{tenant="solo-ada"}') == 0, "it to be well")


def test_a_hook_that_declines_the_push_is_told_and_counted(place: Place, running: Running) -> None:
    running.event("published", cluster="us-1")
    edit(place.root, WEBUI, *STOPPED)
    source = place.merge()
    hook = place.remote / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'ask the platform team' >&2; exit 1\n")
    hook.chmod(0o755)
    running.get("/webhook", b"")
    event = running.event("nothing published", reason="refused")
    assert "remote: ask the platform team" in event["message"]
    assert "(pre-receive hook declined)" in event["message"]
    assert running.metric('allotment_errors_total{reason="refused"}') == 1
    assert running.get("/readyz")[0] == 200, "a person has to act, not Kubernetes"
    hook.unlink()
    running.get("/webhook", b"")
    running.event("published", source=source)


FULL_DISK = 'mount -t tmpfs -o size=8m none "$1"; shift; exec "$@"'


def test_a_full_disk_is_told_and_counted_until_there_is_space(place: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", FULL_DISK, "sh", str(data)]
    running = Running(place.remote.as_uri(), data, 3600, prefix=prefix)
    try:
        running.event("published", cluster="us-1")
        filler = Path(f"/proc/{running.process.pid}/root{data}/filler")
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        edit(place.root, WEBUI, *STOPPED)
        source = place.merge()
        running.get("/webhook", b"")
        event = running.event("nothing published", reason="disk-full")
        assert event["message"].startswith("a disk is full, that of this process or of the server: ")
        assert running.metric('allotment_errors_total{reason="disk-full"}') == 1
        assert running.get("/readyz")[0] == 503
        filler.unlink()
        running.get("/webhook", b"")
        running.event("published", source=source)
    finally:
        running.process.kill()
        running.process.wait()


def test_a_stock_below_what_is_held_is_published_and_logged(place: Place, running: Running) -> None:
    running.event("published", cluster="us-1")
    edit(place.root, "clusters/us-1/stocks/l40s-spot.yaml", "count: 12", "count: 5")
    source = place.merge()
    running.get("/webhook", b"")
    assert running.event("published", source=source)["cluster"] == "us-1"
    event = running.event("published with a warning")
    assert (event["level"], event["message"]) == (
        "warning",
        "clusters/us-1/stocks/l40s-spot.yaml:9:10: spec.count: 6 units of l40s-spot are held in us-1, 1 more than its stock"
        " (5 shared); held by acme-robotics/simulate 6: restore the stock, or stop instances [stock]",
    )


def test_run_polls_without_a_webhook_and_repairs_the_branch(place: Place, tmp_path: Path) -> None:
    running = Running(place.remote.as_uri(), tmp_path / "data", 1)
    try:
        running.event("published", cluster="us-1")
        git(place.root, "push", "-q", "--force", "origin", "HEAD:refs/heads/rendered/eu-1")
        running.event("foreign commit replaced", cluster="eu-1")
        assert "control/platform.rendered.yaml" in place.tree("eu-1")
        assert running.metric('allotment_foreign_commits_total{cluster="eu-1"}') == 1
        time.sleep(2.5)
        assert running.metric("allotment_publish_seconds_count") == 2, "a round in which nothing changed does nothing"
        place.remote.rename(tmp_path / "away.git")
        running.event("nothing published", reason="unreachable")
        assert running.get("/readyz")[0] == 503
        assert running.get("/healthz")[0] == 200
        (tmp_path / "away.git").rename(place.remote)
        edit(place.root, WEBUI, *STOPPED)
        running.event("published", source=place.merge())
        eventually(lambda: running.get("/readyz")[0] == 200, "it to be ready")
        assert running.end() == 0
    finally:
        running.process.kill()
        running.process.wait()


def test_its_own_clone_may_be_lost_or_found_again(place: Place, tmp_path: Path) -> None:
    for turn in ("Stopped", "Running"):
        edit(place.root, WEBUI, *(STOPPED if turn == "Stopped" else ("Stopped", turn)))
        source = place.merge()
        running = Running(place.remote.as_uri(), tmp_path / "data", 3600)
        try:
            running.event("published", source=source)
            assert running.end() == 0
        finally:
            running.process.kill()
            running.process.wait()


def test_other_pages_are_not_there(running: Running) -> None:
    for path, data in (("/", None), ("/metrics", None), ("/metrics/x", None), ("/webhook", None), ("/metrics", b"x")):
        assert running.get(path, data)[0] == 404, path
    # Its length is enough: of the body itself, which isn't read, a part might come too late to be sent.
    assert running.get("/webhook", b"", {"Content-Length": str(1 << 20 | 1)})[0] == 413
    assert running.get(running.metrics)[0] == 200, "the metrics have a port of their own"
    assert running.get(running.metrics.replace("/metrics", "/healthz"))[0] == 404
    assert running.get(running.metrics.replace("/metrics", "/webhook"), b"x")[0] == 404


@pytest.mark.parametrize(
    ("words", "expected_error"),
    [
        (
            (),
            "Name what to run: --publish, --report CLUSTER, --comment, --portal, --cordons CLUSTER, or several of them.",
        ),
        (("--publish", "--listen", "8080"), "'8080' is not in the format HOST:PORT"),
        (("--publish", "--listen", "192.0.2.1:80"), "192.0.2.1:80 can't be used as listen address"),
        (
            ("--portal", "--listen", "127.0.0.1:8080", "--portal-listen", "0.0.0.0:8081"),
            "--portal-listen has the port of /metrics, by default the port after that of --listen: name another port with"
            " --portal-listen or --metrics-listen",
        ),
        (("--publish", "--metrics-listen", "127.0.0.1:8080", "--listen", "127.0.0.1:8080"), "has the port of --listen"),
        (("--publish", "--interval", "0"), "--interval"),
        (("--publish", "--interval", "inf"), "'inf' is not a finite number"),
        (("--publish", "--tenant-seconds", "nan"), "'nan' is not a finite number"),
    ],
)
def test_a_wrong_option_is_told(words: tuple[str, ...], expected_error: str, allot: Allot, tmp_path: Path) -> None:
    result = allot("run", "--source", "./x", "--branch", "main", "--data", tmp_path / "data", *words)
    assert (result.code, result.out) == (2, "")
    assert expected_error in result.err


def _child(running: Running) -> int:
    """Return the process that comments."""
    process_ids = []
    for task in Path(f"/proc/{running.process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the thread has ended
            process_ids += [int(process_id) for process_id in (task / "children").read_text().split()]
    words = {process_id: Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0") for process_id in process_ids}
    return next((process_id for process_id, command in words.items() if b"--child" in command), 0)


def test_run_publishes_after_the_comment_process_dies(place: Place, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    words = ("--comment", "--forge-token-file", str(token), "--forge-api", "http://127.0.0.1:9")
    service = Running(place.remote.as_uri(), tmp_path / "data", 3600, *words)
    try:
        service.event("published", cluster="us-1")
        service.event("no comments", reason="forge")
        first = _child(service)
        os.kill(first, signal.SIGKILL)
        assert service.event("a process ended")["status"] == -signal.SIGKILL
        edit(place.root, WEBUI, *STOPPED)
        source = place.merge()
        service.get("/webhook", b"")
        service.event("published", source=source)
        assert service.get("/healthz")[0] == service.get("/readyz")[0] == 200
        eventually(lambda: _child(service) not in (0, first), "another one to comment")
        last = _child(service)
        assert service.end() == 0
        assert not Path(f"/proc/{last}").exists(), "it ends with the other"
    finally:
        service.process.kill()
        service.process.wait()


def test_comment_process_ends_after_a_kill_of_run(place: Place, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    words = ("--comment", "--forge-token-file", str(token), "--forge-api", "http://127.0.0.1:9")
    service = Running(place.remote.as_uri(), tmp_path / "data", 3600, *words)
    service.event("no comments", reason="forge")
    child = _child(service)
    service.process.kill()
    service.process.wait()
    eventually(lambda: not _runs(child), "the other to end")


def _runs(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_a_webhook_has_to_be_signed_where_there_is_a_secret(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("correct-horse-battery\n")
    service = Running(place.remote.as_uri(), tmp_path / "data", 3600, "--webhook-secret-file", str(file))
    body = b'{"ref": "refs/heads/main"}'
    digest = hmac.new(b"correct-horse-battery", body, "sha256").hexdigest()
    try:
        service.event("published", cluster="us-1")
        edit(place.root, WEBUI, *STOPPED)
        source = place.merge()
        assert service.get("/webhook", body)[0] == 401
        for wrong in (
            {"X-Hub-Signature-256": f"sha256={digest[:-1]}0"},
            {"X-Hub-Signature-256": digest},
            {"X-Gitea-Signature": ""},
            {"X-Gitlab-Token": "correct-horse-batterz"},
            {"X-Gitlab-Token": digest},
        ):
            assert service.get("/webhook", body, wrong)[0] == 403
        assert service.get("/webhook", body + b" ", {"X-Hub-Signature-256": f"sha256={digest}"})[0] == 403
        time.sleep(0.5)
        assert not [event for event in service.events("published") if event["source"] == source], "no round came of it"
        for good in (
            {"X-Hub-Signature-256": f"sha256={digest}"},
            {"X-Gitea-Signature": digest},
            {"X-Forgejo-Signature": digest},
            {"X-Gitlab-Token": "correct-horse-battery"},
        ):
            assert service.get("/webhook", body, good)[0] == 202
        service.event("published", source=source)
        counted = {
            word: service.metric(f'allotment_webhooks_total{{outcome="{word}"}}')
            for word in ("taken", "unsigned", "wrong")
        }
        assert counted == {"taken": 4, "unsigned": 1, "wrong": 6}
    finally:
        service.process.kill()
        service.process.wait()


@pytest.mark.parametrize("text", ["", "short", "not-ascii-but-löng-enough"])
@pytest.mark.parametrize("option", ["--webhook-secret-file", "--portal-secret-file"])
def test_a_secret_is_one(option: str, text: str, allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(text)
    result = allot("run", "--portal", "--source", "x", "--data", tmp_path, option, file)
    assert (result.code, "must contain a secret" in result.err) == (2, True)


def test_a_missing_file_of_the_portal_stops_the_start(allot: Allot, tmp_path: Path) -> None:
    words = ("--portal", "--source", "x", "--data", tmp_path)
    result = allot("run", *words, "--portal-secret-file", tmp_path / "credential")
    assert (result.code, "does not exist" in result.err) == (2, True)


def test_the_default_branch_of_the_source_names_the_branch(place: Place, tmp_path: Path) -> None:
    """A stranger can push a branch `main` where the branch of declarations has another name."""
    edit(place.root, "platform/platform.yaml", "branch: main", "branch: live")
    merged = place.merge()
    git(place.root, "push", "-q", "origin", "main:live")
    git(place.remote, "symbolic-ref", "HEAD", "refs/heads/live")
    edit(place.root, WEBUI, *STOPPED)
    place.merge()
    data = tmp_path / "data"
    first = Running(place.remote.as_uri(), data, 3600)
    try:
        assert first.event("published", cluster="eu-1")["source"] == merged
        assert first.event("started")["branch"] == "live"
    finally:
        first.process.kill()
        first.process.wait()
    place.remote.rename(tmp_path / "away.git")
    later = Running(place.remote.as_uri(), data, 3600)
    try:
        assert later.event("started")["branch"] == "live", "an earlier start found it"
    finally:
        later.process.kill()
        later.process.wait()

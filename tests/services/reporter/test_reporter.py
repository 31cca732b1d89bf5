"""What is seen becomes commits: at once, then at most one an interval, none lost, none forced, nobody else believed.

Cases 40 and 41.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.adapters.git.malformed import write
from tests.support import damage, live
from tests.support.cold_starts import PENDING, build_started_pod
from tests.support.instances import CRASHED, RUNS, STOPPED
from tests.support.placeholders import placeholder
from tests.support.published import git
from tests.support.recorded_usage import capacity, ended_usage, gaps, numbered, read_log
from tests.support.reported import BRANCH, OURS, PATH, Bed

from allotment.adapters.backoff import NO_BACKOFF, Backoff
from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.metrics import metrics_text
from allotment.branches.rendered_branches import SOURCE_REF
from allotment.branches.retention_ref import RETAINED
from allotment.observed.retention import RetainedTenant, RetentionReason, RetentionRecord
from allotment.observed.status import (
    ClusterStatus,
    parse_cluster_status,
)
from allotment.observed.status import dump_status as text_of_status
from allotment.problems import OperationRefused
from allotment.services.reporter import published_objects, reporter


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "BACKOFF", NO_BACKOFF)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    Repository.open_or_create(tmp_path / "remote.git")
    return tmp_path / "remote.git"


@pytest.fixture
def bed(tmp_path: Path, remote: Path) -> Bed:
    return Bed(tmp_path / "data", remote)


def test_the_first_commit_has_all_that_is_seen_and_no_parent(bed: Bed) -> None:
    bed.report(*RUNS, live.claim())
    files = git(bed.remote, "ls-tree", "-r", "--name-only", BRANCH).splitlines()
    assert files == ["capacity.yaml", "stocks.yaml", "summary.md", PATH]
    assert bed.commits() == 1
    assert bed.way() == ["Init", "Ready", "Running", "Ready"]
    stocks = yaml.safe_load(git(bed.remote, "show", f"{BRANCH}:stocks.yaml"))
    assert stocks["status"]["observedAt"] == "2026-11-21T10:00:01Z"
    assert git(bed.remote, "rev-parse", BRANCH) == git(bed.remote, "rev-parse", OURS)
    assert "| Running | 1 |" in git(bed.remote, "show", f"{BRANCH}:summary.md")


def test_a_commit_comes_only_with_a_change_and_says_which(bed: Bed) -> None:
    bed.report(*RUNS)
    bed.report(*RUNS)
    assert bed.commits() == 1
    bed.report(*CRASHED)
    assert (bed.commits(), bed.subject()) == (2, "solo-ada/webui: Running → Failed")
    bed.report(*CRASHED, live.claim(), live.claim("others", "c2"))
    assert bed.subject() == "eu-1: 2 changes"
    bed.report()
    bed.report(seconds=3700)
    assert git(bed.remote, "ls-tree", "-r", "--name-only", BRANCH).splitlines() == [
        "capacity.jsonl",
        "capacity.yaml",
        "stocks.yaml",
        "summary.md",
        f"usage/{live.TENANT}.jsonl",
    ], "the usage stays"
    assert git(bed.remote, "log", "--format=%s", BRANCH).splitlines()[:2] == ["eu-1: seen", "eu-1: 3 changes"]


def report_retained(bed: Bed, *tenants: str) -> str:
    """Report a publish that retained tenants, and return its source commit."""
    source = bed.publish(live.claim())
    bed.point(source, SOURCE_REF)
    retained = tuple(
        RetainedTenant(name, RetentionReason.INVALID, "2026-11-21T10:00:00Z", ("wrong",)) for name in tenants
    )
    bed.point(bed.write({"retained.json": RetentionRecord(source, retained).encode()}), RETAINED)
    for _ in range(3):
        bed.report(live.claim())
    return source


def test_the_summary_has_the_retained_tenants_of_the_cluster(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_objects, "POLL_SECONDS", 0)
    source = report_retained(bed, "other", live.TENANT)
    text = git(bed.remote, "show", f"{BRANCH}:summary.md")
    assert ("solo\\-ada | Invalid | wrong |" in text, "other" in text) == (True, False)
    commits = bed.commits()
    bed.report(live.claim())
    assert bed.commits() == commits, "nothing is new"
    bed.point(bed.write({"retained.json": RetentionRecord(source).encode()}), RETAINED)
    bed.report(live.claim())
    bed.report(live.claim())
    assert "Retained tenants" not in git(bed.remote, "show", f"{BRANCH}:summary.md")


def test_tenants_that_were_released_while_no_reporter_ran_leave_the_summary(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_objects, "POLL_SECONDS", 0)
    source = report_retained(bed, live.TENANT)
    assert "Retained tenants" in git(bed.remote, "show", f"{BRANCH}:summary.md")
    bed.point(bed.write({"retained.json": RetentionRecord(source).encode()}), RETAINED)
    restarted = Bed(tmp_path / "restarted", bed.remote)
    for _ in range(3):
        restarted.report(live.claim())
    assert "Retained tenants" not in git(bed.remote, "show", f"{BRANCH}:summary.md")


def test_a_restarted_reporter_says_that_the_retained_tenants_are_unknown(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_objects, "POLL_SECONDS", 0)
    report_retained(bed, live.TENANT)
    restarted = Bed(tmp_path / "restarted", bed.remote)
    with monkeypatch.context() as patch:
        patch.setattr(published_objects.PublishedBranch, "_fetch", lambda _: None)
        restarted.report(live.claim(), seconds=4_000)
        restarted.report(live.claim(), seconds=4_000)
        text = git(bed.remote, "show", f"{BRANCH}:summary.md")
        assert "## Retained tenants\n\nUnknown: the rendered branches cannot be read." in text
        assert "All is well." not in text
    restarted.report(live.claim())
    restarted.report(live.claim())
    assert "solo\\-ada | Invalid | wrong |" in git(bed.remote, "show", f"{BRANCH}:summary.md")


def test_changes_within_an_interval_are_one_commit_that_loses_none(tmp_path: Path, remote: Path) -> None:
    bed = Bed(tmp_path / "data", remote, interval=60)
    bed.report(*RUNS)
    for objects in (CRASHED, RUNS, STOPPED, RUNS, CRASHED, RUNS):
        bed.report(*objects, seconds=5)
    assert bed.commits() == 1
    bed.report(*RUNS, seconds=40)
    assert bed.commits() == 2
    assert bed.way()[3:] == [
        "Failed", "Ready", "Running", "Stopped", "Init", "Ready", "Running", "Failed", "Ready", "Running",
    ]  # fmt: skip


def ended_nodes(bed: Bed) -> list[tuple[str, str, str]]:
    """Return the nodes that have ended: name, end, and the last observation before a gap."""
    ended = [each for each in read_log(bed, "") if each.kind == "NodePool"]
    return [(each.node, each.end_time[14:19], each.last_observed_at[14:19]) for each in ended]


def test_units_that_change_twice_between_two_commits_are_all_recorded(tmp_path: Path, remote: Path) -> None:
    bed = Bed(tmp_path / "data", remote, interval=60)
    bed.report(*numbered(1))
    for number in (2, 3):
        bed.report(*numbered(number), seconds=5)
    bed.report(live.deployment(replicas=0), seconds=5)
    bed.report(*numbered(20), seconds=5)
    assert bed.commits() == 1
    bed.report(*numbered(20), seconds=45)
    assert bed.commits() == 2
    assert ended_usage(bed) == [
        ("p-webui-1", "00:01", "00:06", ""),
        ("p-webui-2", "00:02", "00:11", ""),
        ("p-webui-3", "00:03", "00:16", ""),
    ]
    assert [(each.uid, each.end_time) for each in bed.status().usage] == [("p-webui-20", "")]


def test_an_interval_that_ends_while_no_reporter_runs_has_the_last_certain_time(bed: Bed, tmp_path: Path) -> None:
    bed.report(*numbered(1))
    second_bed = Bed(tmp_path / "other", bed.remote)
    second_bed.clock = 300
    second_bed.report(*numbered(1))
    assert (ended_usage(second_bed), gaps(second_bed)) == ([], [("00:01", "05:01")]), "the same pod still runs"
    third_bed = Bed(tmp_path / "third", bed.remote)
    third_bed.clock = 600
    third_bed.report(*numbered(2))
    assert ended_usage(third_bed) == [("p-webui-1", "00:01", "10:01", "05:01")]
    assert gaps(third_bed) == [("00:01", "05:01"), ("05:01", "10:01")]
    third_bed.report(*numbered(3))
    assert len(gaps(third_bed)) == 2


def test_an_interval_that_ends_while_the_cluster_is_silent_has_the_last_certain_time(bed: Bed) -> None:
    bed.report(*numbered(1))
    for _ in range(3):
        bed.clock += 100
        bed.watch.contact = time.monotonic() - 200
        bed.reporter.tick()
        assert gaps(bed) == [], "it has not ended yet"
    bed.report(*numbered(2))
    assert gaps(bed) == [("00:01", "05:02")]
    assert ended_usage(bed) == [("p-webui-1", "00:01", "05:02", "00:01")]


def test_a_lost_answer_to_a_push_loses_no_interval(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remote has the commit, but the reporter doesn't know this. The remote is away for a while then."""
    stock = placeholder("shared", 4, pool="l4", gpu="l4")
    bed.report(*numbered(1), stock, live.node("a", gpu="l4"))
    push = Remote.push

    def push_and_fail(remote: Remote, *arguments: Any) -> bool:
        push(remote, *arguments)
        bed.remote.rename(tmp_path / "away.git")
        raise OperationRefused("the answer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "push", push_and_fail)
        bed.report(*numbered(2), stock, live.node("a", gpu="l4"))
    for number in (3, 4):
        bed.report(*numbered(number), seconds=100)
    (tmp_path / "away.git").rename(bed.remote)
    bed.report(*numbered(4), seconds=100)
    bed.reporter.tick()
    assert ended_usage(bed) == [
        ("p-webui-1", "00:01", "00:02", ""),
        ("p-webui-2", "00:02", "01:42", ""),
        ("p-webui-3", "00:03", "03:22", ""),
    ]
    assert gaps(bed) == []
    assert ended_nodes(bed) == [("a", "01:42", "")]


def test_the_versions_of_a_tenant_that_left_and_returned_are_linked(bed: Bed) -> None:
    bed.report(*numbered(1))
    bed.report()
    bed.report(seconds=3700)
    status = parse_cluster_status((git(bed.remote, "show", f"{BRANCH}:stocks.yaml") + "\n").encode())
    (departed,) = status.departed
    assert departed.tenant == live.TENANT
    assert bed.status(departed.commit).instances == ()
    assert [uid for uid, *_ in ended_usage(bed)] == ["p-webui-1"], "its usage stays"
    bed.report(*numbered(2))
    assert bed.status().previous == departed.commit
    assert parse_cluster_status((git(bed.remote, "show", f"{BRANCH}:stocks.yaml") + "\n").encode()).departed == ()
    bed.report()
    assert [uid for uid, *_ in ended_usage(bed)] == ["p-webui-1", "p-webui-2"]


def test_the_nodes_of_a_pool_are_recorded(bed: Bed, tmp_path: Path) -> None:
    def nodes(bed: Bed = bed) -> list[tuple[str, str, str]]:
        usage = capacity(bed).usage
        return [(each.name, each.node, each.start_time[14:19]) for each in usage if each.kind == "NodePool"]

    stock = placeholder("shared", 4, pool="l4", gpu="l4")
    bed.report(stock, live.node("a", gpu="l4"))
    assert nodes() == [("l4", "a", "00:01")]
    bed.report(stock, live.node("a", gpu="l4"), live.node("b", created=2, gpu="l4"))
    bed.report(stock, live.node("b", created=2, gpu="l4"))
    assert ended_nodes(bed) == [("a", "00:03", "")]
    assert nodes() == [("l4", "b", "00:02")]
    assert bed.commits() == 3
    bed.report(stock, live.node("b", created=2, gpu="l4"))
    assert bed.commits() == 3
    other = Bed(tmp_path / "other", bed.remote)
    other.clock = 100
    other.report(stock, live.node("b", created=2, gpu="l4"))
    assert bed.commits() == 3, "the next reporter continues"
    other.report(stock, seconds=400)
    assert ended_nodes(other) == [("a", "00:03", ""), ("b", "08:21", "01:41")]


def test_the_units_of_a_stock_are_recorded(bed: Bed) -> None:
    for units in (4, 4, 6):
        bed.report(placeholder("shared", units), seconds=10)
    (stock,) = capacity(bed).usage
    assert (stock.kind, stock.name, stock.units, stock.start_time[14:19]) == ("Stock", "shared", 6, "00:30")
    (ended,) = read_log(bed, "")
    assert (ended.units, ended.start_time[14:19], ended.end_time[14:19]) == (4, "00:10", "00:30")
    assert bed.commits() == 2


def test_the_reporter_commits_hourly_and_when_the_cluster_is_silent(bed: Bed) -> None:
    bed.report(*RUNS)
    for _ in range(35):
        bed.report(*RUNS, seconds=100)
    assert bed.commits() == 1
    bed.report(*RUNS, seconds=100)
    assert (bed.commits(), bed.subject()) == (2, "eu-1: seen")
    bed.watch.contact -= 200
    bed.reporter.tick()
    silent = yaml.safe_load(git(bed.remote, "show", f"{BRANCH}:stocks.yaml"))["status"]
    assert silent["silentSince"] == silent["observedAt"] < bed.now()
    assert "eu\\-1 has not answered since" in git(bed.remote, "show", f"{BRANCH}:summary.md")
    bed.reporter.tick()
    assert bed.commits() == 3, "once is enough"
    bed.report(*RUNS)
    assert "silentSince" not in git(bed.remote, "show", f"{BRANCH}:stocks.yaml")


def test_nothing_is_written_before_all_was_listed_once(bed: Bed) -> None:
    bed.watch.synced = False
    bed.watch.trouble = "it answers 403"
    bed.report(*RUNS)
    assert git(bed.remote, "for-each-ref") == ""
    assert [call.kwargs["message"] for call in bed.log.calls] == ["pods: it answers 403"]
    assert not bed.reporter.ready()


def test_one_that_begins_again_goes_on_where_the_last_one_ended(bed: Bed, tmp_path: Path) -> None:
    bed.report(*RUNS)
    since = bed.status().instances[0].since
    second_bed = Bed(tmp_path / "other", bed.remote)
    second_bed.clock = 100
    second_bed.report(*RUNS)
    assert second_bed.commits() == 1
    second_bed.report(*STOPPED)
    assert second_bed.way() == ["Init", "Ready", "Running", "Stopped"]
    assert bed.status().instances[0].since > since
    third = Bed(tmp_path / "third", bed.remote)
    third.clock = 200
    third.report(*CRASHED)
    assert third.subject() == "solo-ada/webui: Stopped → Failed", "what happened while nobody looked"


def test_two_reporters_tell_every_change_once(bed: Bed, tmp_path: Path) -> None:
    other = Bed(tmp_path / "other", bed.remote)
    for number, objects in enumerate((RUNS, CRASHED, STOPPED, RUNS)):
        for active_bed in (bed, other) if number % 2 else (other, bed):
            active_bed.report(*objects)
            active_bed.reporter.tick()
            active_bed.reporter.tick()
    assert bed.way() == ["Init", "Ready", "Running", "Failed", "Stopped", "Init", "Ready", "Running"]
    assert bed.commits() == 4


def test_the_reporter_records_transitions_between_two_attempts(bed: Bed, tmp_path: Path) -> None:
    bed.reporter.timing = bed.reporter.timing._replace(backoff=Backoff(0.3, 30.0))
    bed.report(*RUNS)
    bed.remote.rename(tmp_path / "away.git")
    for objects in (CRASHED, STOPPED, CRASHED):
        bed.report(*objects)
    (tmp_path / "away.git").rename(bed.remote)
    bed.report(*RUNS)
    assert bed.commits() == 1, "the next try is later"
    time.sleep(0.5)
    bed.report(*RUNS)
    assert bed.way()[3:] == ["Failed", "Stopped", "Failed", "Ready", "Running"]


def test_a_standby_reporter_writes_no_commit(bed: Bed) -> None:
    bed.leads = False
    bed.report(*RUNS)
    assert git(bed.remote, "for-each-ref") == ""
    bed.leads = True
    bed.reporter.tick()
    assert bed.commits() == 1


@pytest.mark.parametrize("looks", [0, 60])
def test_the_remote_may_be_away_for_an_hour(
    bed: Bed, tmp_path: Path, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "POLL_SECONDS", looks)
    bed.report(*RUNS)
    bed.remote.rename(tmp_path / "away.git")
    for number in range(60):
        bed.report(*(CRASHED if number % 2 else STOPPED), seconds=60)
    assert not bed.reporter.ready()
    (tmp_path / "away.git").rename(bed.remote)
    bed.report(*RUNS)
    assert bed.commits() == 2
    assert len(bed.way()) == 3 + 60 + 2
    assert bed.reporter.ready()


def test_a_commit_of_somebody_else_is_neither_overwritten_nor_believed(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "POLL_SECONDS", 0)
    bed.report(*RUNS)
    honest = git(bed.remote, "rev-parse", BRANCH)
    foreign = foreign_commit(bed, honest)
    git(bed.remote, "update-ref", BRANCH, foreign)
    bed.reporter.tick()
    assert bed.warnings() == [f"commit {foreign} is not the reporter's"]
    assert 'allotment_foreign_status_commits_total{cluster="eu-1"} 1.0' in metrics_text(bed.counts).decode()
    assert 'allotment_status_errors_total{cluster="eu-1",reason="refused"} 0.0' in metrics_text(bed.counts).decode()
    assert git(bed.remote, "log", "-1", "--format=%P", BRANCH).split() == [foreign, honest]
    assert bed.status().instances[0].state == "Running"
    assert git(bed.remote, "ls-tree", "-r", "--name-only", BRANCH).splitlines() == [
        "capacity.yaml",
        "stocks.yaml",
        "summary.md",
        PATH,
    ]
    bed.report(*STOPPED)
    assert bed.way() == ["Init", "Ready", "Running", "Stopped"]


def foreign_commit(bed: Bed, parent: str) -> str:
    """Write a lie on top of a commit, as somebody who may push."""
    changes: dict[str, bytes | None] = {PATH: b"lies\n", "more.txt": b"x\n"}
    commit = write_commit(bed.repository, [parent], changes, CommitMessage("Mine", b"Eve <eve@evil.example> 1 +0000"))
    assert Remote(bed.repository, str(bed.remote)).push({"refs/heads/draft": commit})
    git(bed.remote, "update-ref", "-d", "refs/heads/draft")
    return commit


@pytest.mark.parametrize("observed", ["0001-01-01T00:00:00Z", "2026-11-21T11:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_status_of_another_time_keeps_no_change_from_being_reported(
    tmp_path: Path, remote: Path, observed: str
) -> None:
    """A forged status, or one that was written before the clock of the cluster was set back."""
    bed = Bed(tmp_path / "data", remote, interval=60)
    bed.report(*RUNS)
    forged = bed.write({"stocks.yaml": text_of_status(ClusterStatus("eu-1", observed))})
    bed.point(forged, BRANCH, OURS)
    second_bed = Bed(tmp_path / "again", remote, interval=60)
    second_bed.report(*STOPPED, seconds=61)
    second_bed.report(*STOPPED, seconds=61)
    assert second_bed.status().instances[0].state == "Stopped"
    stocks = git(remote, "show", f"{BRANCH}:stocks.yaml")
    assert parse_cluster_status(f"{stocks}\n".encode()).observed_at <= second_bed.now()


@pytest.mark.parametrize("refs", [(BRANCH,), (OURS,), (BRANCH, OURS)])
def test_a_rewritten_or_lost_branch_is_written_anew(
    bed: Bed, refs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "POLL_SECONDS", 0)
    bed.report(*STOPPED)
    bed.report(*RUNS)
    for ref in refs:
        git(bed.remote, "update-ref", "-d", ref)
    for _ in range(3):
        bed.report(*RUNS)
    assert bed.status().instances[0].state == "Running"
    assert git(bed.remote, "rev-parse", BRANCH) == git(bed.remote, "rev-parse", OURS)


@pytest.mark.parametrize("kind", ["blob", "commit"])
def test_the_reporter_overwrites_an_unreadable_object_at_its_ref(
    bed: Bed, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "POLL_SECONDS", 0)
    bed.report(*RUNS)
    text = git(bed.remote, "cat-file", "commit", BRANCH).encode() + b"x" * (2 << 20)
    strange = write(bed.remote, kind, text if kind == "commit" else b"x")
    git(bed.remote, "update-ref", OURS, strange)
    bed.report(*RUNS)
    (warned,) = bed.warnings()
    assert warned.startswith(f"commit {strange} can't be read: ")
    assert bed.status().instances[0].state == "Running"
    assert git(bed.remote, "rev-parse", BRANCH) == git(bed.remote, "rev-parse", OURS)


def test_only_what_its_key_has_signed_is_believed(
    tmp_path: Path, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "POLL_SECONDS", 0)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    unsigned = Bed(tmp_path / "unsigned", remote)
    unsigned.report(*STOPPED)
    key = Repository.open_or_create(tmp_path / "data").sign_with(tmp_path / "key")
    bed = Bed(tmp_path / "data", remote, key=key)
    lie = git(remote, "rev-parse", BRANCH)
    bed.clock = 50
    bed.report(*RUNS)
    assert bed.warnings() == [f"commit {lie} is not signed with the cluster's key"]
    assert bed.way() == ["Init", "Ready", "Running"], "nothing of what wasn't signed is believed"
    tip = git(remote, "rev-parse", BRANCH)
    assert bed.repository.is_signed_by(tip, key)
    assert git(remote, "log", "-1", "--format=%P", BRANCH) == lie
    unsigned.clock = 90
    unsigned.report(*CRASHED)
    assert git(remote, "rev-parse", f"{BRANCH}~") == tip
    bed.clock = 100
    bed.report(*RUNS)
    assert bed.repository.is_signed_by(git(remote, "rev-parse", BRANCH), key)
    assert bed.status().instances[0].state == "Running"


def test_a_report_at_once_says_when_it_can_not(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.see(*RUNS)
    bed.reporter.report_once()
    assert bed.commits() == 1
    monkeypatch.setattr(reporter, "SYNC_SECONDS", 0.1)
    bed.watch.synced = False
    bed.watch.trouble = "it answers 401"
    with pytest.raises(OperationRefused, match="eu-1 can't be observed: pods: it answers 401"):
        bed.reporter.report_once()


def test_the_reporter_thread_commits_soon_after_an_event(bed: Bed) -> None:
    thread = threading.Thread(target=bed.reporter.run)
    thread.start()
    try:
        bed.see(*RUNS)
        begun = time.monotonic()
        while not git(bed.remote, "for-each-ref"):
            assert time.monotonic() - begun < 60
            time.sleep(0.02)
    finally:
        bed.reporter.stop()
        thread.join(10)
    assert not thread.is_alive()


def test_a_cluster_that_cannot_be_seen_is_told_once_and_so_is_what_keeps_it_then(bed: Bed) -> None:
    bed.watch.synced, bed.watch.trouble = False, "it answers 403"
    for _ in range(4):
        bed.reporter.tick()
    bed.watch.trouble = "it answers 401"
    for _ in range(4):
        bed.reporter.tick()
    messages = [call.kwargs["message"] for call in bed.log.calls if call.method_name == "error"]
    assert [words.rpartition(": ")[2] for words in messages] == ["it answers 403", "it answers 401"]
    assert {call.kwargs["cluster"] for call in bed.log.calls} == {"eu-1"}
    assert not bed.reporter.ready()
    bed.watch.synced, bed.watch.trouble = True, ""
    bed.report(*RUNS)
    assert bed.reporter.ready()


def test_a_cold_start_is_kept_by_whoever_reports_next(bed: Bed, tmp_path: Path) -> None:
    def list_cold_starts() -> list[tuple[str, str, int]]:
        cluster_status = parse_cluster_status((git(bed.remote, "show", f"{BRANCH}:stocks.yaml") + "\n").encode())
        return [(cold_start.instance, cold_start.time, cold_start.seconds) for cold_start in cluster_status.cold_starts]

    bed.report(*PENDING)
    bed.report(*PENDING, seconds=20)
    assert list_cold_starts() == []
    bed.report(*build_started_pod(40), seconds=25)
    assert list_cold_starts() == [("solo-ada/webui", live.AT.format(40), 40)]
    bed.report(*RUNS)
    other = Bed(tmp_path / "other", bed.remote)
    other.clock = 60
    other.report(*RUNS)
    other.report(*CRASHED)
    assert list_cold_starts() == [("solo-ada/webui", live.AT.format(40), 40)]
    assert other.subject() == "solo-ada/webui: Running → Failed"


def test_a_cold_start_that_ended_while_nothing_could_be_written_is_told_once(bed: Bed) -> None:
    bed.report(*PENDING)
    bed.report(*PENDING, seconds=20)
    somebody = bed.write({"x": b"y"})
    bed.point(somebody, BRANCH, OURS)
    bed.report(*build_started_pod(40), seconds=25)
    bed.report(*build_started_pod(40), seconds=70)
    cluster_status = parse_cluster_status((git(bed.remote, "show", f"{BRANCH}:stocks.yaml") + "\n").encode())
    assert [cold_start.seconds for cold_start in cluster_status.cold_starts] == [40]


@pytest.mark.parametrize("harm", damage.DAMAGES)
def test_a_damaged_clone_is_fetched_again_and_reports(bed: Bed, harm: Callable[[Path], None]) -> None:
    bed.publish(live.claim())
    bed.report(*RUNS)
    harm(bed.repository.folder)
    bed.reporter.repair_clone(["any error"])
    bed.report(*CRASHED)
    bed.report(*CRASHED)
    assert bed.reporter.ready(), bed.log.calls
    assert (bed.commits(), bed.subject()) == (2, "solo-ada/webui: Running → Failed")
    assert git(bed.repository.folder, "fsck", "--full", "--no-dangling") == ""


@pytest.mark.parametrize("harm", damage.DAMAGES)
def test_a_turn_that_fails_by_a_damaged_clone_replaces_it(bed: Bed, harm: Callable[[Path], None]) -> None:
    bed.report(*RUNS)
    bed.reporter.on_leadership_lost()
    harm(bed.repository.folder)
    for _ in range(3):
        bed.report(*CRASHED)
    assert bed.reporter.ready()
    assert (bed.commits(), bed.subject()) == (2, "solo-ada/webui: Running → Failed")


def test_locks_that_a_killed_git_left_keep_no_reporter_unready(bed: Bed) -> None:
    bed.report(*RUNS)
    bed.reporter.on_leadership_lost()
    damage.leave_locks(bed.repository.folder)
    for _ in range(3):
        bed.report(*CRASHED)
    assert (bed.reporter.ready(), bed.commits()) == (True, 2)


def test_a_deleted_job_that_runs_again_is_reported_without_preparing(bed: Bed) -> None:
    bed.report(live.claim(), live.job(condition="Complete"))
    bed.report(live.claim(), live.job(uid="again", created=5))
    [storage] = bed.status().storages
    assert (storage.state, storage.message) == (
        "Ready",
        "the Job of attempt 1 was deleted and runs again: it writes nothing on a complete volume",
    )
    assert bed.status().transitions == ()

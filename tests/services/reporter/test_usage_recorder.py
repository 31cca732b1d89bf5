"""Usage that isn't written yet survives errors, lost answers and other leaders, and is never written twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.support import live
from tests.support.placeholders import placeholder
from tests.support.published import git
from tests.support.recorded_usage import capacity, ended_usage, gaps, numbered
from tests.support.reported import BRANCH, OURS, Bed

from allotment.adapters.backoff import NO_BACKOFF
from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.observed.usage_log import parse_usage_log
from allotment.problems import OperationRefused
from allotment.services.reporter import observer, reporter


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    monkeypatch.setattr(reporter, "BACKOFF", NO_BACKOFF)
    Repository.open_or_create(tmp_path / "remote.git")
    return Bed(tmp_path / "data", tmp_path / "remote.git")


def lose_the_answer(bed: Bed, *objects: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Report objects. The remote has the commit, but the reporter doesn't know this, and the remote is away."""
    push = Remote.push

    def push_and_fail(remote: Remote, *arguments: Any) -> bool:
        push(remote, *arguments)
        bed.remote.rename(bed.remote.with_name("away.git"))
        raise OperationRefused("the answer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "push", push_and_fail)
        bed.report(*objects)


def return_remote(bed: Bed) -> None:
    bed.remote.with_name("away.git").rename(bed.remote)


def test_a_pod_that_stays_terminating_on_a_lost_node_ends_without_an_event(bed: Bed) -> None:
    terminating = live.pod(node="n1", scheduled=1)
    terminating["metadata"] |= {"deletionTimestamp": "2026-11-21T10:00:10Z", "deletionGracePeriodSeconds": 5}
    bed.report(*numbered(1))
    bed.report(live.deployment(), live.replica_set(), terminating, seconds=5)
    for _ in range(6):
        bed.clock += 60
        bed.watch.contact = time.monotonic()
        bed.reporter.tick()
    assert ended_usage(bed) == [("p-webui-1", "00:01", "05:10", "")]


def test_usage_that_begins_while_the_remote_is_away_keeps_its_start(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.report(*numbered(1))
    lose_the_answer(bed, *numbered(2), monkeypatch=monkeypatch)
    for _ in range(2):
        bed.report(*numbered(2), live.claim(), placeholder("shared", 4), seconds=100)
    return_remote(bed)
    for _ in range(2):
        bed.report(*numbered(2), live.claim(), placeholder("shared", 4), seconds=100)
    starts = {each.uid: each.start_time[14:19] for each in (*bed.status().usage, *capacity(bed).usage)}
    assert starts == {"p-webui-2": "00:02", "c1": "01:42", "d-shared": "01:42"}
    assert gaps(bed) == []


def test_a_tenant_that_came_and_left_while_the_remote_was_away_is_recorded(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.report(placeholder("shared", 4))
    lose_the_answer(bed, placeholder("shared", 5), monkeypatch=monkeypatch)
    bed.report(*numbered(1), seconds=100)
    bed.report(seconds=100)
    return_remote(bed)
    for _ in range(2):
        bed.report(seconds=100)
    assert ended_usage(bed) == [("p-webui-1", "00:01", "03:22", "")]


def test_an_error_while_the_reporter_resumes_loses_neither_an_interval_nor_a_start(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.report(*numbered(1))
    lose_the_answer(bed, *numbered(2), monkeypatch=monkeypatch)
    for number in (3, 4):
        bed.report(*numbered(number), live.claim(), seconds=100)
    return_remote(bed)
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> None:
            raise OperationRefused("the clone is damaged")

        patch.setattr(observer, "derive_tenant_status", fail)
        bed.report(*numbered(4), live.claim(), seconds=100)
    for _ in range(3):
        bed.report(*numbered(4), live.claim(), seconds=100)
    assert ended_usage(bed) == [
        ("p-webui-1", "00:01", "00:02", ""),
        ("p-webui-2", "00:02", "01:42", ""),
        ("p-webui-3", "00:03", "03:22", ""),
    ]
    assert {each.uid: each.start_time[14:19] for each in bed.status().usage} == {"p-webui-4": "00:04", "c1": "01:42"}


def test_an_error_after_a_silence_leaves_the_end_of_the_interval_uncertain(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.report(*numbered(1))
    bed.see(*numbered(2), seconds=1000)
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> None:
            raise OperationRefused("the clone is damaged")

        patch.setattr(observer, "derive_tenant_status", fail)
        bed.reporter.tick()
    for _ in range(2):
        bed.report(*numbered(2))
    assert [(uid, start, last) for uid, start, _, last in ended_usage(bed)] == [("p-webui-1", "00:01", "00:01")]
    assert [start for start, _ in gaps(bed)] == ["00:01"]


def test_a_replica_that_leads_again_records_no_interval_twice(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.report(*numbered(1))
    other = Bed(tmp_path / "other", bed.remote)
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise OperationRefused("the network is down")

        patch.setattr(Remote, "push", refuse)
        bed.report(*numbered(2))
    bed.leads = False
    bed.report(*numbered(2))
    other.clock = bed.clock
    other.report(*numbered(2))
    other.report(*numbered(2), seconds=10)
    other.leads, bed.leads, bed.clock = False, True, other.clock
    bed.report(*numbered(2))
    bed.report(*numbered(3), seconds=20)
    assert [uid for uid, *_ in ended_usage(bed)] == ["p-webui-1", "p-webui-2"]


def test_a_log_that_cant_be_read_is_replaced_and_named(bed: Bed) -> None:
    bed.report(*numbered(1))
    bed.report(*numbered(2))
    path = f"usage/{live.TENANT}.jsonl"
    broken = git(bed.remote, "show", f"{BRANCH}:{path}") + "\n{\n"
    tip = git(bed.remote, "rev-parse", BRANCH)
    entries = {
        name: git(bed.remote, "show", f"{tip}:{name}").encode() + b"\n"
        for name in git(bed.remote, "ls-tree", "-r", "--name-only", tip).splitlines()
    }
    commit = write_commit(
        Repository.open_or_create(bed.remote),
        [tip],
        {**entries, path: broken.encode()},
        CommitMessage("Break", b"r <r@x.example> 1 +0000"),
    )
    for ref in (BRANCH, OURS):
        git(bed.remote, "update-ref", ref, commit)
    bed.reporter.on_leadership_lost()
    bed.report(*numbered(2), seconds=10)
    bed.report(*numbered(3), seconds=10)
    log = parse_usage_log(git(bed.remote, "show", f"{BRANCH}:{path}").encode())
    assert [each.uid for each in log.intervals] == ["p-webui-2"]
    assert git(bed.remote, "show", f"{log.header.previous}:{path}") == broken.rstrip("\n")

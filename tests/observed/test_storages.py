"""A storage says whether it is there, prepared and grown; a preparation counts only for the volume that it filled."""

from __future__ import annotations

from typing import Any

import pytest
from tests import live
from tests.observed.test_instances import look

from allotment.observed.status import Storage

AGAIN = "; `allot recover` tries again"


def the(*objects: dict[str, Any]) -> Storage:
    return look(*objects).storages[0]


@pytest.mark.parametrize(
    ("objects", "state", "words"),
    [
        ((live.claim(),), "Ready", ""),
        ((live.claim(phase="Pending"),), "Pending", "it has no volume yet"),
        ((live.claim(phase="Lost"),), "Lost", "its volume is gone: ask the platform team"),
        ((live.claim(prepares="models--prepare-abc-1"),), "Preparing", "its preparation hasn't begun yet"),
        ((live.claim(), live.job()), "Preparing", "preparation waits for its pod, attempt 1"),
        (
            (live.claim(), live.job(), live.job_pod(container=live.waiting("ImagePullBackOff"))),
            "Preparing",
            "preparation can't start, attempt 1: its image can't be pulled",
        ),
        (
            (live.claim(), live.job(), live.job_pod(container=live.started(3))),
            "Preparing",
            "preparation runs, attempt 1",
        ),
        ((live.claim(), live.job(condition="Complete")), "Ready", ""),
        (
            (live.claim(), live.job(condition="Failed", reason="BackoffLimitExceeded")),
            "Failed",
            f"preparation failed in attempt 1: its pod never ran{AGAIN}",
        ),
        (
            (live.claim(), live.job(condition="Failed", reason="DeadlineExceeded")),
            "Failed",
            f"preparation failed in attempt 1: it took too long{AGAIN}",
        ),
        (
            (live.claim(created=5), live.job(condition="Complete")),
            "Failed",
            f"attempt 1 prepared a volume that is gone{AGAIN}",
        ),
        (
            (live.claim(), live.job(condition="Failed"), live.job(attempt=2, created=5, condition="Complete")),
            "Ready",
            "",
        ),
    ],
)
def test_state_and_words(objects: tuple[dict[str, Any], ...], state: str, words: str) -> None:
    found = the(*objects)
    assert (found.state, found.message) == (state, words)


def ended(name: str, code: int, reason: str = "Error") -> dict[str, Any]:
    """Return the status of a container that ended."""
    return {
        "name": name,
        "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": live.AT.format(8)}},
    }


@pytest.mark.parametrize(
    ("container", "reason", "words"),
    [
        (ended("fetch", 71), "Locked", "another preparation still holds the volume"),
        (ended("fetch", 72), "ChecksumMismatch", "what was fetched has another SHA-256 than is declared"),
        (ended("fetch", 73), "AddressRefused", "its source isn't an https address of the internet"),
        (ended("copy", 74), "SourceUnavailable", "its source can't be had"),
        (ended("copy", 75), "NoSpace", "the storage is full: raise spec.size"),
        (ended("copy", 76), "SourceUnreadable", "its source can't be read"),
        (ended("fetch", 77), "AccessDenied", "its source isn't open to it"),
        (ended("copy", 137, "OOMKilled"), "OutOfMemory", "it ran out of memory"),
        (ended("prepare", 75), "PreparationFailed", "exit 75"),
        (ended("fetch", 1), "PreparationFailed", "exit 1"),
    ],
    ids=str,
)
def test_why_an_attempt_failed(container: dict[str, Any], reason: str, words: str) -> None:
    failed = live.job(condition="Failed", reason="BackoffLimitExceeded")
    found = the(live.claim(), failed, live.job_pod(container=container))
    assert found.prepare is not None
    assert (found.prepare.reason, found.message) == (reason, f"preparation failed in attempt 1: {words}{AGAIN}")


def test_of_an_images_pod_the_container_that_is_at_it_tells_how_it_is() -> None:
    running = {"name": "hold", "started": True, "state": {"running": {"startedAt": live.AT.format(2)}}}
    seal = live.waiting("PodInitializing")

    def attempt(*init: dict[str, Any], failed: bool = False) -> tuple[str, str, int | None]:
        pod = live.job_pod(container=seal)
        pod["status"]["initContainerStatuses"] = list(init)
        job = live.job(condition="Failed", reason="BackoffLimitExceeded") if failed else live.job()
        found = the(live.claim(), job, pod).prepare
        assert found is not None
        return found.state, found.reason, found.exit_code

    pulled = {"name": "prepare", **live.waiting("ImagePullBackOff")}
    assert attempt(running, pulled) == ("Pending", "ImagePullFailed", None)
    assert attempt({"name": "hold", **live.waiting("ImagePullBackOff")}, pulled)[1] == "ImagePullFailed"
    works = {"name": "prepare", "state": {"running": {"startedAt": live.AT.format(3)}}}
    assert attempt(running, works) == ("Running", "PreparationRunning", None)
    assert attempt(running, {**works, "started": True}) == ("Running", "PreparationRunning", None)
    assert attempt(running, ended("prepare", 3), failed=True) == ("Failed", "PreparationFailed", 3)
    assert attempt(running, ended("prepare", 0, "Completed"))[:2] == ("Pending", "PreparationPending")


WAITS = live.application("storage", resources=(("ConfigMap", "twin--waits-for--models", "Synced"),))


def test_a_volume_that_is_made_from_another_waits_for_it() -> None:
    found = look(live.claim(), WAITS).storages
    assert [(one.name, one.state) for one in found] == [("models", "Ready"), ("twin", "Pending")]
    assert (found[1].reason, found[1].message) == ("SourceUnprepared", "waits for storage models to be prepared")


def test_a_copy_that_waits_has_its_volume_already() -> None:
    found = {one.name: one for one in look(live.claim("twin", prepares="twin--prepare-abc-1"), WAITS).storages}["twin"]
    assert (found.state, found.reason, found.claim) == ("Pending", "SourceUnprepared", "c1")
    assert {one.type: one.status for one in found.conditions}["Prepared"] == "False"


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ({}, "Pending", "SnapshotPending"),
        ({"readyToUse": False}, "Pending", "SnapshotPending"),
        ({"readyToUse": False, "error": {"time": live.AT.format(1), "message": "x" * 99}}, "Failed", "SnapshotFailed"),
        ({"readyToUse": True, "restoreSize": "20Gi", "creationTime": live.AT.format(1)}, "Ready", "SnapshotTaken"),
    ],
    ids=str,
)
def test_a_snapshot(status: dict[str, Any], state: str, reason: str) -> None:
    (found,) = look(live.snapshot(**status)).snapshots
    assert (found.name, found.storage, found.state, found.reason) == ("keep", "models", state, reason)
    assert (found.restore_size, found.creation_time) == (status.get("restoreSize", ""), status.get("creationTime", ""))


def test_a_snapshot_that_waits_for_its_storage() -> None:
    waits = live.application("storage", resources=(("ConfigMap", "keep--snapshot--waits-for--models", "Synced"),))
    found = look(live.claim(), waits)
    assert [one.name for one in found.storages] == ["models"]
    assert [(one.name, one.state, one.reason) for one in found.snapshots] == [("keep", "Pending", "SourceUnprepared")]


@pytest.mark.parametrize(
    ("phase", "state"), [("", "Pending"), ("Pending", "Pending"), ("Bound", "Ready"), ("Failed", "Failed")]
)
def test_a_bucket(phase: str, state: str) -> None:
    found = the(live.bucket(phase=phase))
    assert (found.name, found.state, found.size, found.claim) == ("data", state, "1Ti", "o-data")


def test_an_attempt_is_told_with_its_end() -> None:
    crashed = live.job_pod(container=live.waiting("x", ended={"exitCode": 3}))
    found = the(live.claim(), live.job(condition="Failed", reason="BackoffLimitExceeded"), crashed).prepare
    assert found is not None
    assert (found.uid, found.attempt, found.input_hash, found.state) == ("j-models-1", 1, "abc", "Failed")
    assert (found.exit_code, found.start_time, found.completion_time) == (3, live.AT.format(2), live.AT.format(9))
    fine = the(live.claim(), live.job(condition="Complete")).prepare
    assert fine is not None
    assert (fine.state, fine.exit_code) == ("Succeeded", 0)


def test_conditions_and_the_url_of_its_files() -> None:
    files = live.deployment("models--files", status={"readyReplicas": 1})
    files["metadata"]["labels"] = {"allotment.dev/tenant": live.TENANT, "allotment.dev/storage": "models"}
    found = the(live.claim(capacity="10Gi"), files, live.route("models--files", label="storage"))
    assert found.url == "https://models--files.example/"
    assert [(one.type, one.status, one.reason, one.message) for one in found.conditions] == [
        ("Synced", "Unknown", "NotObserved", "Argo CD says nothing of it"),
        ("Bound", "True", "VolumeBound", ""),
        ("Prepared", "True", "NothingToPrepare", ""),
        ("Resized", "False", "Resizing", "10Gi of 20Gi"),
        ("AccessorAvailable", "True", "ProbesAnswered", ""),
    ]


def test_a_volume_made_anew_is_another_one() -> None:
    first = look(live.claim(), live.job(condition="Complete"))
    again = look(live.claim(uid="c2", created=20), before=first)
    assert [(one.name, one.source, one.target, one.reason) for one in again.transitions] == [
        ("models", "Ready", "", "VolumeLost"),
        ("models", "", "Ready", "VolumeBound"),
    ]
    assert (again.storages[0].claim, again.storages[0].prepare) == ("c2", None)

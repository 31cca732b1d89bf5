"""A storage says whether it is there, prepared and grown; a preparation counts only for the volume that it filled."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import live
from tests.support.instances import look

from allotment.observed.rollout import BlobVersions, ResourceRef, derive_stage
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
    storage_status = the(*objects)
    assert (storage_status.state, storage_status.message) == (state, words)


def ended(name: str, code: int, reason: str = "Error") -> dict[str, Any]:
    """Return the status of a container that ended."""
    return {
        "name": name,
        "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": live.AT.format(8)}},
    }


@pytest.mark.parametrize(
    ("container", "reason", "words"),
    [
        (ended("fetch", 71), "Locked", "another preparation still uses the volume"),
        (ended("fetch", 72), "ChecksumMismatch", "the SHA-256 of the download differs from the declared SHA-256"),
        (ended("fetch", 73), "AddressRefused", "its source isn't an https address on the internet"),
        (ended("copy", 74), "SourceUnavailable", "its source is not available"),
        (ended("copy", 75), "NoSpace", "the storage is full: raise spec.size"),
        (ended("copy", 76), "SourceUnreadable", "its source can't be read"),
        (ended("fetch", 77), "AccessDenied", "its source denies access"),
        (ended("prepare", 79), "PreparationFailed", "exit 79"),
        (ended("copy", 137, "OOMKilled"), "OutOfMemory", "it ran out of memory"),
        (ended("prepare", 75), "PreparationFailed", "exit 75"),
        (ended("fetch", 1), "PreparationFailed", "exit 1"),
    ],
    ids=str,
)
def test_why_an_attempt_failed(container: dict[str, Any], reason: str, words: str) -> None:
    failed = live.job(condition="Failed", reason="BackoffLimitExceeded")
    storage_status = the(live.claim(), failed, live.job_pod(container=container))
    assert storage_status.prepare is not None
    assert (storage_status.prepare.reason, storage_status.message) == (
        reason,
        f"preparation failed in attempt 1: {words}{AGAIN}",
    )


@pytest.mark.parametrize("container", ["check", "hold", "seal", "copy", "fetch"])
def test_an_attempt_that_came_back_after_another_says_what_to_do(container: str) -> None:
    failed = live.job(condition="Failed", reason="BackoffLimitExceeded")
    pod = live.job_pod(container=live.waiting("PodInitializing"))
    pod["status"]["initContainerStatuses"] = [ended(container, 79)]
    storage_status = the(live.claim(), failed, pod)
    assert storage_status.prepare is not None
    assert (storage_status.state, storage_status.prepare.reason, storage_status.prepare.exit_code) == (
        "Failed",
        "Superseded",
        79,
    )
    assert storage_status.message == (
        "preparation failed in attempt 1: another preparation has started on the volume since, and this attempt changed nothing;"
        " raise spec.prepare.attempt to overwrite it"
    )


def test_the_rollout_of_a_failed_preparation_names_the_remedy() -> None:
    failed = live.job(condition="Failed", reason="BackoffLimitExceeded")
    seen = look(live.claim(), failed, live.job_pod(container=ended("check", 79)))
    rollout_stage = derive_stage(
        ResourceRef("storage", live.TENANT, "models", seen.cluster, "s1"), BlobVersions("s1", "s1"), [seen]
    )
    assert (rollout_stage.progress, rollout_stage.remedy) == (
        "failed",
        "raise spec.prepare.attempt to overwrite the files of the other preparation",
    )


CHECKED = "Container check for pod t-solo-ada/models--prepare-abc-1-x7k2p failed with exit code 78 matching FailJob rule at index 0"


def by_policy(message: str = CHECKED, reason: str = "PodFailurePolicy") -> dict[str, Any]:
    """Return a Job that Kubernetes ended at once, by its policy."""
    return live.job(condition="Failed", reason=reason, message=message)


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (live.job_pod(container=ended("check", 78)),),
        (live.job_pod(container=ended("check", 71)),),
    ],
    ids=["its pod is gone", "its pod", "a pod before that"],
)
def test_a_job_whose_check_found_the_volume_complete_has_succeeded(pods: tuple[dict[str, Any], ...]) -> None:
    storage_status = the(live.claim(prepares="models--prepare-abc-1"), by_policy(), *pods)
    assert (storage_status.state, storage_status.message) == ("Ready", "")
    assert storage_status.prepare is not None
    assert (storage_status.prepare.state, storage_status.prepare.reason, storage_status.prepare.exit_code) == (
        "Succeeded",
        "AlreadyPrepared",
        78,
    )
    assert storage_status.prepare.completion_time == live.AT.format(9)
    prepared = {condition.type: condition for condition in storage_status.conditions}["Prepared"]
    assert (prepared.status, prepared.reason) == ("True", "AlreadyPrepared")
    assert prepared.last_transition_time == live.AT.format(9)


@pytest.mark.parametrize(
    "job",
    [
        by_policy(CHECKED.replace("check", "prepare")),
        by_policy(CHECKED.replace("code 78", "code 79")),
        by_policy(CHECKED.replace("code 78", "code 178")),
        by_policy(CHECKED.replace("t-solo-ada/", "t-studio-kite/")),
        by_policy(CHECKED.replace("index 0", "index 01")),
        by_policy(CHECKED.replace("FailJob", "Count")),
        by_policy(f"Container prepare for pod t-solo-ada/x failed: {CHECKED}"),
        by_policy(f"{CHECKED}\n"),
        by_policy(f"{CHECKED}; and more"),
        by_policy(CHECKED.replace("x7k2p", "x failed with exit code 78")),
        by_policy(CHECKED.replace("Container", "container")),
        by_policy(""),
        by_policy(reason="BackoffLimitExceeded"),
        by_policy(reason="DeadlineExceeded"),
    ],
)
def test_nothing_that_resembles_it_counts(job: dict[str, Any]) -> None:
    storage_status = the(live.claim(), job, live.job_pod(container=ended("prepare", 78)))
    assert storage_status.prepare is not None
    assert (storage_status.state, storage_status.prepare.state) == ("Failed", "Failed")


def test_a_check_of_a_volume_that_is_gone_says_nothing_of_this_one() -> None:
    storage_status = the(live.claim(created=5), by_policy())
    assert (storage_status.state, storage_status.reason) == ("Failed", "OfAnotherVolume")


def test_of_an_images_pod_the_container_that_is_at_it_tells_how_it_is() -> None:
    running = {"name": "hold", "started": True, "state": {"running": {"startedAt": live.AT.format(2)}}}
    seal = live.waiting("PodInitializing")

    def attempt(*init: dict[str, Any], failed: bool = False) -> tuple[str, str, int | None]:
        pod = live.job_pod(container=seal)
        pod["status"]["initContainerStatuses"] = list(init)
        job = live.job(condition="Failed", reason="BackoffLimitExceeded") if failed else live.job()
        preparation = the(live.claim(), job, pod).prepare
        assert preparation is not None
        return preparation.state, preparation.reason, preparation.exit_code

    pulled = {"name": "prepare", **live.waiting("ImagePullBackOff")}
    checked = ended("check", 0, "Completed")
    assert attempt({"name": "check", **live.waiting("ImagePullBackOff")}, pulled)[1] == "ImagePullFailed"
    assert attempt(checked, running, pulled) == ("Pending", "ImagePullFailed", None)
    refused = {"name": "prepare", **live.waiting("ErrImagePull", "401 Unauthorized")}
    assert attempt(checked, running, refused) == ("Pending", "ImagePullUnauthorized", None)
    assert attempt(ended("check", 71), live.waiting("PodInitializing"), failed=True) == ("Failed", "Locked", 71)
    assert attempt(running, pulled) == ("Pending", "ImagePullFailed", None)
    assert attempt({"name": "hold", **live.waiting("ImagePullBackOff")}, pulled)[1] == "ImagePullFailed"
    works = {"name": "prepare", "state": {"running": {"startedAt": live.AT.format(3)}}}
    assert attempt(running, works) == ("Running", "PreparationRunning", None)
    assert attempt(running, {**works, "started": True}) == ("Running", "PreparationRunning", None)
    assert attempt(running, ended("prepare", 3), failed=True) == ("Failed", "PreparationFailed", 3)
    assert attempt(running, ended("prepare", 0, "Completed"))[:2] == ("Pending", "PreparationPending")


WAITS = live.application("storage", resources=(("ConfigMap", "twin--waits-for--models", "Synced"),))


def test_a_volume_that_is_made_from_another_waits_for_it() -> None:
    storage_statuses = look(live.claim(), WAITS).storages
    assert [(storage_status.name, storage_status.state) for storage_status in storage_statuses] == [
        ("models", "Ready"),
        ("twin", "Pending"),
    ]
    assert (storage_statuses[1].reason, storage_statuses[1].message) == (
        "SourceUnprepared",
        "waits for storage models to be prepared",
    )


def test_a_copy_that_waits_has_its_volume_already() -> None:
    storage_status = {
        storage.name: storage for storage in look(live.claim("twin", prepares="twin--prepare-abc-1"), WAITS).storages
    }["twin"]
    assert (storage_status.state, storage_status.reason, storage_status.claim) == ("Pending", "SourceUnprepared", "c1")
    assert {condition.type: condition.status for condition in storage_status.conditions}["Prepared"] == "False"


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
    (snapshot_status,) = look(live.snapshot(**status)).snapshots
    assert (snapshot_status.name, snapshot_status.storage, snapshot_status.state, snapshot_status.reason) == (
        "keep",
        "models",
        state,
        reason,
    )
    assert (snapshot_status.restore_size, snapshot_status.creation_time) == (
        status.get("restoreSize", ""),
        status.get("creationTime", ""),
    )


def test_a_snapshot_that_waits_for_its_storage() -> None:
    waits = live.application("storage", resources=(("ConfigMap", "keep--snapshot--waits-for--models", "Synced"),))
    status = look(live.claim(), waits)
    assert [storage_status.name for storage_status in status.storages] == ["models"]
    assert [
        (snapshot_status.name, snapshot_status.state, snapshot_status.reason) for snapshot_status in status.snapshots
    ] == [("keep", "Pending", "SourceUnprepared")]


@pytest.mark.parametrize(
    ("phase", "state"), [("", "Pending"), ("Pending", "Pending"), ("Bound", "Ready"), ("Failed", "Failed")]
)
def test_a_bucket(phase: str, state: str) -> None:
    storage_status = the(live.bucket(phase=phase))
    assert (storage_status.name, storage_status.state, storage_status.size, storage_status.claim) == (
        "data",
        state,
        "1Ti",
        "o-data",
    )


def test_an_attempt_is_told_with_its_end() -> None:
    crashed = live.job_pod(container=live.waiting("x", ended={"exitCode": 3}))
    preparation = the(live.claim(), live.job(condition="Failed", reason="BackoffLimitExceeded"), crashed).prepare
    assert preparation is not None
    assert (preparation.uid, preparation.attempt, preparation.input_hash, preparation.state) == (
        "j-models-1",
        1,
        "abc",
        "Failed",
    )
    assert (preparation.exit_code, preparation.start_time, preparation.completion_time) == (
        3,
        live.AT.format(2),
        live.AT.format(9),
    )
    fine = the(live.claim(), live.job(condition="Complete")).prepare
    assert fine is not None
    assert (fine.state, fine.exit_code) == ("Succeeded", 0)


def test_conditions_and_the_url_of_its_files() -> None:
    files = live.deployment("models--files", status={"readyReplicas": 1})
    files["metadata"]["labels"] = {"allotment.dev/tenant": live.TENANT, "allotment.dev/storage": "models"}
    storage_status = the(live.claim(capacity="10Gi"), files, live.route("models--files", label="storage"))
    assert storage_status.url == "https://models--files.example/"
    assert [
        (condition.type, condition.status, condition.reason, condition.message)
        for condition in storage_status.conditions
    ] == [
        ("Synced", "Unknown", "NotObserved", "Argo CD has no status for it"),
        ("Bound", "True", "VolumeBound", ""),
        ("Prepared", "True", "NothingToPrepare", ""),
        ("Resized", "False", "Resizing", "10Gi of 20Gi"),
        ("AccessorAvailable", "True", "ProbesAnswered", ""),
    ]


def test_a_volume_made_anew_is_another_one() -> None:
    first = look(live.claim(), live.job(condition="Complete"))
    second = look(live.claim(uid="c2", created=20), before=first)
    assert [
        (transition.name, transition.source, transition.target, transition.reason) for transition in second.transitions
    ] == [
        ("models", "Ready", "", "VolumeLost"),
        ("models", "", "Ready", "VolumeBound"),
    ]
    assert (second.storages[0].claim, second.storages[0].prepare) == ("c2", None)


@pytest.mark.parametrize("pods", [(), (live.job_pod(container=live.started(3)),)], ids=["no pod yet", "runs"])
def test_a_job_that_somebody_deleted_runs_again_and_its_storage_stays_available(
    pods: tuple[dict[str, Any], ...],
) -> None:
    done = look(live.claim(), live.job(condition="Complete"))
    before = done.storages[0]
    second_job = live.job(created=5)
    second_job["metadata"]["uid"] = "j-again"
    storage_status = look(live.claim(), second_job, *pods, before=done).storages[0]
    assert (storage_status.state, storage_status.since) == (before.state, before.since)
    assert (
        storage_status.message
        == "the Job of attempt 1 was deleted and runs again: it writes nothing on a complete volume"
    )
    assert storage_status.prepare == before.prepare
    assert [condition for condition in storage_status.conditions if condition.type == "Prepared"] == [
        condition for condition in before.conditions if condition.type == "Prepared"
    ]


def test_a_job_that_somebody_deleted_and_that_is_not_back_yet_changes_nothing() -> None:
    job = live.job(condition="Complete")
    name = job["metadata"]["name"]
    done = look(live.claim(prepares=name), job)
    storage_status = look(live.claim(prepares=name), before=done).storages[0]
    assert (storage_status.state, storage_status.since, storage_status.prepare) == (
        "Ready",
        done.storages[0].since,
        done.storages[0].prepare,
    )
    assert (
        storage_status.message
        == "the Job of attempt 1 was deleted and runs again: it writes nothing on a complete volume"
    )
    another = look(live.claim(prepares=name + "0"), before=done).storages[0]
    assert (another.state, another.prepare) == ("Preparing", None), "another preparation has not begun yet"


def test_another_attempt_or_volume_prepares_again() -> None:
    done = look(live.claim(), live.job(condition="Complete"))
    assert look(live.claim(), live.job(attempt=2, created=5), before=done).storages[0].state == "Preparing"
    made_anew = live.claim(created=4)
    made_anew["metadata"]["uid"] = "another"
    assert look(made_anew, live.job(created=5), before=done).storages[0].state == "Preparing"

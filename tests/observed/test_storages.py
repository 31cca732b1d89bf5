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

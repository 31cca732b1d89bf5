"""A volume's next version: never smaller, never of another kind, its Jobs as they were."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.published import with_own_programs

from allotment.lifecycle.published_manifests import (
    has_kept_jobs,
    read_job_names,
    read_predecessor,
    with_predecessor,
    with_prunable_jobs,
)
from allotment.lifecycle.volume_transitions import StorageUsers, next_file
from allotment.manifests.tenant.wait_marker import render_wait_marker
from allotment.manifests.yaml_text import dump

GOLDEN = Path(__file__).parent.parent / "manifests/golden/us-1/tenants/ml-orbit/storage/weights.rendered.yaml"
PATH = "tenants/ml-orbit/storages/weights.yaml"


def swapped(old: str, new: str) -> bytes:
    text = GOLDEN.read_text()
    assert old in text
    return text.replace(old, new).encode()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("storage: 4Ti", "storage: 3Ti", "3Ti is less than the current 4Ti"),
        (
            "storageClassName: cephfs-retain",
            "storageClassName: other",
            "storage class 'cephfs-retain' and can't change to 'other'",
        ),
        ("- ReadWriteMany", "- ReadWriteOnce", "access mode 'ReadWriteMany' and can't change to 'ReadWriteOnce'"),
    ],
)
def test_next_file_refuses_a_smaller_size_or_another_class_or_access_mode(old: str, new: str, says: str) -> None:
    (finding,) = next_file(PATH, GOLDEN.read_bytes(), swapped(old, new), StorageUsers).findings
    assert finding.path == PATH
    assert says in finding.message


def test_next_file_accepts_a_larger_volume() -> None:
    after = swapped("storage: 4Ti", "storage: 5Ti")
    assert next_file(PATH, GOLDEN.read_bytes(), after, StorageUsers) == (after, [], "")


def test_a_job_of_the_same_name_keeps_its_bytes() -> None:
    after = swapped("memory: 8Gi", "memory: 9Gi")
    assert next_file(PATH, GOLDEN.read_bytes(), after, StorageUsers).data == GOLDEN.read_bytes()


def test_a_job_that_was_published_before_it_was_kept_is_kept_from_now_on() -> None:
    before = with_prunable_jobs(GOLDEN.read_bytes())
    assert before != GOLDEN.read_bytes()
    data = next_file(PATH, before, swapped("memory: 8Gi", "memory: 9Gi"), StorageUsers).data
    assert has_kept_jobs(data)
    assert b"memory: 8Gi" in data


OLDER = with_own_programs(GOLDEN.read_bytes())  # published while each Job had its programs beside it


def test_a_job_that_has_its_programs_beside_it_keeps_them() -> None:
    assert next_file(PATH, OLDER, GOLDEN.read_bytes(), StorageUsers).data == OLDER
    assert next_file(PATH, OLDER, swapped("memory: 8Gi", "memory: 9Gi"), StorageUsers).data == OLDER
    assert OLDER.count(b"\nkind: ConfigMap\n") == OLDER.count(b"\nkind: Job\n") == 1


def test_programs_beside_a_job_are_let_go_and_go_with_it() -> None:
    follows = next_file(PATH, OLDER, NEXT, lambda: StorageUsers(finished_jobs=[OLD_JOB]))
    assert follows.pending_reason == "its last preparation is let go first"
    assert follows.data.partition(b"\n---\n")[2] == with_prunable_jobs(OLDER).partition(b"\n---\n")[2]
    assert follows.data.count(b"Prune=false") == 1, "of the volume alone"
    assert b"\nimmutable: true\n" in follows.data
    assert next_file(PATH, follows.data, NEXT, lambda: StorageUsers(finished_jobs=[OLD_JOB])) == (NEXT, [], "")


NEXT = swapped("memory: 8Gi", "memory: 9Gi").replace(b"-2\n", b"-3\n")
(OLD_JOB,) = read_job_names(GOLDEN.read_bytes())


LET_GO = with_prunable_jobs(GOLDEN.read_bytes())


def test_the_last_job_is_let_go_once_it_has_ended() -> None:
    follows = next_file(PATH, GOLDEN.read_bytes(), NEXT, lambda: StorageUsers(finished_jobs=[OLD_JOB]))
    assert (read_job_names(follows.data), follows.findings, follows.pending_reason) == (
        {OLD_JOB},
        [],
        "its last preparation is let go first",
    )
    assert b"Prune=false" in GOLDEN.read_bytes().partition(b"kind: Job")[2]
    assert b"Prune=false" not in follows.data.partition(b"kind: Job")[2]
    second_transition = next_file(
        PATH, follows.data, NEXT, lambda: StorageUsers(finished_jobs=[OLD_JOB], protected_jobs=[OLD_JOB])
    )
    assert second_transition == (follows.data, [], "its last preparation is let go first"), "the cluster still keeps it"


def test_a_job_of_another_name_is_new_once_the_last_was_seen_to_be_let_go() -> None:
    assert next_file(PATH, LET_GO, NEXT, lambda: StorageUsers(finished_jobs=[OLD_JOB])) == (NEXT, [], "")


def test_a_storage_that_is_prepared_no_more_lets_its_job_go_first() -> None:
    plain = GOLDEN.read_bytes().partition(b"\n---\n")[0] + b"\n"
    follows = next_file(PATH, GOLDEN.read_bytes(), plain, StorageUsers)
    assert (read_job_names(follows.data), follows.pending_reason) == ({OLD_JOB}, "its last preparation is let go first")
    assert next_file(PATH, LET_GO, plain, StorageUsers) == (plain, [], "")


@pytest.mark.parametrize(
    ("users", "waits"),
    [
        (StorageUsers(), "its new preparation waits until the status shows the end of the previous preparation"),
        (
            StorageUsers(finished_jobs=["weights--prepare-0000000000-1"]),
            "its new preparation waits until the status shows the end of the previous preparation",
        ),
        (
            StorageUsers(stopping_instances=["lab"], finished_jobs=[OLD_JOB]),
            "its new preparation waits until lab has stopped",
        ),
    ],
)
def test_a_job_waits_for_the_last_one_and_for_who_still_mounts_the_volume(users: StorageUsers, waits: str) -> None:
    follows = next_file(PATH, GOLDEN.read_bytes(), NEXT, lambda: users)
    wanted = f"allotment.dev/prepares: {OLD_JOB}"  # what the volume waits for is said, and nothing else changes
    held = GOLDEN.read_bytes().replace(wanted.encode(), f"{wanted[:-1]}3".encode())
    assert (follows.data, follows.findings, follows.pending_reason) == (held, [], waits)


def test_next_file_refuses_a_new_preparation_while_an_instance_runs() -> None:
    (finding,) = next_file(
        PATH, GOLDEN.read_bytes(), NEXT, lambda: StorageUsers(running_instances=["lab"], finished_jobs=[OLD_JOB])
    ).findings
    words = "the preparation changed while lab runs on the storage: stop it first, or declare another storage"
    assert (finding.path, finding.message, finding.rule) == (PATH, words, "preparation")


def test_whose_preparation_is_not_its_own_is_remembered() -> None:
    noted = with_predecessor(GOLDEN.read_bytes(), "u1")
    after = swapped("storage: 4Ti", "storage: 5Ti")
    assert read_predecessor(next_file(PATH, noted, after, StorageUsers).data) == "u1"


def test_next_file_preserves_a_waiting_volume_and_updates_its_policy() -> None:
    folder = Path(__file__).parent.parent / "manifests/golden/eu-1/tenants/studio-kite/storage"
    published = (folder / "before-upgrade--snapshot.rendered.yaml").read_bytes()
    assert b"deletion-policy: Retain" in published
    for policy in ("Retain", "Delete"):
        declared: Any = SimpleNamespace(blob="b2", model=SimpleNamespace(spec=SimpleNamespace(deletion_policy=policy)))
        marker = render_wait_marker({"name": "before-upgrade"}, "before-upgrade--snapshot", "outputs", declared)
        follows = next_file(PATH, published, dump([marker]), StorageUsers)
        assert follows.data == published.replace(b"deletion-policy: Retain", f"deletion-policy: {policy}".encode())

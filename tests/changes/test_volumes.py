"""A volume's next version: never smaller, never of another kind, its Jobs as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.changes.volumes import succeeded

GOLDEN = Path(__file__).parent.parent / "manifests/golden/us-1/tenants/ml-orbit/storage/weights.yaml"
PATH = "tenants/ml-orbit/storages/weights.yaml"


def swapped(old: str, new: str) -> bytes:
    text = GOLDEN.read_text()
    assert old in text
    return text.replace(old, new).encode()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("storage: 4Ti", "storage: 3Ti", "3Ti is less than the 4Ti it had"),
        (
            "storageClassName: efs-retain",
            "storageClassName: other",
            "storage class 'efs-retain' and can't change to 'other'",
        ),
        ("- ReadWriteMany", "- ReadWriteOnce", "access mode 'ReadWriteMany' and can't change to 'ReadWriteOnce'"),
    ],
)
def test_what_a_volume_promised_holds(old: str, new: str, says: str) -> None:
    _, (finding,) = succeeded(PATH, GOLDEN.read_bytes(), swapped(old, new))
    assert finding.path == PATH
    assert says in finding.message


def test_it_may_grow() -> None:
    after = swapped("storage: 4Ti", "storage: 5Ti")
    assert succeeded(PATH, GOLDEN.read_bytes(), after) == (after, [])


def test_a_job_of_the_same_name_keeps_its_bytes() -> None:
    after = swapped("memory: 8Gi", "memory: 9Gi")
    assert succeeded(PATH, GOLDEN.read_bytes(), after)[0] == GOLDEN.read_bytes()


def test_a_job_of_another_name_is_new() -> None:
    after = swapped("memory: 8Gi", "memory: 9Gi").replace(b"-2\n", b"-3\n")
    assert succeeded(PATH, GOLDEN.read_bytes(), after)[0] == after

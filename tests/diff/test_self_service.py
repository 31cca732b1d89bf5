"""The kinds of change that a tariff plan can leave to self service."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.diff.self_service import classify_change
from allotment.rules.ownership import FileChange


def change(kind: str, before: dict[str, Any] | None, after: dict[str, Any] | None, **more: Any) -> FileChange:
    documents = [None if spec is None else {"kind": kind, "spec": spec} for spec in (before, after)]
    return FileChange("tenants/acme/x.yaml", kind, *documents, **more)


@pytest.mark.parametrize(
    ("kind", "before", "after", "expected"),
    [
        ("GPUInstance", {"state": "Stopped"}, {"state": "Running"}, {"Start"}),
        ("GPUInstance", {"state": "Stopped"}, {}, {"Start"}),
        ("GPUInstance", {}, {"state": "Stopped"}, {"Stop"}),
        ("GPUInstance", {}, {"state": "Stopped", "gpuSpec": "b"}, {"Stop", "Change"}),
        ("GPUInstance", {"replicas": 1}, {"replicas": 2}, {"Change"}),
        ("GPUInstance", None, {}, {"Create"}),
        ("GPUInstance", {}, None, {"Delete"}),
        ("GPUInstance", {"a": 1}, {"a": 1}, {"Change"}),
        ("GPUStorage", {"size": "1Gi"}, {"size": "2Gi"}, {"Grow"}),
        ("GPUStorage", {}, {"deletionPolicy": "Delete"}, {"Delete"}),
        ("GPUStorage", {"deletionPolicy": "Delete"}, {"deletionPolicy": "Retain"}, {"Change"}),
        ("GPUStorageSnapshot", None, {}, {"Snapshot"}),
        ("GPUStorageSnapshot", {}, {"deletionPolicy": "Delete"}, {"Delete"}),
        ("GPUStorageSnapshot", {}, None, {"Delete"}),
        ("SecretReference", None, {}, {"Create"}),
        ("SecretReference", {}, None, {"Delete"}),
        ("Members", {"users": []}, {"users": [1]}, {"Members"}),
        ("Members", {}, None, set()),
        ("Tenant", {}, {"plan": "enterprise"}, set()),
        ("Plan", None, {}, set()),
        ("", None, None, set()),
    ],
)
def test_a_change_belongs_to_kinds(kind: str, before: Any, after: Any, expected: set[str]) -> None:
    assert classify_change(change(kind, before, after)) == expected


def test_a_label_is_a_change() -> None:
    documents = ({"metadata": {"labels": labels}, "spec": {}} for labels in ({}, {"a": "b"}))
    assert classify_change(FileChange("x", "GPUInstance", *documents)) == {"Change"}


def test_the_id_of_an_operation_is_no_change() -> None:
    documents = (
        {"metadata": {"operationID": name}, "spec": {"state": state}}
        for name, state in (("a1", "Running"), ("b2", "Stopped"))
    )
    assert classify_change(FileChange("x", "GPUInstance", *documents)) == {"Stop"}


def test_no_self_service_covers_an_unreadable_file() -> None:
    assert classify_change(change("GPUInstance", {}, {}, is_unreadable=True)) == frozenset()

"""What leaves, step by step, and what is kept when time or a mark is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.changes.departure import MARKED_SECONDS, STEP_SECONDS, Leaver, remains
from allotment.manifests.text import load

GOLDEN = Path(__file__).parent.parent / "manifests/golden/us-1"
TENANT = "acme-robotics"
STORAGE = f"tenants/{TENANT}/storage"
MARKED, RETAINED = f"{STORAGE}/old-frames.yaml", f"{STORAGE}/frames.yaml"
LEAVING = f"{STORAGE}/old-frames--leaving.yaml"
ARGO, NAMESPACE = f"control/argo/a/{TENANT}.yaml", f"control/namespaces/a/{TENANT}.yaml"
MARKERS = {f"tenants/{TENANT}/{part}/allotment--marker.yaml" for part in ("storage", "compute")}
OTHERS = {ARGO, NAMESPACE, *MARKERS, RETAINED}


def golden(path: str) -> bytes:
    return (GOLDEN / path).read_bytes()


def leaver(gone: set[str], rendered: set[str], age: float, *, declared: bool = True, **files: bytes) -> Leaver:
    def read(path: str) -> bytes:
        return files[path.rsplit("/", 1)[1].removesuffix(".yaml").replace("-", "_")] if files else golden(path)

    return Leaver(TENANT, declared, rendered, gone, read, lambda _: age)


def test_what_nothing_marked_is_an_error_whatever_its_age() -> None:
    found = remains(leaver({RETAINED}, OTHERS - {RETAINED}, 10 * MARKED_SECONDS))
    assert [one.rule for one in found.findings] == ["deletion"]
    assert found.findings[0].path == f"tenants/{TENANT}/storages/frames.yaml"


@pytest.mark.parametrize(("age", "protected"), [(MARKED_SECONDS - 1, "true"), (MARKED_SECONDS, "false")])
def test_the_mark_must_be_an_hour_old(age: float, protected: str) -> None:
    found = remains(leaver({MARKED}, OTHERS, age))
    assert found.findings == []
    assert found.files.keys() == {LEAVING}
    (volume,) = load(found.files[LEAVING])
    assert volume["metadata"]["annotations"]["allotment.dev/protected"] == protected
    assert ("argocd.argoproj.io/sync-options" in volume["metadata"]["annotations"]) == (protected == "true")


@pytest.mark.parametrize(("age", "stays"), [(STEP_SECONDS - 1, True), (STEP_SECONDS, False)])
def test_an_unprotected_volume_goes_after_a_step(age: float, stays: bool) -> None:
    free = remains(leaver({MARKED}, OTHERS, MARKED_SECONDS)).files[LEAVING]
    found = remains(leaver({LEAVING}, OTHERS, age, old_frames__leaving=free))
    assert (found.files == {LEAVING: free}) == stays
    assert bool(found.files) == bool(found.pending) == stays


def test_an_instance_goes_at_once() -> None:
    gone = {f"tenants/{TENANT}/compute/simulate.yaml"}
    assert remains(leaver(gone, OTHERS, 0)) == ({}, [], [])


def test_a_tenant_that_is_not_retired_does_not_go() -> None:
    found = remains(leaver(OTHERS - {RETAINED}, set(), 10 * MARKED_SECONDS, declared=False))
    assert [(one.path, one.rule) for one in found.findings] == [(f"tenants/{TENANT}/tenant.yaml", "deletion")]


def test_one_that_declares_nothing_there_any_more_leaves_after_what_it_had() -> None:
    found = remains(leaver(OTHERS - {RETAINED}, set(), 10 * MARKED_SECONDS))
    leaving = {path.replace("marker", "leaving") for path in MARKERS}
    assert found.findings == []
    assert found.files.keys() == {ARGO, NAMESPACE} | leaving
    assert found.files[NAMESPACE] == golden(NAMESPACE)

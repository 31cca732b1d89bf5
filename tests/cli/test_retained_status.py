"""`allot status` and `allot doctor` name the reason of a retention from the record, and show a tenant its own problems alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conftest import Allot, edit
from tests.support.doctor_output import lines
from tests.support.published import Place, git

from allotment.branches.retention_ref import RETAINED
from allotment.services.publish.release_builder import ReleaseBuilder

WEBUI, GROUP = "tenants/solo-ada/instances/webui.yaml", "tenants/uni-lab/instances/group-a.yaml"


@pytest.fixture
def retained(published: Place) -> Place:
    """Return a repository in which two tenants are retained."""
    edit(published.root, WEBUI, "l4-quarter", "l4-ada")
    edit(published.root, GROUP, "state: Running", "state: Walking")
    assert published.merged().code == 4
    return published


def renders_nothing(patch: pytest.MonkeyPatch) -> None:
    """Let every dry run fail."""

    def assemble(*_: Any, **__: Any) -> None:
        raise AssertionError("a dry run")

    patch.setattr(ReleaseBuilder, "build_release", assemble)


def output(place: Place, allot: Allot, *words: str) -> Any:
    """Return what `allot status` says as JSON of how far publishing is."""
    return json.loads(allot("status", "--repo", place.root, "-o", "json", *words).out)["published"]


def test_status_reads_the_record(retained: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    renders_nothing(monkeypatch)
    result = allot("status", "--repo", retained.root, "solo-ada")
    commit = git(retained.root, "rev-parse", "HEAD")
    headline = f"published is {commit[:12]}, 2 tenants retained: solo-ada (Invalid)"
    assert result.err.splitlines()[1] == headline
    assert f"its tenant is retained: Invalid: {WEBUI}:8:12: spec.gpuSpec: no GPUSpec is named 'l4-ada'" in result.out
    assert "Walking" not in result.out + result.err
    status = output(retained, allot)
    record = json.loads(git(retained.remote, "show", f"{RETAINED}:retained.json"))
    assert status["retained"] == ["solo-ada", "uni-lab"]
    assert status["retainedTenants"] == record["tenants"]
    assert [tenant["tenant"] for tenant in output(retained, allot, "solo-ada")["retainedTenants"]] == ["solo-ada"]


def test_status_reads_no_record_of_another_publish(retained: Place, allot: Allot) -> None:
    edit(retained.root, GROUP, "state: Walking", "state: Running")
    git(retained.remote, "update-ref", "refs/allotment/source", retained.merge())
    status = output(retained, allot)
    assert [(tenant["tenant"], tenant["since"]) for tenant in status["retainedTenants"]] == [("solo-ada", None)]


def test_status_forgets_who_is_well(retained: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(retained.root, GROUP, "state: Walking", "state: Running")
    edit(retained.root, WEBUI, "l4-ada", "l4-quarter")
    assert retained.merged().code == 0
    renders_nothing(monkeypatch)
    assert output(retained, allot)["retainedTenants"] == []


def test_doctor_names_each_retained_tenant(retained: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        renders_nothing(patch)
        warnings = [line for line in lines(allot, retained.root) if line.startswith("warning tenant")]
    assert [line.partition(":")[0] for line in warnings] == ["warning tenant solo-ada", "warning tenant uni-lab"]
    assert "is retained: Invalid: tenants/solo-ada/" in warnings[0]
    tree = git(retained.remote, "rev-parse", "rendered/eu-1")
    git(retained.remote, "update-ref", RETAINED, tree)
    (trouble,) = [line for line in lines(allot, retained.root) if line.startswith("warning retained tenants")]
    assert trouble == f"warning retained tenants: {RETAINED} is at {tree[:12]}, which has no file retained.json"

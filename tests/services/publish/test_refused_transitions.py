"""A tenant with a refused transition is retained, with each problem once."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.services.publish.written import before, render_files

from allotment.adapters.folder_source import FolderSource
from allotment.lifecycle.volume_transitions import StorageUsers
from allotment.services.publish.observed_state import EMPTY_STATE
from allotment.services.publish.refused_transitions import find_refused_transitions
from allotment.services.publish.tenant_transition import TransitionContext, transition_tenant

MODELS = "tenants/solo-ada/storages/models.yaml"
CONTEXT = TransitionContext(EMPTY_STATE, 60, lambda *_: StorageUsers(), lambda *_: "")


def test_a_volume_that_may_not_go_keeps_its_tenant(sample: Path) -> None:
    files = render_files(FolderSource(sample))
    (sample / MODELS).unlink()
    tenant_transition = transition_tenant("solo-ada", True, None, before(files), CONTEXT)
    retained_tenants = find_refused_transitions(
        {"solo-ada": tenant_transition, "uni-lab": transition_tenant("uni-lab", True, None, before({}), CONTEXT)},
        FolderSource(sample),
    )
    assert list(retained_tenants) == ["solo-ada"]
    assert {problem.path for problem in retained_tenants["solo-ada"].problems} == {
        MODELS,
        MODELS.replace("models", "styles"),
    }
    assert {problem.rule for problem in retained_tenants["solo-ada"].problems} == {"deletion"}


def test_a_tenant_of_two_clusters_is_reported_once(sample: Path) -> None:
    files = render_files(FolderSource(sample), "ml-orbit")
    assert {path.partition("/")[0] for path in files} == {"eu-1", "us-1"}
    shutil.rmtree(sample / "tenants/ml-orbit")
    retained_tenants = find_refused_transitions(
        {"ml-orbit": transition_tenant("ml-orbit", False, None, before(files), CONTEXT)}, FolderSource(sample)
    )
    paths = [problem.path for problem in retained_tenants["ml-orbit"].problems]
    assert "tenants/ml-orbit/tenant.yaml" in paths
    assert len(paths) == len(set(paths)) == 5

"""An instance on hold runs no replica, releases its units, and costs nothing."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import edit
from tests.support.sample_catalog import DAY

from allotment import conditions
from allotment.adapters.folder_source import FolderSource
from allotment.capacity.pricing import monthly_costs
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.preparation.runtime_state import ALL_PREPARED
from allotment.preparation.start_gates import StartGate, claim_units, count_running_replicas, find_start_gates
from allotment.services.check.repository_check import check_repository

SOLO = Scope("tenant", "solo-ada")


def test_an_instance_on_hold_runs_nothing(sample: Path) -> None:
    path = "tenants/solo-ada/instances/webui.yaml"
    for text, gates in (
        ("spec:\n", []),
        ("spec:\n  hold:\n    reason: It sends spam.\n", [StartGate(conditions.ON_HOLD, "on hold: It sends spam.")]),
    ):
        edit(sample, path, "spec:\n", text)
        source = FolderSource(sample)
        catalog = check_repository(source, DAY).catalog
        tenant, problems = read_folder(SOLO, [(each, source.read(each)) for each in source.files(SOLO).paths])
        assert problems == []
        instance = tenant.of_kind(GPUInstance)["webui"].model
        assert find_start_gates(catalog, tenant, ALL_PREPARED, instance) == gates
        replicas = 0 if gates else 1
        assert count_running_replicas(catalog, tenant, ALL_PREPARED, instance) == replicas
        assert len(claim_units(catalog, tenant, ALL_PREPARED)) == replicas
        assert ("webui" in {cost.name for cost in monthly_costs(catalog, tenant)}) is not bool(gates)

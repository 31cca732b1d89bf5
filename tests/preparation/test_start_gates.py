"""An instance on hold runs no replica and releases its units, until the day on which the hold ends."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.conftest import edit

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
HOLD = '  hold:\n    reason: It sends spam.\n    until: "2026-12-01"\n'


@pytest.mark.parametrize(
    ("day", "gates"),
    [
        ("2026-11-30", [StartGate(conditions.ON_HOLD, "on hold until 2026-12-01: It sends spam.")]),
        ("2026-12-01", []),
    ],
)
def test_an_instance_on_hold_runs_nothing_until_its_day(sample: Path, day: str, gates: list[StartGate]) -> None:
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "spec:\n", f"spec:\n{HOLD}")
    source = FolderSource(sample)
    catalog = check_repository(source, datetime.date.fromisoformat(day)).catalog
    tenant, problems = read_folder(SOLO, [(path, source.read(path)) for path in source.files(SOLO).paths])
    assert problems == []
    instance = tenant.of_kind(GPUInstance)["webui"].model
    assert find_start_gates(catalog, tenant, ALL_PREPARED, instance) == gates
    replicas = 0 if gates else 1
    assert count_running_replicas(catalog, tenant, ALL_PREPARED, instance) == replicas
    assert len(claim_units(catalog, tenant, ALL_PREPARED)) == replicas
    assert ("webui" in {cost.name for cost in monthly_costs(catalog, tenant)}) is not bool(gates)

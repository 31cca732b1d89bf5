"""`plan_edits` writes tariff plans with the given limits only."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.plan_edits import add_plan
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARED = open_declarations(FolderSource(PROJECT))
PLAN: dict[str, Any] = {
    "gpus": ("nvidia-l4=1",),
    "instances": "2",
    "storages": "0",
    "storage": "100Gi",
    "budget": None,
    "sharing": (),
    "exposures": (),
    "registries": (),
    "display_name": None,
}
PATH = "platform/plans/course.yaml"


def test_a_plan_has_the_given_limits() -> None:
    change = add_plan(DECLARED, "course", PLAN)
    head, _, spec = (change.files[PATH] or b"").decode().partition("spec:\n")
    assert head.endswith("kind: Plan\nmetadata:\n  name: course\n")
    assert spec == "  quota:\n    gpus:\n      nvidia-l4: 1\n    instances: 2\n    storages: 0\n    storage: 100Gi\n"
    assert (change.title, change.resources) == ("Add tariff plan course", ("Plan course",))
    assert change.notes[0].startswith("No budget limits its tenants: `allot set Plan/course budget.perMonth=")


def test_a_model_that_no_node_has_is_noted() -> None:
    change = add_plan(DECLARED, "course", PLAN | {"gpus": ("nvidia-l5=1", "nvidia-l4=1")})
    assert change.notes[2:] == (
        "No node pool and no GPUSpec has the model 'nvidia-l5', so its quota has no effect; did you mean 'nvidia-l4'?",
    )


def test_a_plan_has_a_budget_and_features() -> None:
    values = {
        "budget": "50",
        "sharing": ("TimeSlicing", "Mig"),
        "exposures": ("Members",),
        "registries": ("ghcr.io/acme/",),
    }
    change = add_plan(DECLARED, "course", PLAN | values)
    text = (change.files[PATH] or b"").decode()
    assert '  budget:\n    perMonth: "50"\n  allow:\n    sharing:\n      - Mig\n      - TimeSlicing\n' in text
    assert "    exposure:\n      - Members\n    imageRegistries:\n      - ghcr.io/acme/\n" in text
    assert len(change.notes) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": ("nvidia-l4",)}, "--gpu: 'nvidia-l4' is not in the format MODEL=NUMBER"),
        ({"gpus": ("nvidia-l4=x",)}, "spec.quota.gpus.nvidia-l4: "),
        ({"sharing": ("Shared",)}, "spec.allow.sharing[0]: 'Shared' is not allowed: write one of"),
        ({"budget": "1,000"}, "spec.budget.perMonth: "),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OperationRefused, match=re.escape(message)):
        add_plan(DECLARED, "course", PLAN | values)

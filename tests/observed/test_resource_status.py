"""People read a state, and how many replicas are ready, without knowing the names that programs read."""

from __future__ import annotations

import pytest

from allotment.observed.resource_status import ResourceStatus
from allotment.observed.rollout import BlobVersions, ResourceRef, RolloutStage, derive_stage
from allotment.observed.status import Instance, Storage, TenantStatus

WEBUI = ResourceRef("instance", "solo-ada", "webui", "eu-1", "b1")
MODELS = ResourceRef("storage", "solo-ada", "models", "eu-1", "b1")


def row(seen: Instance | Storage | None, replicas: int = 0, state: str = "published") -> ResourceStatus:
    resource = MODELS if isinstance(seen, Storage) else WEBUI
    return ResourceStatus(resource, RolloutStage("going", state), seen, None, "path", replicas=replicas)


def test_an_instance_that_has_not_answered_its_probe_is_starting_and_a_storage_is_ready() -> None:
    starting, ready = row(Instance("webui", "b1", "Ready", "")), row(Storage("models", "b1", "Ready", ""))
    assert [(resource_row.state, resource_row.displayed_state) for resource_row in (starting, ready)] == [
        ("Ready", "Starting"),
        ("Ready", "Ready"),
    ]


@pytest.mark.parametrize(
    ("joined", "ready"),
    [
        (row(Instance("webui", "b1", "Ready", "", replicas=2, ready_replicas=1), 3), (1, 2)),
        (row(Instance("webui", "b1", "Init", "", replicas=1)), (0, 1)),
        (row(Instance("webui", "b1", "Waiting", "NoFreeUnit"), 2), (0, 2)),
        (row(Instance("webui", "b1", "Stopped", "StoppedAsDeclared"), 2), None),
        (row(None, 2, "merged"), (0, 2)),
        (row(None, 2), (0, 2)),
        (row(None), None),
    ],
    ids=["starting", "init", "waiting", "stopped", "merged", "published", "declared stopped"],
)
def test_ready_replicas_counts_no_declared_replica_of_a_waiting_instance(
    joined: ResourceStatus, ready: tuple[int, int] | None
) -> None:
    assert joined.ready_replicas == ready


def test_a_rollout_calls_it_starting() -> None:
    seen = Instance("webui", "b1", "Ready", "ProbePending")
    status = TenantStatus("solo-ada", "eu-1", instances=(seen,))
    rollout_stage = derive_stage(WEBUI, BlobVersions("b1", "b1"), [status])
    assert rollout_stage == RolloutStage("going", "starting", "its container has started")

"""What is waited for is reached, on its way, or can't come about by itself."""

from __future__ import annotations

import pytest

from allotment.observed.resource_status import ResourceStatus
from allotment.observed.rollout import Resource, ResourceRef, RolloutStage
from allotment.observed.status import Condition, Instance, Storage
from allotment.observed.wait_goals import describe_next_step, evaluate_goal

INSTANCE = ResourceRef("instance", "solo-ada", "webui", "eu-1", "b1")
STORAGE = ResourceRef("storage", "solo-ada", "models", "eu-1", "b1")
GOING, DONE, FAILED = (RolloutStage(progress, "x") for progress in ("going", "done", "failed"))  # type: ignore[arg-type]  # mypy knows them as str
PREPARED = (Condition("Prepared", "True", ""),)


def row(resource: ResourceRef, stage: RolloutStage, seen: Resource | None = None) -> ResourceStatus:
    return ResourceStatus(resource, stage, seen, None, "path")


def instance(state: str, stage: RolloutStage, blob: str = "b1") -> ResourceStatus:
    return row(INSTANCE, stage, Instance("webui", blob, state, ""))


def storage(state: str, stage: RolloutStage, *conditions: Condition) -> ResourceStatus:
    return row(STORAGE, stage, Storage("models", "b1", state, "", conditions=conditions))


@pytest.mark.parametrize(
    ("goal", "resource", "outcome"),
    [
        ("Running", instance("Running", DONE), "reached"),
        ("Running", instance("Ready", GOING), "going"),
        ("Running", instance("Running", GOING, blob="b0"), "going"),
        ("Running", instance("Running", FAILED, blob="b0"), "failed"),
        ("Running", instance("Failed", FAILED), "failed"),
        ("Running", instance("Waiting", GOING), "going"),
        ("Running", instance("Stopped", DONE), "failed"),
        ("Running", row(INSTANCE, GOING), "going"),
        ("Running", row(INSTANCE, FAILED), "failed"),
        ("Running", row(INSTANCE._replace(blob=""), GOING, Instance("webui", "b1", "Running", "")), "failed"),
        ("Ready", instance("Init", GOING), "going"),
        ("Ready", instance("Ready", GOING), "reached"),
        ("Ready", instance("Running", DONE), "reached"),
        ("Ready", storage("Ready", DONE), "reached"),
        ("Ready", storage("Preparing", GOING), "going"),
        ("Ready", storage("Lost", FAILED), "failed"),
        ("Stopped", instance("Stopped", DONE), "reached"),
        ("Stopped", instance("Stopped", GOING), "going"),
        ("Stopped", instance("Running", DONE), "failed"),
        ("Prepared", storage("Preparing", GOING), "going"),
        ("Prepared", storage("Pending", GOING, *PREPARED), "reached"),
        ("Prepared", storage("Ready", DONE), "reached"),
        ("Prepared", storage("Failed", FAILED), "failed"),
        ("Gone", instance("Running", DONE), "failed"),
        ("Gone", row(INSTANCE._replace(blob=""), GOING, Instance("webui", "b1", "Running", "")), "going"),
        ("Gone", row(INSTANCE._replace(blob=""), FAILED, Instance("webui", "b1", "Running", "")), "failed"),
    ],
)
def test_one_thing(goal: str, resource: ResourceStatus, outcome: str) -> None:
    assert evaluate_goal([resource], goal) == outcome


def test_several_of_one_name() -> None:
    running_row, coming = instance("Running", DONE), row(INSTANCE._replace(cluster="us-1"), GOING)
    assert evaluate_goal([running_row, coming], "Running") == "going"
    assert evaluate_goal([coming, instance("Failed", FAILED)], "Running") == "failed"
    left = row(INSTANCE._replace(blob="", cluster="us-1"), GOING, Instance("webui", "b0", "Running", ""))
    assert evaluate_goal([running_row, left], "Running") == "reached", "what is left of it elsewhere isn't waited for"


def test_nothing_of_a_name() -> None:
    assert evaluate_goal([], "Gone") == "reached"
    assert evaluate_goal([], "Running") == "failed"


def test_evaluate_goal_ignores_the_last_state_from_a_silent_cluster() -> None:
    assert evaluate_goal([instance("Running", DONE)], "Running", {"eu-1"}) == "going"
    assert evaluate_goal([instance("Failed", FAILED)], "Running", {"eu-1"}) == "going"
    assert evaluate_goal([row(INSTANCE, FAILED)], "Running", {"eu-1"}) == "failed"


@pytest.mark.parametrize(
    ("joined", "step"),
    [
        (row(INSTANCE, RolloutStage("going", "merged")), "its commit is published"),
        (row(INSTANCE, RolloutStage("going", "published")), "Argo CD applies it"),
        (instance("Running", RolloutStage("going", "published"), blob="b0"), "Argo CD applies it"),
        (instance("Init", GOING), "its container starts"),
        (instance("Ready", GOING), "it answers its probe"),
        (row(INSTANCE, GOING, Instance("webui", "b1", "Waiting", "NoFreeUnit")), "a unit becomes free"),
        (row(INSTANCE._replace(blob=""), RolloutStage("going", "published")), "Argo CD removes it"),
        (instance("Running", DONE), ""),
        (instance("Failed", FAILED), ""),
    ],
)
def test_the_next_step(joined: ResourceStatus, step: str) -> None:
    assert describe_next_step(joined, "Running") == step


def test_the_next_step_in_a_silent_cluster_is_a_report() -> None:
    assert describe_next_step(instance("Running", DONE), "Running", {"eu-1"}) == "eu-1 is reported again"
    assert (
        describe_next_step(row(INSTANCE, RolloutStage("going", "published")), "Running", {"eu-1"}) == "eu-1 is reported"
    )

"""What is waited for is reached, on its way, or can't come about by itself."""

from __future__ import annotations

import pytest

from allotment.observed.awaited import next_step, verdict
from allotment.observed.joined import Joined
from allotment.observed.rollout import Merged, Stage, Thing
from allotment.observed.status import Condition, Instance, Storage

INSTANCE = Merged("instance", "solo-ada", "webui", "eu-1", "b1")
STORAGE = Merged("storage", "solo-ada", "models", "eu-1", "b1")
GOING, DONE, FAILED = (Stage(progress, "x") for progress in ("going", "done", "failed"))  # type: ignore[arg-type]  # mypy knows them as str
PREPARED = (Condition("Prepared", "True", ""),)


def row(thing: Merged, stage: Stage, seen: Thing | None = None) -> Joined:
    return Joined(thing, stage, seen, None, "path")


def instance(state: str, stage: Stage, blob: str = "b1") -> Joined:
    return row(INSTANCE, stage, Instance("webui", blob, state, ""))


def storage(state: str, stage: Stage, *conditions: Condition) -> Joined:
    return row(STORAGE, stage, Storage("models", "b1", state, "", conditions=conditions))


@pytest.mark.parametrize(
    ("goal", "one", "found"),
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
def test_one_thing(goal: str, one: Joined, found: str) -> None:
    assert verdict([one], goal) == found


def test_several_of_one_name() -> None:
    there, coming = instance("Running", DONE), row(INSTANCE._replace(cluster="us-1"), GOING)
    assert verdict([there, coming], "Running") == "going"
    assert verdict([coming, instance("Failed", FAILED)], "Running") == "failed"
    left = row(INSTANCE._replace(blob="", cluster="us-1"), GOING, Instance("webui", "b0", "Running", ""))
    assert verdict([there, left], "Running") == "reached", "what is left of it elsewhere isn't waited for"


def test_nothing_of_a_name() -> None:
    assert verdict([], "Gone") == "reached"
    assert verdict([], "Running") == "failed"


def test_what_a_silent_cluster_said_last_is_not_believed() -> None:
    assert verdict([instance("Running", DONE)], "Running", {"eu-1"}) == "going"
    assert verdict([instance("Failed", FAILED)], "Running", {"eu-1"}) == "going"
    assert verdict([row(INSTANCE, FAILED)], "Running", {"eu-1"}) == "failed"


@pytest.mark.parametrize(
    ("joined", "step"),
    [
        (row(INSTANCE, Stage("going", "merged")), "a publish takes its commit"),
        (row(INSTANCE, Stage("going", "published")), "Argo CD applies it"),
        (instance("Running", Stage("going", "published"), blob="b0"), "Argo CD applies it"),
        (instance("Init", GOING), "its container starts"),
        (instance("Ready", GOING), "it answers its probe"),
        (row(INSTANCE, GOING, Instance("webui", "b1", "Waiting", "NoFreeUnit")), "a unit becomes free"),
        (row(INSTANCE._replace(blob=""), Stage("going", "published")), "Argo CD removes it"),
        (instance("Running", DONE), ""),
        (instance("Failed", FAILED), ""),
    ],
)
def test_the_next_step(joined: Joined, step: str) -> None:
    assert next_step(joined, "Running") == step


def test_the_next_step_in_a_silent_cluster_is_a_report() -> None:
    assert next_step(instance("Running", DONE), "Running", {"eu-1"}) == "eu-1 is reported again"
    assert next_step(row(INSTANCE, Stage("going", "published")), "Running", {"eu-1"}) == "eu-1 is reported"

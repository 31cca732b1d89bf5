"""Decides whether a resource has reached the goal that a user waits for with `allot wait`.

A goal is a state of an instance, storage or snapshot, or the removal of this resource.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from allotment import conditions as word
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.status import Storage

GoalVerdict = Literal["going", "reached", "failed"]
WaitOutcome = Literal["Reached", "Failed", "TimedOut"]

GONE_GOAL = "Gone"
# The goals that a user can wait for, each with the kinds that can reach it.
KINDS_BY_GOAL: dict[str, tuple[str, ...]] = {
    word.RUNNING: (INSTANCE.word,),
    word.READY: (INSTANCE.word, STORAGE.word, SNAPSHOT.word),
    word.STARTING: (INSTANCE.word,),
    word.STOPPED: (INSTANCE.word,),
    word.PREPARED: (STORAGE.word,),
    GONE_GOAL: (INSTANCE.word, STORAGE.word, SNAPSHOT.word),
}
# Texts about the next step of a resource. The first table is by the reason of the resource's state, the second by the
# state, and the third by the rollout stage.
_NEXT_STEP_BY_REASON = {
    word.NO_FREE_UNIT: "a unit becomes free",
    word.STORAGE_UNPREPARED: "its storage is prepared",
    word.NODE_LOST: "its node responds",
    word.ROLLOUT_PENDING: "its pods are created",
    word.SCHEDULING: "a node accepts its pod",
    word.TERMINATING: "its pods end",
    word.RESIZING: "its volume grows",
}
_NEXT_STEP_BY_STATE = {
    word.INIT: "its container starts",
    word.READY: "it answers its probe",
    word.PENDING: "its volume is bound",
    word.PREPARING: "its preparation succeeds",
}
_NEXT_STEP_BY_STAGE = {
    "merged": "its commit is published",
    "published": "Argo CD applies it",
    "removing": "its volume is deleted",
}


def describe_next_step(row: ResourceStatus, goal: str, silent: Collection[str] = ()) -> str:
    """Return the next step of a resource towards the goal; empty if nothing is expected to happen.

    `silent` names the clusters without a recent and trusted report.
    """
    if (_evaluate_resource(row, goal, silent) if row.resource.blob else row.stage.progress) != "going":
        return ""
    if row.stage.state != "merged" and row.resource.cluster in silent:
        return (
            f"{row.resource.cluster} is reported again"
            if row.observed is not None
            else f"{row.resource.cluster} is reported"
        )
    if not row.resource.blob and row.stage.state == "published":
        return "Argo CD removes it"
    if row.observed is None or not row.is_current:
        return _NEXT_STEP_BY_STAGE.get(row.stage.state, "")
    return _NEXT_STEP_BY_REASON.get(row.observed.reason) or _NEXT_STEP_BY_STATE.get(row.state, "")


def evaluate_goal(rows: Sequence[ResourceStatus], goal: str, silent: Collection[str] = ()) -> GoalVerdict:
    """Return whether all resources of a name have reached the goal.

    `rows` are the resources of this name and of the kinds that can reach the goal. The verdict is `failed` if the
    resources reach the goal only after another merge or an action of a person. Unless the goal is Gone, a reported
    resource of a cluster in `silent` counts as `going`, because its last report may be outdated.
    """
    if goal == GONE_GOAL:
        failed = any(row.resource.blob or row.stage.progress == "failed" for row in rows)
        return "failed" if failed else "going" if rows else "reached"
    declared = [row for row in rows if row.resource.blob]
    if not declared:
        return "failed"
    verdicts = [_evaluate_resource(row, goal, silent) for row in declared]
    return "failed" if "failed" in verdicts else "going" if "going" in verdicts else "reached"


def _evaluate_resource(row: ResourceStatus, goal: str, silent: Collection[str]) -> GoalVerdict:
    if row.resource.cluster in silent and row.observed is not None:
        return "going"
    if row.is_current and _is_reached(row, goal):
        return "reached"
    return "going" if row.stage.progress == "going" else "failed"


def _is_reached(row: ResourceStatus, goal: str) -> bool:
    if goal == word.STOPPED:
        return row.state == word.STOPPED and row.stage.progress == "done"
    if goal in (word.READY, word.STARTING):
        return row.state in (word.READY, word.RUNNING)
    if goal == word.PREPARED and isinstance(row.observed, Storage):
        prepared = any((each.type, each.status) == (word.PREPARED, "True") for each in row.observed.conditions)
        return prepared or row.state == word.STORAGE_READY
    return row.state == goal

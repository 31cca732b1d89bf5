"""Measures how long instances waited for a node in a cold start: a start that found no free unit.

A copy is the pod of one replica. Normally it replaces a placeholder within a second or two. If a copy finds no unit for
longer than SCHEDULING_SECONDS, its instance waits with the reason NoFreeUnit, and the start is cold.

The waiting time is measured by the timestamps of the pods. It begins when the first copy without a node was created,
and ends when the last copy has a node. On a Karpenter pool, a copy gets a node only after Karpenter has bought the node
and the node offers its GPUs. The image is pulled later, so the waiting time does not include the pull.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from allotment import conditions as word
from allotment.diff.cold_starts import ColdStartTime
from allotment.observed.conditions import seconds_between
from allotment.observed.status import MAX_COLD_START_SECONDS, ColdStart, Condition, Instance, TenantStatus

MAX_STARTS_PER_SPEC = 20  # the most starts that are kept for a GPUSpec


def find_cold_starts(previous: TenantStatus | None, now: TenantStatus) -> Iterator[ColdStart]:
    """Yield a tenant's cold starts in which all copies got a node between two observations.

    An instance that is published without replicas needs no node. It has no condition Scheduled, so it is skipped.
    """
    waited = [instance for instance in previous.instances if instance.reason == word.NO_FREE_UNIT] if previous else []
    instances = {instance.name: instance for instance in now.instances} if waited else {}
    for instance in waited:
        begun, ended = _scheduled_condition(instance), _scheduled_condition(instances.get(instance.name))
        if begun is None or ended is None or (begun.status, ended.status) != ("False", "True"):
            continue
        if not begun.last_transition_time:
            continue
        seconds = int(seconds_between(begun.last_transition_time, ended.last_transition_time))
        name, spec = f"{now.tenant}/{instance.name}", instances[instance.name].gpu_spec
        yield ColdStart(spec, name, ended.last_transition_time, min(max(seconds, 0), MAX_COLD_START_SECONDS))


def _scheduled_condition(instance: Instance | None) -> Condition | None:
    return (
        next((each for each in instance.conditions if each.type == word.SCHEDULED), None)
        if instance is not None
        else None
    )


def select_newest(starts: Iterable[ColdStart]) -> tuple[ColdStart, ...]:
    """Return the last MAX_STARTS_PER_SPEC starts of each GPUSpec without duplicates, sorted by GPUSpec and time."""
    by_spec: dict[str, dict[tuple[str, str], ColdStart]] = defaultdict(dict)
    for start in starts:
        by_spec[start.gpu_spec].setdefault((start.time, start.instance), start)
    return tuple(
        spec_starts[key]
        for _, spec_starts in sorted(by_spec.items())
        for key in sorted(spec_starts)[-MAX_STARTS_PER_SPEC:]
    )


def summarize_cold_starts(starts: Iterable[ColdStart]) -> dict[str, ColdStartTime]:
    """Return a summary of the waiting times in the last cold starts of each GPUSpec, by the name of the GPUSpec.

    A GPUSpec without known cold starts is absent.
    """
    by_spec: dict[str, list[int]] = defaultdict(list)
    for start in select_newest(starts):
        by_spec[start.gpu_spec].append(start.seconds)
    return {spec: _summarize_seconds(sorted(seconds)) for spec, seconds in by_spec.items()}


def _summarize_seconds(seconds: list[int]) -> ColdStartTime:
    count = len(seconds)
    return ColdStartTime(count, (seconds[(count - 1) // 2] + seconds[count // 2]) // 2, seconds[-1])

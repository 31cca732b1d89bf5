"""Derives the state and the conditions of a live instance, and the reason why it isn't running.

A copy is the pod of one replica. The state of an instance is the state of its least advanced copy. Pods of older
rollouts are not copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from allotment import conditions as word
from allotment.observed.conditions import ConditionBuilder, ConditionValue
from allotment.observed.objects import Deployment, Pod, Route
from allotment.observed.pod_state import InstanceView, PodState, derive_pod_state
from allotment.observed.status import Condition, Instance
from allotment.problems import escape_unprintable

_STARTUP_STATES = (word.INIT, word.READY, word.RUNNING)
_TERMINATED_REASONS = (word.CONTAINER_ENDED, word.CRASH_LOOP, word.OUT_OF_MEMORY, word.CONFIG_FAILED, word.PROBE_FAILED)
_STATES_BY_PROGRESS = (word.FAILED, word.WAITING, word.INIT, word.READY, word.RUNNING)


def derive_instance(view: InstanceView, previous: Instance | None) -> Instance:
    """Return the status of an instance. Unchanged states and conditions keep their times from `previous`."""
    deployment = view.deployment
    pods = _current_pods(view)
    copies = [derive_pod_state(view, pod) for pod in pods]
    instance_state = _derive_state(view, copies)
    urls = _sorted_urls(view) if view.routes else []
    same = previous is not None and previous.state == instance_state.state
    return Instance(
        deployment.instance,
        deployment.blob,
        instance_state.state,
        instance_state.reason,
        instance_state.message,
        since=previous.since
        if previous is not None and same
        else _reached_at(instance_state.state, pods, previous, view.now),
        gpu_spec=deployment.gpu_spec,
        units=deployment.units,
        replicas=deployment.replicas,
        ready_replicas=sum([copy.state == word.RUNNING for copy in copies]),
        nodes=tuple(sorted({pod.node for pod in pods} - {""})),
        pods=len(
            [
                pod
                for pod in view.pods
                if holds_unit(pod) and not (pod.terminating and deployment.replicas and not deployment.terminating)
            ]
        ),
        running_pod=min([pod.name for pod in pods if pod.started_at], default=""),
        restarts=sum([pod.restarts for pod in pods]),
        start_time=max([pod.started_at for pod in pods], default=""),
        url=urls[0] if urls else "",
        links=tuple(urls[1:]),
        ssh_command=deployment.ssh_command,
        conditions=_build_conditions(
            view, pods, copies, ConditionBuilder(previous.conditions if previous else (), view.now)
        ),
    )


def _sorted_urls(view: InstanceView) -> list[str]:
    """Return the URLs of an instance, its own URL first."""
    name = view.deployment.name
    return [
        route.url
        for route in sorted(view.routes, key=lambda candidate: (candidate.name != name, candidate.name))
        if route.url
    ]


def state_path(previous: Instance | None, now: Instance) -> list[tuple[str, str]]:
    """Return the states that an instance passed through, each with its time, ending with the current state.

    Between two observations, an instance may pass through several states. It reaches Running only through Init and
    Ready. An instance that returns to Running may repeat only some of these states (`_count_kept_steps`).
    """
    if now.state not in _STARTUP_STATES:
        return [(now.state, now.since)]
    old, end = previous.state if previous else "", _STARTUP_STATES.index(now.state)
    if old in _STARTUP_STATES and _STARTUP_STATES.index(old) > end:
        return [(now.state, now.since)]
    begun = _STARTUP_STATES.index(old) + 1 if old in _STARTUP_STATES else _count_kept_steps(previous, now)
    earliest = previous.since if previous else ""
    passed = []
    for state in _STARTUP_STATES[begun:end]:
        mark = word.SCHEDULED if state == word.INIT else word.STARTED
        since = next(
            (condition.last_transition_time for condition in now.conditions if condition.type == mark), now.since
        )
        passed.append((state, max(min(since, now.since), earliest)))
    return [*passed, (now.state, now.since)]


def _count_kept_steps(previous: Instance | None, now: Instance) -> int:
    """Return how many of the startup steps Init and Ready an instance need not repeat.

    An instance that fails or waits leaves the startup states. If it returns to a startup state with the same pods, the
    steps that these pods have completed still hold. The conditions alone can't prove that the pods are the same,
    because a condition keeps its time even if another pod takes over. So the function also compares the nodes and the
    start time.
    """
    if previous is None or previous.reason in (word.EVICTED, word.ADMISSION_FAILED) or previous.nodes != now.nodes:
        return 0
    previous_conditions = {
        (condition.type, condition.last_transition_time)
        for condition in previous.conditions
        if condition.status == "True"
    }
    holds = {
        condition.type
        for condition in now.conditions
        if (condition.type, condition.last_transition_time) in previous_conditions
    }
    if word.SCHEDULED not in holds:
        return 0
    return 2 if word.STARTED in holds and previous.start_time == now.start_time else 1


def is_time_dependent(instance: Instance) -> bool:
    """Return whether the state of an instance may change without a change of its objects.

    The passing of time may change the state while a pod is being scheduled, and while a container runs again after it
    ended. While the replacement of a rejected pod is being scheduled, the instance may have the state of the rejected
    pod.
    """
    return instance.reason in (word.SCHEDULING, word.ADMISSION_FAILED, word.EVICTED) or (
        instance.reason in _TERMINATED_REASONS and instance.state == word.FAILED and instance.start_time != ""
    )


def _current_pods(view: InstanceView) -> list[Pod]:
    """Return the pods that belong to the Deployment's newest ReplicaSet and aren't terminating.

    A pod that its node evicted or rejected remains as an ended object. If there are fewer pods than replicas, the
    result also includes ended pods, unless another pod was created after them.
    """
    deployment = view.deployment
    current = (
        [each.uid for each in view.replica_sets if each.revision == deployment.revision]
        if deployment.generation_observed
        else []
    )
    rollout_pods = [pod for pod in view.pods if pod.owner in current]
    pods = [pod for pod in rollout_pods if holds_unit(pod) and not pod.terminating]
    if len(pods) < len(rollout_pods) and (missing := deployment.replicas - len(pods)) > 0:
        last = max(pod.created for pod in rollout_pods)
        ended_pods = [pod for pod in rollout_pods if pod.created == last and not (holds_unit(pod) or pod.terminating)]
        pods += sorted(ended_pods, key=lambda pod: pod.name)[-missing:]
    return pods if len(pods) < 2 else sorted(pods, key=lambda pod: pod.name)


def holds_unit(pod: Pod) -> bool:
    """Return whether a pod holds a unit, or will soon hold a unit."""
    return pod.phase not in ("Succeeded", "Failed")


def derive_without_deployment(name: str, pods: Sequence[Pod], previous: Instance | None, now: str) -> Instance:
    """Return the status of an instance that has no Deployment any more, but still has pods."""
    same = previous is not None and previous.state == word.STOPPED
    return Instance(
        name,
        previous.observed_blob if previous else "",
        word.STOPPED,
        word.TERMINATING,
        "its pods are ending",
        since=previous.since if previous is not None and same else now,
        gpu_spec=previous.gpu_spec if previous else "",
        nodes=tuple(sorted({pod.node for pod in pods} - {""})),
        pods=len(pods),
    )


def _reached_at(state: str, pods: Sequence[Pod], previous: Instance | None, now: str) -> str:
    """Return the time when an instance reached a state: the time in the status of its pods, or else `now`.

    The time is never earlier than the time of the previous state.
    """
    time = ""
    if previous is None or previous.state != word.RUNNING:
        if state == word.RUNNING:
            time = max([pod.ready_at for pod in pods], default="")
        elif state == word.READY:
            time = max([pod.started_at for pod in pods], default="")
    since = time if time and time < now else now
    return since if previous is None or previous.since < since else previous.since


def _derive_state(view: InstanceView, copies: list[PodState]) -> PodState:
    deployment = view.deployment
    if deployment.terminating:
        return PodState(word.STOPPED, word.TERMINATING, "it is being removed")
    if deployment.replicas == 0:
        return _state_without_replicas(view)
    if deployment.creation_failure:
        return PodState(
            word.FAILED,
            word.CREATION_REFUSED,
            f"the cluster rejects its pods: {_refusal_text(deployment.creation_failure)}",
        )
    if len(copies) < deployment.replicas or not deployment.generation_observed:
        copies = [*copies, PodState(word.INIT, word.ROLLOUT_PENDING, "its pods are being created")]
    return _least_advanced(copies)


def _least_advanced(copies: Sequence[PodState]) -> PodState:
    return copies[0] if len(copies) == 1 else min(copies, key=_progress_key)


def _progress_key(copy: PodState) -> tuple[int, bool]:
    return _STATES_BY_PROGRESS.index(copy.state), copy.reason != word.GPU_UNHEALTHY


def _refusal_text(message: str) -> str:
    if "exceeded quota" in message:
        return "the namespace's quota is used up"
    if "violates PodSecurity" in message:
        return "it violates the namespace's Pod Security"
    return escape_unprintable(message, 160)


def _state_without_replicas(view: InstanceView) -> PodState:
    deployment = view.deployment
    reason = deployment.waits_reason
    if reason == word.STORAGE_UNPREPARED:
        return PodState(
            word.WAITING,
            reason,
            "; ".join(_describe_unprepared_storages(view)) or escape_unprintable(deployment.waits_for, 200),
        )
    if reason == word.NO_FREE_UNIT:
        return PodState(
            word.WAITING, reason, f"no unit of {escape_unprintable(deployment.gpu_spec, 32)} is free on {view.cluster}"
        )
    if reason == word.VERSION_REVOKED:
        return PodState(word.WAITING, reason, f"{escape_unprintable(deployment.waits_for, 100)}: choose another one")
    on_hold = escape_unprintable(deployment.waits_for, 250) if reason == word.ON_HOLD else ""
    ending = deployment.current_replicas > 0 or any(map(holds_unit, view.pods))
    message = "; ".join(text for text in (on_hold, "its pods are ending" if ending else "") if text)
    return PodState(word.STOPPED, word.TERMINATING if ending else reason or word.STOPPED_AS_DECLARED, message)


def _describe_unprepared_storages(view: InstanceView) -> list[str]:
    """Return a text for each storage that the instance waits for: the storage's name, and why it isn't ready."""
    return [
        f"storage {name}: {storage.message or 'its preparation has not succeeded'}"
        for name, storage in sorted(view.storages.items())
        if name in view.deployment.mounts and storage.prepare is not None and storage.state != word.STORAGE_READY
    ]


def _build_conditions(
    view: InstanceView, pods: Sequence[Pod], copies: Sequence[PodState], conditions: ConditionBuilder
) -> tuple[Condition, ...]:
    replicas = view.deployment.replicas
    conditions.add(word.ADMITTED, *_admitted_condition(view.deployment, view.cluster))
    conditions.add(word.STORAGES_PREPARED, *_prepared_condition(view))
    conditions.add(word.SYNCED, *view.synced_condition)
    if replicas == 0:
        return conditions.build()
    # `looking` is the creation time of the oldest pod without a node.
    looking = min([pod.created for pod in pods if not pod.node], default="")
    up = [(pod, copy) for pod, copy in zip(pods, copies, strict=True) if copy.state != word.FAILED]
    for kind, reason, times in (
        (word.SCHEDULED, word.ON_NODE, [pod.scheduled_at for pod in pods if pod.node]),
        (word.STARTED, word.CONTAINERS_STARTED, [pod.started_at for pod, copy in up if pod.started_at]),
        (word.AVAILABLE, word.PROBES_ANSWERED, [pod.ready_at for pod, copy in up if copy.state == word.RUNNING]),
    ):
        if len(times) >= replicas:
            conditions.add(kind, "True", reason, "", max(times))
        else:
            why = _least_advanced(copies).reason if copies else word.ROLLOUT_PENDING
            message = f"{len(times)} of {replicas} copies" if replicas > 1 else ""
            conditions.add(kind, "False", why, message, looking if kind == word.SCHEDULED else "")
    if view.routes:
        conditions.add(word.EXPOSED, *_exposed_condition(view.routes))
    return conditions.build()


def _admitted_condition(deployment: Deployment, cluster: str) -> ConditionValue:
    if deployment.units:
        return ConditionValue("True", word.UNITS_HELD, _format_units(deployment.units, deployment.gpu_spec))
    if deployment.waits_reason == word.NO_FREE_UNIT:
        return ConditionValue(
            "False", word.NO_FREE_UNIT, f"no unit of {escape_unprintable(deployment.gpu_spec, 32)} is free on {cluster}"
        )
    return ConditionValue("False", deployment.waits_reason or word.STOPPED_AS_DECLARED)


@lru_cache(maxsize=1024)
def _format_units(units: int, spec: str) -> str:
    return f"{units} unit{'' if units == 1 else 's'} of {escape_unprintable(spec, 32)}"


def _prepared_condition(view: InstanceView) -> ConditionValue:
    if view.deployment.waits_reason == word.STORAGE_UNPREPARED:
        return ConditionValue("False", word.STORAGE_UNPREPARED, "; ".join(_describe_unprepared_storages(view)))
    mounted = [view.storages[name] for name in view.deployment.mounts if name in view.storages]
    some = any(storage.prepare is not None for storage in mounted)
    return ConditionValue("True", word.ALL_PREPARED if some else word.NOTHING_TO_PREPARE, "")


def _exposed_condition(routes: Sequence[Route]) -> ConditionValue:
    if all(route.accepted for route in routes):
        return ConditionValue("True", word.ROUTES_ACCEPTED, "")
    if any(route.refused for route in routes):
        return ConditionValue("False", word.ROUTE_REFUSED, "the gateway rejected its route")
    return ConditionValue("False", word.ROUTE_PENDING, "no gateway has accepted its route yet")

"""A live instance → its state and conditions, and in its owner's words why it isn't running.

The state of an instance is that of its least advanced copy. Copies count only when they are of the newest rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from allotment import conditions as word
from allotment.observed.conditions import Conditions, Found
from allotment.observed.copies import Copy, InstanceView, copy_of
from allotment.observed.objects import Deployment, Pod, Route
from allotment.observed.status import Condition, Instance
from allotment.problems import printable

_WAY = (word.INIT, word.READY, word.RUNNING)
_OF_ENDED = (word.CONTAINER_ENDED, word.CRASH_LOOP, word.OUT_OF_MEMORY, word.CONFIG_FAILED, word.PROBE_FAILED)
_ORDER = (word.FAILED, word.WAITING, word.INIT, word.READY, word.RUNNING)


def instance(view: InstanceView, previous: Instance | None) -> Instance:
    """Return an instance's status; `previous` has the times of what hasn't changed since."""
    deployment = view.deployment
    pods = _of_rollout(view)
    copies = [copy_of(view, pod) for pod in pods]
    instance_state = _state(view, copies)
    urls = _urls(view) if view.routes else []
    same = previous is not None and previous.state == instance_state.state
    return Instance(
        deployment.instance,
        deployment.blob,
        instance_state.state,
        instance_state.reason,
        instance_state.message,
        since=previous.since
        if previous is not None and same
        else _reached(instance_state.state, pods, previous, view.now),
        gpu_spec=deployment.gpu_spec,
        units=deployment.units,
        replicas=deployment.replicas,
        ready_replicas=sum([copy.state == word.RUNNING for copy in copies]),
        nodes=tuple(sorted({pod.node for pod in pods} - {""})),
        pods=len(
            [
                pod
                for pod in view.pods
                if is_holding(pod) and not (pod.ending and deployment.replicas and not deployment.ending)
            ]
        ),
        running_pod=min([pod.name for pod in pods if pod.started_at], default=""),
        restarts=sum([pod.restarts for pod in pods]),
        start_time=max([pod.started_at for pod in pods], default=""),
        url=urls[0] if urls else "",
        links=tuple(urls[1:]),
        conditions=_conditions(view, pods, copies, Conditions(previous.conditions if previous else (), view.now)),
    )


def _urls(view: InstanceView) -> list[str]:
    """Return the URLs of an instance, its own first."""
    name = view.deployment.name
    return [
        route.url
        for route in sorted(view.routes, key=lambda candidate: (candidate.name != name, candidate.name))
        if route.url
    ]


def steps(previous: Instance | None, now: Instance) -> list[tuple[str, str]]:
    """Return the states that an instance went through to get where it is, each with its time, the last one included.

    Between two looks it may have gone through several; it gets to Running by Init and Ready only, and comes
    back to it by those that it had lost.
    """
    if now.state not in _WAY:
        return [(now.state, now.since)]
    was, end = previous.state if previous else "", _WAY.index(now.state)
    if was in _WAY and _WAY.index(was) > end:
        return [(now.state, now.since)]
    begun = _WAY.index(was) + 1 if was in _WAY else _kept_steps(previous, now)
    earliest = previous.since if previous else ""
    passed = []
    for state in _WAY[begun:end]:
        mark = word.SCHEDULED if state == word.INIT else word.STARTED
        since = next(
            (condition.last_transition_time for condition in now.conditions if condition.type == mark), now.since
        )
        passed.append((state, max(min(since, now.since), earliest)))
    return [*passed, (now.state, now.since)]


def _kept_steps(previous: Instance | None, now: Instance) -> int:
    """Return how many steps still hold of an instance that left the way: its pods have their nodes, and run as before.

    A condition keeps its time also when another pod takes over, so the nodes and the start are compared, too.
    """
    if previous is None or previous.reason in (word.EVICTED, word.ADMISSION_FAILED) or previous.nodes != now.nodes:
        return 0
    held = {
        (condition.type, condition.last_transition_time)
        for condition in previous.conditions
        if condition.status == "True"
    }
    holds = {condition.type for condition in now.conditions if (condition.type, condition.last_transition_time) in held}
    if word.SCHEDULED not in holds:
        return 0
    return 2 if word.STARTED in holds and previous.start_time == now.start_time else 1


def may_change(instance: Instance) -> bool:
    """Return whether a state may change by time alone: a pod looks for its place, or a container that ended runs again."""
    return instance.reason == word.SCHEDULING or (
        instance.reason in _OF_ENDED and instance.state == word.FAILED and instance.start_time != ""
    )


def _of_rollout(view: InstanceView) -> list[Pod]:
    """Return the pods of the Deployment's newest ReplicaSet that aren't on their way out. One that its node
    threw out stays as an object; it counts only as long as no other was made after it."""
    deployment = view.deployment
    current = [each.uid for each in view.rollout if each.revision == deployment.revision] if deployment.observed else []
    rollout_pods = [pod for pod in view.pods if pod.owner in current]
    pods = [pod for pod in rollout_pods if is_holding(pod) and not pod.ending]
    if len(pods) < len(rollout_pods) and (missing := deployment.replicas - len(pods)) > 0:
        last = max(pod.created for pod in rollout_pods)
        ended_pods = [pod for pod in rollout_pods if pod.created == last and not (is_holding(pod) or pod.ending)]
        pods += sorted(ended_pods, key=lambda pod: pod.name)[-missing:]
    return pods if len(pods) < 2 else sorted(pods, key=lambda pod: pod.name)


def is_holding(pod: Pod) -> bool:
    """Return whether a pod holds a unit, or is about to."""
    return pod.phase not in ("Succeeded", "Failed")


def orphaned(name: str, pods: Sequence[Pod], previous: Instance | None, now: str) -> Instance:
    """Return the status of an instance of which nothing but pods is left; their Deployment is gone."""
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


def _reached(state: str, pods: Sequence[Pod], previous: Instance | None, now: str) -> str:
    """Return when a state was reached, by the objects' own times where they say; no time goes back."""
    time = ""
    if previous is None or previous.state != word.RUNNING:
        if state == word.RUNNING:
            time = max([pod.ready_at for pod in pods], default="")
        elif state == word.READY:
            time = max([pod.started_at for pod in pods], default="")
    since = time if time and time < now else now
    return since if previous is None or previous.since < since else previous.since


def _state(view: InstanceView, copies: list[Copy]) -> Copy:
    deployment = view.deployment
    if deployment.ending:
        return Copy(word.STOPPED, word.TERMINATING, "it is being removed")
    if deployment.replicas == 0:
        return _without_replicas(view)
    if deployment.refused:
        return Copy(
            word.FAILED,
            word.CREATION_REFUSED,
            f"the cluster lets no pod of it be made: {_why_refused(deployment.refused)}",
        )
    if len(copies) < deployment.replicas or not deployment.observed:
        copies = [*copies, Copy(word.INIT, word.ROLLOUT_PENDING, "its pods are being made")]
    return _worst(copies)


def _worst(copies: Sequence[Copy]) -> Copy:
    return copies[0] if len(copies) == 1 else min(copies, key=_weight)


def _weight(copy: Copy) -> tuple[int, bool]:
    return _ORDER.index(copy.state), copy.reason != word.GPU_UNHEALTHY


def _why_refused(message: str) -> str:
    if "exceeded quota" in message:
        return "the namespace's quota is used up"
    if "violates PodSecurity" in message:
        return "it violates the namespace's Pod Security"
    return printable(message, 160)


def _without_replicas(view: InstanceView) -> Copy:
    deployment = view.deployment
    reason = deployment.waits_reason
    if reason == word.STORAGE_UNPREPARED:
        return Copy(word.WAITING, reason, "; ".join(_unprepared(view)) or printable(deployment.waits_for, 200))
    if reason == word.NO_FREE_UNIT:
        return Copy(word.WAITING, reason, f"no unit of {printable(deployment.gpu_spec, 32)} is free on {view.cluster}")
    if reason == word.VERSION_REVOKED:
        return Copy(word.WAITING, reason, f"{printable(deployment.waits_for, 100)}: choose another one")
    ending = deployment.there > 0 or any(map(is_holding, view.pods))
    message = "its pods are ending" if ending else ""
    return Copy(word.STOPPED, word.TERMINATING if ending else reason or word.STOPPED_AS_DECLARED, message)


def _unprepared(view: InstanceView) -> list[str]:
    """Return, for each storage that is waited for, what is the matter with it."""
    return [
        f"storage {name}: {storage.message or 'its preparation has not been seen to succeed'}"
        for name, storage in sorted(view.storages.items())
        if name in view.deployment.mounts and storage.prepare is not None and storage.state != word.AVAILABLE_STORAGE
    ]


def _conditions(
    view: InstanceView, pods: Sequence[Pod], copies: Sequence[Copy], conditions: Conditions
) -> tuple[Condition, ...]:
    wanted = view.deployment.replicas
    conditions.add(word.ADMITTED, *_admitted(view.deployment, view.cluster))
    conditions.add(word.STORAGES_PREPARED, *_prepared(view))
    conditions.add(word.SYNCED, *view.synced)
    if wanted == 0:
        return conditions.all()
    looking = min([pod.created for pod in pods if not pod.node], default="")  # for a node, since then
    up = [(pod, copy) for pod, copy in zip(pods, copies, strict=True) if copy.state != word.FAILED]
    for kind, reason, times in (
        (word.SCHEDULED, word.ON_NODE, [pod.scheduled_at for pod in pods if pod.node]),
        (word.STARTED, word.CONTAINERS_STARTED, [pod.started_at for pod, copy in up if pod.started_at]),
        (word.AVAILABLE, word.PROBES_ANSWERED, [pod.ready_at for pod, copy in up if copy.state == word.RUNNING]),
    ):
        if len(times) >= wanted:
            conditions.add(kind, "True", reason, "", max(times))
        else:
            why = _worst(copies).reason if copies else word.ROLLOUT_PENDING
            message = f"{len(times)} of {wanted} copies" if wanted > 1 else ""
            conditions.add(kind, "False", why, message, looking if kind == word.SCHEDULED else "")
    if view.routes:
        conditions.add(word.EXPOSED, *_exposed(view.routes))
    return conditions.all()


def _admitted(deployment: Deployment, cluster: str) -> Found:
    if deployment.units:
        return Found("True", word.UNITS_HELD, _units(deployment.units, deployment.gpu_spec))
    if deployment.waits_reason == word.NO_FREE_UNIT:
        return Found(
            "False", word.NO_FREE_UNIT, f"no unit of {printable(deployment.gpu_spec, 32)} is free on {cluster}"
        )
    return Found("False", deployment.waits_reason or word.STOPPED_AS_DECLARED)


@lru_cache(maxsize=1024)
def _units(units: int, spec: str) -> str:
    return f"{units} unit{'' if units == 1 else 's'} of {printable(spec, 32)}"


def _prepared(view: InstanceView) -> Found:
    if view.deployment.waits_reason == word.STORAGE_UNPREPARED:
        return Found("False", word.STORAGE_UNPREPARED, "; ".join(_unprepared(view)))
    mounted = [view.storages[name] for name in view.deployment.mounts if name in view.storages]
    some = any(storage.prepare is not None for storage in mounted)
    return Found("True", word.ALL_PREPARED if some else word.NOTHING_TO_PREPARE, "")


def _exposed(routes: Sequence[Route]) -> Found:
    if all(route.accepted for route in routes):
        return Found("True", word.ROUTES_ACCEPTED, "")
    if any(route.refused for route in routes):
        return Found("False", word.ROUTE_REFUSED, "the gateway refused its route")
    return Found("False", word.ROUTE_PENDING, "no gateway has accepted its route yet")

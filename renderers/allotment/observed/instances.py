"""A live instance → its state and conditions, and in its owner's words why it isn't running.

The state of an instance is that of its least advanced copy. Copies count only when they are of the newest rollout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from allotment import conditions as word
from allotment.manifests.tenant.gpu_instance import PROBE_PERIOD
from allotment.observed.conditions import Conditions, Found, seconds_between
from allotment.observed.objects import Deployment, Pod, ReplicaSet, Route
from allotment.observed.shapes.pod import NEVER_BEGAN
from allotment.observed.status import Condition, Instance, Storage
from allotment.problems import printable

IMAGE_REASONS = frozenset(
    "ErrImagePull ImagePullBackOff InvalidImageName ErrImageNeverPull ImageInspectError RegistryUnavailable SignatureValidationFailed".split()
)
CONFIG_REASONS = frozenset(
    "CreateContainerConfigError CreateContainerError RunContainerError PreCreateHookError PreStartHookError".split()
)
SCHEDULING_SECONDS = 10  # so long a pod may look for its place before that is worth a word
SETTLED_SECONDS = 10  # so long a container must run after it ended that soon, or else it isn't up
GRACE_SECONDS = 30  # of a pod
_ASKED_TO_END = (0, 137, 143)  # how a container ends that the kubelet ends
_LOST = "doesn't answer, and nobody knows whether it runs there; if that stays so it starts on another within 6 minutes"
_ANOTHER_GPU = "stop it, and start it again on another"
_LACKED = {  # as the kubelet says it of a pod that it ends, and of one that it doesn't take
    "memory": ("low on resource: memory", "MemoryPressure"),
    "disk": ("low on resource: ephemeral-storage", "low on resource: inodes", "DiskPressure"),
    "processes": ("low on resource: pids", "PIDPressure"),
}
_ABOUT_A_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")  # what stands behind the last one is why
_MISSING = re.compile(r'\b(secret|configmap) "([a-z0-9.-]{1,253})" not found')
_WAY = (word.INIT, word.READY, word.RUNNING)
_ORDER = (word.FAILED, word.WAITING, word.INIT, word.READY, word.RUNNING)


class InstanceView(NamedTuple):
    """What is known of an instance: its objects, the storages it may mount, its cluster, and the time.

    `rollout` are the ReplicaSets of its Deployment.
    """

    cluster: str
    deployment: Deployment
    rollout: Sequence[ReplicaSet]
    pods: Sequence[Pod]
    routes: Sequence[Route]
    storages: dict[str, Storage]
    synced: Found
    now: str


class Copy(NamedTuple):
    """How far one copy has come."""

    state: str
    reason: str
    message: str


def instance(view: InstanceView, before: Instance | None) -> Instance:
    """Return an instance's status; `before` has the times of what hasn't changed since."""
    one = view.deployment
    pods = _of_rollout(view)
    copies = [copy_of(view, pod) for pod in pods]
    found = _state(view, copies)
    urls = _urls(view) if view.routes else []
    same = before is not None and before.state == found.state
    return Instance(
        one.instance,
        one.blob,
        found.state,
        found.reason,
        found.message,
        since=before.since if before is not None and same else _reached(found.state, pods, before, view.now),
        gpu_spec=one.gpu_spec,
        units=one.units,
        replicas=one.replicas,
        ready_replicas=sum([copy.state == word.RUNNING for copy in copies]),
        nodes=tuple(sorted({pod.node for pod in pods} - {""})),
        pods=len(
            [pod for pod in view.pods if is_holding(pod) and not (pod.ending and one.replicas and not one.ending)]
        ),
        restarts=sum([pod.restarts for pod in pods]),
        start_time=max([pod.started_at for pod in pods], default=""),
        url=urls[0] if urls else "",
        links=tuple(urls[1:]),
        conditions=_conditions(view, pods, copies, Conditions(before.conditions if before else (), view.now)),
    )


def _urls(view: InstanceView) -> list[str]:
    """Return the URLs of an instance, its own first."""
    name = view.deployment.name
    return [route.url for route in sorted(view.routes, key=lambda one: (one.name != name, one.name)) if route.url]


def steps(before: Instance | None, now: Instance) -> list[tuple[str, str]]:
    """Return the states that an instance went through to get where it is, each with its time, the last one included.

    Between two looks it may have gone through several; it gets to Running by Init and Ready only.
    """
    if now.state not in _WAY:
        return [(now.state, now.since)]
    was, end = before.state if before else "", _WAY.index(now.state)
    if was in _WAY and _WAY.index(was) > end:
        return [(now.state, now.since)]
    begun = _WAY.index(was) + 1 if was in _WAY else 0
    earliest = before.since if before else ""
    passed = []
    for state in _WAY[begun:end]:
        mark = word.SCHEDULED if state == word.INIT else word.STARTED
        since = next((one.last_transition_time for one in now.conditions if one.type == mark), now.since)
        passed.append((state, max(min(since, now.since), earliest)))
    return [*passed, (now.state, now.since)]


def may_change(one: Instance) -> bool:
    """Return whether a state may change by time alone: a pod looks for its place, or a container that ended runs again."""
    ended = one.reason in (word.CONTAINER_ENDED, word.CRASH_LOOP, word.OUT_OF_MEMORY)
    return one.reason == word.SCHEDULING or (ended and one.start_time != "")


def _of_rollout(view: InstanceView) -> list[Pod]:
    """Return the pods of the Deployment's newest ReplicaSet that aren't on their way out. One that its node threw out stays as an
    object; it counts, the last made first, only as long as no other has taken its place."""
    one = view.deployment
    current = [each.uid for each in view.rollout if each.revision == one.revision] if one.observed else []
    made = [pod for pod in view.pods if pod.owner in current and not pod.ending]
    pods = [pod for pod in made if is_holding(pod)]
    if len(pods) < len(made) and (missing := one.replicas - len(pods)) > 0:
        gone = sorted((pod for pod in made if not is_holding(pod)), key=lambda pod: (pod.created, pod.name))
        pods += gone[-missing:]
    return pods if len(pods) < 2 else sorted(pods, key=lambda pod: pod.name)


def is_holding(pod: Pod) -> bool:
    """Return whether a pod holds a unit, or is about to."""
    return pod.phase not in ("Succeeded", "Failed")


def orphaned(name: str, pods: Sequence[Pod], before: Instance | None, now: str) -> Instance:
    """Return the status of an instance of which nothing but pods is left; their Deployment is gone."""
    same = before is not None and before.state == word.STOPPED
    return Instance(
        name,
        before.observed_blob if before else "",
        word.STOPPED,
        word.TERMINATING,
        "its pods are ending",
        since=before.since if before is not None and same else now,
        gpu_spec=before.gpu_spec if before else "",
        nodes=tuple(sorted({pod.node for pod in pods} - {""})),
        pods=len(pods),
    )


def _reached(state: str, pods: Sequence[Pod], before: Instance | None, now: str) -> str:
    """Return when a state was reached, by the objects' own times where they say; no time goes back."""
    time = ""
    if before is None or before.state != word.RUNNING:
        if state == word.RUNNING:
            time = max([pod.ready_at for pod in pods], default="")
        elif state == word.READY:
            time = max([pod.started_at for pod in pods], default="")
    since = time if time and time < now else now
    return since if before is None or before.since < since else before.since


def copy_of(view: InstanceView, pod: Pod) -> Copy:
    """Return how far a pod has come."""
    found = _found(view, pod)
    if not pod.unhealthy:
        return found
    if found.state == word.RUNNING:
        return Copy(found.state, word.GPU_UNHEALTHY, f"its GPU went bad, and its program may fail: {_ANOTHER_GPU}")
    return found._replace(message=f"{found.message}; its GPU went bad: {_ANOTHER_GPU}")


def _found(view: InstanceView, pod: Pod) -> Copy:
    if pod.phase == "Failed":
        found = _thrown_out(pod)
        return found._replace(message=f"{found.message}; it is started anew")
    if pod.lost:
        return Copy(word.WAITING, word.NODE_LOST, f"its node {printable(pod.node, 63)} {_LOST}")
    if pod.waiting in IMAGE_REASONS:
        return Copy(word.FAILED, word.IMAGE_PULL_FAILED, _image_words(view.deployment.image, pod))
    if pod.waiting in CONFIG_REASONS or pod.ended == NEVER_BEGAN:
        return Copy(word.FAILED, word.CONFIG_FAILED, f"the container can't be made: {_config_words(pod)}")
    if pod.exit_code is not None and not _is_up_again(view, pod):
        return _ended(pod)
    if not pod.node:
        return _in_place_of(view, pod, _unscheduled(view, pod))
    if not pod.started_at:
        return Copy(
            word.INIT, word.STARTING, f"its image is pulled and its volumes are mounted on {printable(pod.node, 63)}"
        )
    if pod.ready:
        return Copy(word.RUNNING, word.PROBES_ANSWERED, "")
    if pod.started and not "" < pod.unready_at <= pod.started_at:
        return Copy(word.READY, word.PROBE_FAILED, "the container runs, but does not answer its probe now")
    return Copy(word.READY, word.PROBE_PENDING, "the container has started and hasn't answered its probe yet")


def _is_up_again(view: InstanceView, pod: Pod) -> bool:
    """Return whether a container that ended runs again for good: one that always ends at once isn't up between."""
    if not pod.started_at or (_never_answered(pod) and not pod.started):
        return False
    return pod.ran >= SETTLED_SECONDS or seconds_between(pod.started_at, view.now) >= SETTLED_SECONDS


def _never_answered(pod: Pod) -> bool:
    """Return whether a container's last run was ended by the kubelet because it didn't answer its probe in time.

    Pods don't say so: it is known by when it was ended, and how. Probes begin within a period of the start, and who is asked
    to end gets half a minute.
    """
    if not pod.start_limit or pod.exit_code not in _ASKED_TO_END or pod.ended != "Error":
        return False
    return -PROBE_PERIOD <= pod.ran - pod.start_limit <= PROBE_PERIOD + GRACE_SECONDS


def _thrown_out(pod: Pod) -> Copy:
    if pod.reason == "Evicted":
        lacked = next((what for what, said in _LACKED.items() if any(one in pod.words for one in said)), "")
        return Copy(
            word.FAILED, word.EVICTED, f"its node ran out of {lacked} and ended it" if lacked else "its node ended it"
        )
    if pod.reason == "Terminated":
        return Copy(word.FAILED, word.EVICTED, "its node was shut down")
    why = printable(pod.reason or "no reason given", 40)
    return Copy(word.FAILED, word.ADMISSION_FAILED, f"its node didn't take it: {why}")


def _image_words(image: str, pod: Pod) -> str:
    said, image = _ABOUT_A_DIGEST.split(pod.waiting_words.lower())[-1], printable(image, 160)
    if pod.waiting == "InvalidImageName":
        return f"image name is invalid: {image}"
    if "not found" in said or "manifest unknown" in said:
        return f"image not found: {image}"
    if any(one in said for one in ("unauthorized", "denied", "forbidden")):
        return f"the registry gives no access to image {image}"
    if "no space left" in said:
        return f"the node has no room for image {image}"
    return f"image can't be pulled: {image}"


def _config_words(pod: Pod) -> str:
    """Return in fixed words why a container can't be made, and else the kubelet's word for it."""
    said = pod.waiting_words
    if missing := _MISSING.search(said):
        return f"it has no {'Secret' if missing[1] == 'secret' else 'ConfigMap'} {missing[2]}"
    if "no such file or directory" in said or "executable file not found" in said:
        return "its command isn't in the image"
    if "permission denied" in said:
        return "its command is no program that may run"
    return printable(pod.waiting if pod.waiting in CONFIG_REASONS else pod.ended, 40)


def _ended(pod: Pod) -> Copy:
    times = f"{pod.restarts} restart{'' if pod.restarts == 1 else 's'}"
    if pod.ended == "OOMKilled":
        return Copy(word.FAILED, word.OUT_OF_MEMORY, f"the container used up its unit's memory and was ended ({times})")
    if _never_answered(pod):
        why = "the container didn't answer its probe within startTimeout and was ended"
        return Copy(word.FAILED, word.PROBE_FAILED, f"{why} ({times})")
    words = f"the container ended with exit code {pod.exit_code} ({times})"
    return Copy(word.FAILED, word.CRASH_LOOP if pod.restarts else word.CONTAINER_ENDED, words)


def _unscheduled(view: InstanceView, pod: Pod) -> Copy:
    spec = printable(view.deployment.gpu_spec, 32)
    if pod.unschedulable and not pod.nominated and seconds_between(pod.created, view.now) > SCHEDULING_SECONDS:
        return Copy(word.WAITING, word.NO_FREE_UNIT, f"no unit of {spec} is free on {view.cluster}")
    return Copy(word.INIT, word.SCHEDULING, f"a unit of {spec} is being handed over")


def _in_place_of(view: InstanceView, pod: Pod, found: Copy) -> Copy:
    """Return the same with why the pod before it is no more, where its node threw that out."""
    before = [
        one for one in view.pods if one.owner == pod.owner and one.phase == "Failed" and one.created <= pod.created
    ]
    if not before:
        return found
    last = max(before, key=lambda one: (one.created, one.name))
    return found._replace(message=f"{found.message}; {_thrown_out(last).message}")


def _state(view: InstanceView, copies: list[Copy]) -> Copy:
    one = view.deployment
    if one.ending:
        return Copy(word.STOPPED, word.TERMINATING, "it is being removed")
    if one.replicas == 0:
        return _without_replicas(view)
    if one.refused:
        return Copy(
            word.FAILED, word.CREATION_REFUSED, f"the cluster lets no pod of it be made: {_why_refused(one.refused)}"
        )
    if len(copies) < one.replicas or not one.observed:
        copies = [*copies, Copy(word.INIT, word.ROLLOUT_PENDING, "its pods are being made")]
    return _worst(copies)


def _worst(copies: Sequence[Copy]) -> Copy:
    return copies[0] if len(copies) == 1 else min(copies, key=_weight)


def _weight(copy: Copy) -> tuple[int, bool]:
    return _ORDER.index(copy.state), copy.reason != word.GPU_UNHEALTHY


def _why_refused(said: str) -> str:
    if "exceeded quota" in said:
        return "the namespace's quota is used up"
    if "violates PodSecurity" in said:
        return "it violates the namespace's Pod Security"
    return printable(said, 160)


def _without_replicas(view: InstanceView) -> Copy:
    one = view.deployment
    reason = one.waits_reason
    if reason == word.STORAGE_UNPREPARED:
        return Copy(word.WAITING, reason, "; ".join(_unprepared(view)) or printable(one.waits_for, 200))
    if reason == word.NO_FREE_UNIT:
        return Copy(word.WAITING, reason, f"no unit of {printable(one.gpu_spec, 32)} is free on {view.cluster}")
    if reason == word.VERSION_REVOKED:
        return Copy(word.WAITING, reason, f"{printable(one.waits_for, 100)}: choose another one")
    ending = one.there > 0 or any(map(is_holding, view.pods))
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
    view: InstanceView, pods: Sequence[Pod], copies: Sequence[Copy], found: Conditions
) -> tuple[Condition, ...]:
    wanted = view.deployment.replicas
    found.add(word.ADMITTED, *_admitted(view.deployment, view.cluster))
    found.add(word.STORAGES_PREPARED, *_prepared(view))
    found.add(word.SYNCED, *view.synced)
    if wanted == 0:
        return found.all()
    up = [(pod, copy) for pod, copy in zip(pods, copies, strict=True) if copy.state != word.FAILED]
    for kind, reason, times in (
        (word.SCHEDULED, word.ON_NODE, [pod.scheduled_at for pod in pods if pod.node]),
        (word.STARTED, word.CONTAINERS_STARTED, [pod.started_at for pod, copy in up if pod.started_at]),
        (word.AVAILABLE, word.PROBES_ANSWERED, [pod.ready_at for pod, copy in up if copy.state == word.RUNNING]),
    ):
        if len(times) >= wanted:
            found.add(kind, "True", reason, "", max(times))
        else:
            why = _worst(copies).reason if copies else word.ROLLOUT_PENDING
            found.add(kind, "False", why, f"{len(times)} of {wanted} copies" if wanted > 1 else "")
    if view.routes:
        found.add(word.EXPOSED, *_exposed(view.routes))
    return found.all()


def _admitted(one: Deployment, cluster: str) -> Found:
    if one.units:
        return Found("True", word.UNITS_HELD, _units(one.units, one.gpu_spec))
    if one.waits_reason == word.NO_FREE_UNIT:
        return Found("False", word.NO_FREE_UNIT, f"no unit of {printable(one.gpu_spec, 32)} is free on {cluster}")
    return Found("False", one.waits_reason or word.STOPPED_AS_DECLARED)


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

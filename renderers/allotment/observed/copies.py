"""A live pod of an instance → how far it has come, and in its owner's words why it isn't running."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.manifests.tenant.gpu_instance import PROBE_PERIOD
from allotment.observed.conditions import Found, seconds_between
from allotment.observed.objects import NEVER_BEGAN, Deployment, Pod, ReplicaSet, Route
from allotment.observed.status import Storage
from allotment.problems import printable

IMAGE_REASONS = frozenset(
    "ErrImagePull ImagePullBackOff InvalidImageName ErrImageNeverPull ImageInspectError RegistryUnavailable SignatureValidationFailed".split()
)
CONFIG_REASONS = frozenset(
    "CreateContainerConfigError CreateContainerError RunContainerError PreCreateHookError PreStartHookError".split()
)
SCHEDULING_SECONDS = 10  # so long a pod may look for its place before that is worth a word
SETTLED_SECONDS = 10  # a container that ended within this time isn't up again until it has run for this long
DEFAULT_GRACE_SECONDS = 30  # the API's default: what we render says nothing else of an instance
SUCCESSOR_SECONDS = 120  # so long after a node began to end a pod another is made for it, at the latest
_ASKED_TO_END = (0, 137, 143)  # how a container ends that the kubelet ends
# A pod tolerates that for 5 minutes; volumes that one node has at a time are taken from the node by force after 6 more.
_LOST = (
    "doesn't answer, and nobody knows whether it runs there; if that stays so it starts on another in 6 minutes, "
    "or 12 where it mounts a storage that one node has at a time"
)
_ANOTHER_GPU = "stop it, and start it again on another"
_LACKED = {  # as the kubelet says it of a pod that it ends, and of one that it doesn't take
    "memory": ("low on resource: memory", "MemoryPressure"),
    "disk": ("low on resource: ephemeral-storage", "low on resource: inodes", "DiskPressure"),
    "processes": ("low on resource: pids", "PIDPressure"),
}
_ABOUT_A_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")  # what stands behind the last one is why
# As runc says it of the command itself. Hooks, mounts and drivers of the node fail with the same last words.
_NO_COMMAND = re.compile(
    r'(?:unable to start container process|error during container init): exec: "[^"]*": '
    r"(stat [^:]*: no such file|executable file not found|permission denied)"
)
# runc and crun say it alike where the kernel refuses to map a volume's owners: "doesn't support idmap mounts on this kernel".
_NO_ID_MAPPING = re.compile(r"support idmap mounts|MOUNT_ATTR_IDMAP")
_MISSING = re.compile(r'\b(secret|configmap) "([a-z0-9.-]{1,253})" not found')


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


def copy_of(view: InstanceView, pod: Pod) -> Copy:
    """Return how far a pod has come."""
    pod_state = _found(view, pod)
    if not pod.unhealthy:
        return pod_state
    if pod_state.state == word.RUNNING:
        return Copy(pod_state.state, word.GPU_UNHEALTHY, f"its GPU went bad, and its program may fail: {_ANOTHER_GPU}")
    return pod_state._replace(message=f"{pod_state.message}; its GPU went bad: {_ANOTHER_GPU}")


def _found(view: InstanceView, pod: Pod) -> Copy:
    if pod.phase == "Failed":
        pod_state = _thrown_out(pod)
        return pod_state._replace(message=f"{pod_state.message}; it is started anew")
    if pod.lost:
        return Copy(word.WAITING, word.NODE_LOST, f"its node {printable(pod.node, 63)} {_LOST}")
    if pod.waiting in IMAGE_REASONS:
        return Copy(word.FAILED, word.IMAGE_PULL_FAILED, _image_words(view.deployment.image, pod))
    if pod.waiting in CONFIG_REASONS or (pod.ended == NEVER_BEGAN and not pod.started_at):
        return _not_made(pod)
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
    to end gets half a minute. What ended at once ended by itself.
    """
    if not pod.start_limit or pod.exit_code not in _ASKED_TO_END or pod.ended not in ("Error", "Completed"):
        return False
    return max(1, pod.start_limit - PROBE_PERIOD) <= pod.ran <= pod.start_limit + PROBE_PERIOD + DEFAULT_GRACE_SECONDS


def _thrown_out(pod: Pod) -> Copy:
    if pod.reason == "Evicted":
        lacked = next(
            (shortage for shortage, phrases in _LACKED.items() if any(phrase in pod.words for phrase in phrases)), ""
        )
        return Copy(
            word.FAILED, word.EVICTED, f"its node ran out of {lacked} and ended it" if lacked else "its node ended it"
        )
    if pod.reason == "Terminated":
        return Copy(word.FAILED, word.EVICTED, "its node was shut down")
    if pod.reason == "Preempting":
        return Copy(word.FAILED, word.EVICTED, "it was preempted: its node needed room for a critical pod")
    why = printable(pod.reason or "no reason given", 40)
    return Copy(word.FAILED, word.ADMISSION_FAILED, f"its node didn't take it: {why}")


def _image_words(image: str, pod: Pod) -> str:
    error_text, image = _ABOUT_A_DIGEST.split(pod.waiting_words.lower())[-1], printable(image, 160)
    if pod.waiting == "InvalidImageName":
        return f"image name is invalid: {image}"
    if "not found" in error_text or "manifest unknown" in error_text:
        return f"image not found: {image}"
    if any(phrase in error_text for phrase in ("unauthorized", "denied", "forbidden")):
        return f"the registry gives no access to image {image}"
    if "no space left" in error_text:
        return f"the node has no room for image {image}"
    return f"image can't be pulled: {image}"


def _not_made(pod: Pod) -> Copy:
    return Copy(word.FAILED, word.CONFIG_FAILED, f"the container can't be made: {_config_words(pod)}")


def _config_words(pod: Pod) -> str:
    """Return in fixed words why a container can't be made, and else the kubelet's word for it."""
    error_text = pod.waiting_words
    if missing := _MISSING.search(error_text):
        return f"it has no {'Secret' if missing[1] == 'secret' else 'ConfigMap'} {missing[2]}"
    if refused := _NO_COMMAND.search(error_text):
        denied = refused[1] == "permission denied"
        return "its command is no program that may run" if denied else "its command isn't in the image"
    if _NO_ID_MAPPING.search(error_text):
        return "the file system of a storage that it mounts doesn't work in user namespaces; tell the platform team"
    return printable(pod.waiting if pod.waiting in CONFIG_REASONS else pod.ended, 40)


def _ended(pod: Pod) -> Copy:
    if pod.ended == NEVER_BEGAN:
        return _not_made(pod)
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
    is_new = pod.created != "" and seconds_between(pod.created, view.now) <= SCHEDULING_SECONDS
    if pod.unschedulable and not pod.nominated and not is_new:
        return Copy(word.WAITING, word.NO_FREE_UNIT, f"no unit of {spec} is free on {view.cluster}")
    return Copy(word.INIT, word.SCHEDULING, f"a unit of {spec} is being handed over")


def _in_place_of(view: InstanceView, pod: Pod, pod_state: Copy) -> Copy:
    """Return the same with why the pod before it is no more, where its node threw that out just before this one was made."""
    failed_pods = [
        candidate
        for candidate in view.pods
        if candidate.owner == pod.owner
        and candidate.phase == "Failed"
        and _made_for(pod, candidate.ended_at or candidate.scheduled_at)
    ]
    if not failed_pods:
        return pod_state
    last = max(failed_pods, key=lambda candidate: (candidate.created, candidate.name))
    return pod_state._replace(message=f"{pod_state.message}; {_thrown_out(last).message}")


def _made_for(pod: Pod, ended: str) -> bool:
    """Return whether a pod can have been made because another ended then. One that its node never took has no such time,
    but it was refused as soon as it was scheduled."""
    return "" not in (ended, pod.created) and 0 <= seconds_between(ended, pod.created) <= SUCCESSOR_SECONDS

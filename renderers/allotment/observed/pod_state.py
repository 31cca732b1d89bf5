"""Derives the state of an instance's pod, and the reason why it isn't running."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.manifests.names import SECRET_SUFFIX
from allotment.manifests.tenant.gpu_instance import PROBE_PERIOD
from allotment.observed.conditions import ConditionValue, seconds_between
from allotment.observed.objects import START_ERROR, Deployment, Pod, ReplicaSet, Route
from allotment.observed.status import Storage
from allotment.problems import escape_unprintable

IMAGE_REASONS = frozenset(
    "ErrImagePull ImagePullBackOff InvalidImageName ErrImageNeverPull ImageInspectError RegistryUnavailable SignatureValidationFailed".split()
)
CONFIG_REASONS = frozenset(
    "CreateContainerConfigError CreateContainerError RunContainerError PreCreateHookError PreStartHookError".split()
)
SCHEDULING_SECONDS = 10  # how long scheduling may take before it is reported
STABLE_SECONDS = 10  # a container that ended is stable again if its last or its current run takes at least this long
DEFAULT_GRACE_SECONDS = 30  # the default of terminationGracePeriodSeconds, which rendered instances don't set
REPLACEMENT_SECONDS = 120  # the longest time from the start of an eviction to the creation of the replacement pod
_KILLED_EXIT_CODES = (0, 137, 143)  # exit codes of a container that the kubelet kills
# A pod tolerates a lost node for 5 minutes. ReadWriteOnce volumes are detached by force after 6 more minutes.
_NODE_LOST_TEXT = (
    "doesn't respond, so the state of its pod is unknown; the pod starts on another node after 6 minutes, or "
    "after 12 if it mounts a ReadWriteOnce storage"
)
_REPLACE_GPU_ADVICE = "stop it and start it again to get another GPU"
_EVICTION_TEXTS = {  # phrases in the kubelet's messages about evicted and rejected pods
    "its files outside of volumes exceeded their limit, so its node evicted it: write them to /scratch or to a storage": (
        "local ephemeral storage limit",
        "ephemeral local storage usage exceeds",
    ),
    "its node ran out of memory and evicted it": ("low on resource: memory", "MemoryPressure"),
    "its node ran out of disk and evicted it": (
        "low on resource: ephemeral-storage",
        "low on resource: inodes",
        "DiskPressure",
    ),
    "its node ran out of processes and evicted it": ("low on resource: pids", "PIDPressure"),
}
_NOT_FOUND_PHRASES = ("not found", "manifest unknown")
_DENIED_PHRASES = ("unauthorized", "denied", "forbidden", "no basic auth credentials", "authentication required")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")  # in an image error, the cause follows the last digest
# runc's message about the container's command. Failures of hooks, mounts and node drivers end in the same words, so the
# pattern includes the beginning of the message.
_COMMAND_FAILURE = re.compile(
    r'(?:unable to start container process|error during container init): exec: "[^"]*": '
    r"(stat [^:]*: no such file|executable file not found|permission denied)"
)
# runc and crun report that the kernel can't map a volume's owners: "doesn't support idmap mounts on this kernel".
_NO_ID_MAPPING = re.compile(r"support idmap mounts|MOUNT_ATTR_IDMAP")
_MISSING_REFERENCE = re.compile(r'\b(secret|configmap) "([a-z0-9.-]{1,253})" not found')
_MISSING_KEY = re.compile(r"couldn't find key ([-._a-zA-Z0-9]{1,253}) in Secret [a-z0-9-]{1,63}/([a-z0-9.-]{1,253})")


class InstanceView(NamedTuple):
    """The known facts of an instance: its objects, the storages of its tenant, its cluster, and the time.

    `replica_sets` are the ReplicaSets of the instance's Deployment.
    """

    cluster: str
    deployment: Deployment
    replica_sets: Sequence[ReplicaSet]
    pods: Sequence[Pod]
    routes: Sequence[Route]
    storages: dict[str, Storage]
    synced_condition: ConditionValue
    now: str


class PodState(NamedTuple):
    """The state of one copy (the pod of one replica), and the reason."""

    state: str
    reason: str
    message: str


def derive_pod_state(view: InstanceView, pod: Pod) -> PodState:
    """Return the state of a pod."""
    pod_state = _classify_pod(view, pod)
    if not pod.has_unhealthy_device:
        return pod_state
    if pod_state.state == word.RUNNING:
        return PodState(
            pod_state.state,
            word.GPU_UNHEALTHY,
            f"its GPU is unhealthy, and its program may fail: {_REPLACE_GPU_ADVICE}",
        )
    return pod_state._replace(message=f"{pod_state.message}; its GPU is unhealthy: {_REPLACE_GPU_ADVICE}")


def _classify_pod(view: InstanceView, pod: Pod) -> PodState:
    if pod.phase == "Failed":
        return _replaced_state(pod)
    if pod.node_lost:
        return PodState(word.WAITING, word.NODE_LOST, f"its node {escape_unprintable(pod.node, 63)} {_NODE_LOST_TEXT}")
    if pod.waiting_reason in IMAGE_REASONS:
        return PodState(word.FAILED, image_pull_reason(pod), _image_pull_message(view.deployment.image, pod))
    if pod.waiting_reason in CONFIG_REASONS or (pod.terminated_reason == START_ERROR and not pod.started_at):
        return _create_failed_state(pod)
    if pod.exit_code is not None and not _has_recovered(view, pod):
        return _terminated_state(pod)
    if not pod.started_at:
        return _unstarted_state(view, pod)
    if pod.ready:
        return PodState(word.RUNNING, word.PROBES_ANSWERED, "")
    if pod.started and not "" < pod.unready_at <= pod.started_at:
        return PodState(word.READY, word.PROBE_FAILED, "the container runs, but its probe fails")
    return PodState(word.READY, word.PROBE_PENDING, "the container has started, and its probe has not succeeded yet")


def _has_recovered(view: InstanceView, pod: Pod) -> bool:
    """Return whether a container that ended is stable again.

    A container is stable if its last run or its current run is long enough. If the kubelet killed the last run because
    of the startup probe, the container must also have answered this probe.
    """
    if not pod.started_at or (_was_killed_by_probe(pod) and not pod.started):
        return False
    return pod.run_seconds >= STABLE_SECONDS or seconds_between(pod.started_at, view.now) >= STABLE_SECONDS


def _was_killed_by_probe(pod: Pod) -> bool:
    """Return whether the kubelet killed a container because the container didn't answer its startup probe in time.

    The status of a pod doesn't contain the cause of an end, so the function infers the cause from the exit code and the
    duration of the last run. The kubelet begins to probe within one probe period, and gives a container half a minute
    to end. A run that was much shorter or much longer than the time for the startup probe ended for another reason.
    """
    if (
        not pod.startup_seconds
        or pod.exit_code not in _KILLED_EXIT_CODES
        or pod.terminated_reason not in ("Error", "Completed")
    ):
        return False
    return (
        max(1, pod.startup_seconds - PROBE_PERIOD)
        <= pod.run_seconds
        <= pod.startup_seconds + PROBE_PERIOD + DEFAULT_GRACE_SECONDS
    )


def _evicted_state(pod: Pod) -> PodState:
    if pod.reason == "Evicted":
        texts = (text for text, phrases in _EVICTION_TEXTS.items() if any(phrase in pod.message for phrase in phrases))
        return PodState(word.FAILED, word.EVICTED, next(texts, "its node evicted it"))
    if pod.reason == "Terminated":
        return PodState(word.FAILED, word.EVICTED, "its node was shut down")
    if pod.reason == "Preempting":
        return PodState(word.FAILED, word.EVICTED, "it was preempted: its node needed room for a critical pod")
    why = escape_unprintable(pod.reason or "no reason given", 40)
    return PodState(word.FAILED, word.ADMISSION_FAILED, f"its node rejected its pod: {why}")


def image_pull_reason(pod: Pod) -> str:
    """Return the reason why an image can't be pulled: its registry denies access, or there is another cause."""
    return word.IMAGE_PULL_UNAUTHORIZED if _is_pull_denied(pod) else word.IMAGE_PULL_FAILED


def _is_pull_denied(pod: Pod) -> bool:
    """Return whether a registry demands a credential or rejects it."""
    error_text = _image_error(pod)
    return (
        pod.waiting_reason != "InvalidImageName"
        and not any(phrase in error_text for phrase in _NOT_FOUND_PHRASES)
        and any(phrase in error_text for phrase in _DENIED_PHRASES)
    )


def _image_error(pod: Pod) -> str:
    """Return the cause in the kubelet's message about an image, without the names that precede it."""
    return _DIGEST.split(pod.waiting_message.lower())[-1]


def _image_pull_message(image: str, pod: Pod) -> str:
    error_text, image = _image_error(pod), escape_unprintable(image, 160)
    if pod.waiting_reason == "InvalidImageName":
        return f"image name is invalid: {image}"
    if any(phrase in error_text for phrase in _NOT_FOUND_PHRASES):
        return f"image not found: {image}"
    if _is_pull_denied(pod):
        return f"the registry denies access to image {image}"
    if "no space left" in error_text:
        return f"the node has no disk space for image {image}"
    return f"image can't be pulled: {image}"


def _create_failed_state(pod: Pod) -> PodState:
    if secret_message := _secret_not_ready_message(pod.waiting_message):
        return PodState(word.FAILED, word.SECRET_NOT_READY, secret_message)
    return PodState(word.FAILED, word.CONFIG_FAILED, f"the container can't be created: {_create_failed_message(pod)}")


def _secret_not_ready_message(error_text: str) -> str:
    """Return which part of a SecretReference the cluster doesn't have yet; an empty text if the error is another."""
    if (missing := _MISSING_REFERENCE.search(error_text)) and missing[1] == "secret":
        secret, key_text = missing[2], ""
    elif missing := _MISSING_KEY.search(error_text):
        secret, key_text = missing[2], f" for the key {missing[1]}"
    else:
        return ""
    if not secret.endswith(SECRET_SUFFIX):
        return ""
    return f"the SecretReference {secret.removesuffix(SECRET_SUFFIX)} has no value{key_text} from the secret store yet"


def _create_failed_message(pod: Pod) -> str:
    """Return the cause of a failure to create a container; the kubelet's reason if the cause is unknown."""
    error_text = pod.waiting_message
    if missing := _MISSING_REFERENCE.search(error_text):
        return f"it has no {'Secret' if missing[1] == 'secret' else 'ConfigMap'} {missing[2]}"
    if refused := _COMMAND_FAILURE.search(error_text):
        denied = refused[1] == "permission denied"
        return "its command is not executable" if denied else "its command isn't in the image"
    if _NO_ID_MAPPING.search(error_text):
        return "the file system of a storage that it mounts doesn't work in user namespaces; report this to the platform team"
    return escape_unprintable(pod.waiting_reason if pod.waiting_reason in CONFIG_REASONS else pod.terminated_reason, 40)


def _terminated_state(pod: Pod) -> PodState:
    if pod.terminated_reason == START_ERROR:
        return _create_failed_state(pod)
    times = f"{pod.restarts} restart{'' if pod.restarts == 1 else 's'}"
    if pod.terminated_reason == "OOMKilled":
        return PodState(
            word.FAILED, word.OUT_OF_MEMORY, f"the container exceeded the memory of its unit and was killed ({times})"
        )
    if _was_killed_by_probe(pod):
        why = "the probe of the container did not succeed within startTimeout, and the container was killed"
        return PodState(word.FAILED, word.PROBE_FAILED, f"{why} ({times})")
    message = f"the container ended with exit code {pod.exit_code} ({times})"
    return PodState(word.FAILED, word.CRASH_LOOP if pod.restarts else word.CONTAINER_ENDED, message)


def _unstarted_state(view: InstanceView, pod: Pod) -> PodState:
    """Return the state of a pod with a container that has not started.

    A node that rejects pods rejects each pod within two seconds, and the controller creates a replacement pod at once.
    If the state of the replacement hid the rejection, the state of the instance would alternate. Therefore the
    function returns the state of the rejected pod until a node accepts the replacement. A replacement is accepted if
    the kubelet of its node reports a waiting container.
    """
    if pod.node:
        pod_state = PodState(
            word.INIT,
            word.STARTING,
            f"its image is pulled and its volumes are mounted on {escape_unprintable(pod.node, 63)}",
        )
    else:
        pod_state = _unscheduled_state(view, pod)
    predecessor = None if pod.waiting_reason else _find_predecessor(view, pod)
    if predecessor is None:
        return pod_state
    if not predecessor.terminated_at and pod_state.state == word.INIT:  # the node rejected the predecessor
        return _replaced_state(predecessor)
    if pod.node:
        return pod_state
    return pod_state._replace(message=f"{pod_state.message}; {_evicted_state(predecessor).message}")


def _replaced_state(pod: Pod) -> PodState:
    """Return the state of a pod that was evicted or rejected by its node. The pod's controller replaces the pod."""
    pod_state = _evicted_state(pod)
    return pod_state._replace(message=f"{pod_state.message}; a new pod replaces it")


def _unscheduled_state(view: InstanceView, pod: Pod) -> PodState:
    spec = escape_unprintable(view.deployment.gpu_spec, 32)
    is_new = pod.created != "" and seconds_between(pod.created, view.now) <= SCHEDULING_SECONDS
    if pod.unschedulable and not pod.nominated and not is_new:
        return PodState(word.WAITING, word.NO_FREE_UNIT, f"no unit of {spec} is free on {view.cluster}")
    return PodState(word.INIT, word.SCHEDULING, f"a placeholder is releasing a unit of {spec}")


def _find_predecessor(view: InstanceView, pod: Pod) -> Pod | None:
    """Return the pod that `pod` replaces; None if `pod` replaces none.

    The predecessor has the same owner, and was evicted or rejected by its node just before `pod` was created.
    """
    failed_pods = [
        candidate
        for candidate in view.pods
        if candidate.owner == pod.owner and candidate.phase == "Failed" and _may_replace(pod, candidate)
    ]
    return max(failed_pods, key=lambda candidate: (candidate.created, candidate.name), default=None)


def _may_replace(pod: Pod, failed_pod: Pod) -> bool:
    """Return whether a pod was created soon enough after the end of a failed pod to be its replacement.

    A rejected pod has no end time. For a rejected pod, the function uses the time when the node acknowledged the pod,
    because the node rejected the pod at once. If the clock of the node is ahead, the replacement may seem to have been
    created before this time.
    """
    ended = failed_pod.terminated_at or failed_pod.scheduled_at
    if "" in (ended, pod.created):
        return False
    seconds = seconds_between(ended, pod.created)
    if not failed_pod.terminated_at and failed_pod.created <= pod.created:
        seconds = abs(seconds)
    return 0 <= seconds <= REPLACEMENT_SECONDS

"""Pods, as a kubelet reports them."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import MAX_MESSAGE_LENGTH, ApiObject, Metadata, normalize_time
from allotment.observed.conditions import seconds_between
from allotment.observed.objects import START_ERROR, Pod


class _PodCondition(ApiObject, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


_NO_POD_CONDITION = _PodCondition()


class _Waiting(ApiObject, frozen=True):
    reason: str = ""
    message: str = ""


class _RunningState(ApiObject, frozen=True):
    started_at: str | None = None


class _Terminated(ApiObject, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class _State(ApiObject, frozen=True):
    waiting: _Waiting | None = None
    running: _RunningState | None = None
    terminated: _Terminated | None = None


class _Device(ApiObject, frozen=True):
    health: str = ""


class _Allocated(ApiObject, frozen=True):
    resources: tuple[_Device, ...] = ()


class _ContainerStatus(ApiObject, frozen=True):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()
    allocated_resources_status: tuple[_Allocated, ...] = ()


_NO_STATUS = _ContainerStatus()


class _Probe(ApiObject, frozen=True):
    period_seconds: int = 10
    failure_threshold: int = 3


class _Container(ApiObject, frozen=True):
    startup_probe: _Probe | None = None


class _PodSpec(ApiObject, frozen=True):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()


class _PodStatus(ApiObject, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None  # when the kubelet acknowledged the pod
    conditions: tuple[_PodCondition, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class RawPod(ApiObject, frozen=True):
    """A pod."""

    metadata: Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def summarize_pod(raw: RawPod) -> Pod:
    """Return the summary of a pod."""
    metadata, status = raw.metadata, raw.status
    container = _deciding_container(status)
    state, running = container.state, container.state.running
    ended = state.terminated or container.last_state.terminated
    scheduled = ready = disrupted = _NO_POD_CONDITION
    for condition in status.conditions:
        if condition.type == "Ready":
            ready = condition
        elif condition.type == "PodScheduled":
            scheduled = condition
        elif condition.type == "DisruptionTarget":
            disrupted = condition
    return Pod(
        uid=metadata.uid,
        name=metadata.name,
        owner=metadata.owner,
        tenant=metadata.tenant,
        instance=metadata.get_label(names.INSTANCE),
        storage=metadata.get_label(names.STORAGE),
        stock=metadata.stock,
        role=metadata.get_label(names.ROLE),
        bill_labels=metadata.bill_labels,
        created=metadata.created,
        terminating=metadata.deletion_timestamp is not None,
        deletion_time=normalize_time(metadata.deletion_timestamp),
        node=raw.spec.node_name,
        phase=status.phase,
        reason=status.reason,
        message=status.message[:MAX_MESSAGE_LENGTH],
        scheduled_at=normalize_time(
            scheduled.last_transition_time if scheduled.status == "True" else status.start_time
        ),
        unschedulable=scheduled.status == "False" and scheduled.reason == "Unschedulable",
        nominated=bool(status.nominated_node_name),
        started_at=normalize_time(running.started_at) if running else "",
        started=bool(container.started),
        ready=container.ready and ready.status == "True",
        ready_at=normalize_time(ready.last_transition_time) if ready.status == "True" else "",
        unready_at=normalize_time(ready.last_transition_time) if ready.status == "False" else "",
        node_lost=container.ready and ready.status == "False",
        restarts=container.restart_count,
        waiting_reason=state.waiting.reason if state.waiting else "",
        waiting_message=_waiting_message(state.waiting, ended)[-MAX_MESSAGE_LENGTH:],
        exit_code=ended.exit_code if ended else None,
        terminated_reason=ended.reason if ended else "",
        run_seconds=_run_seconds(ended) if ended else 0.0,
        terminated_at=max(
            normalize_time(disrupted.last_transition_time), normalize_time(ended.finished_at) if ended else ""
        ),
        startup_seconds=_startup_seconds(raw.spec),
        container=container.name,
        has_unhealthy_device=_has_unhealthy_device(status),
    )


def _waiting_message(waiting: _Waiting | None, ended: _Terminated | None) -> str:
    """Return the message about a container that doesn't run.

    If the container failed to start, the result is the cause of the failure, because the kubelet's current message may
    contain only the time until the next start.
    """
    if ended is not None and ended.reason == START_ERROR:
        return ended.message
    return waiting.message if waiting is not None else ""


def _run_seconds(ended: _Terminated) -> float:
    """Return the seconds that a container ran; 0 if it never started.

    A container that never started has no start time, or a time in the distant past.
    """
    begin, end = normalize_time(ended.started_at), normalize_time(ended.finished_at)
    if not begin or not end or ended.reason == START_ERROR:
        return 0.0
    return max(0.0, seconds_between(begin, end))


def _startup_seconds(spec: _PodSpec) -> int:
    """Return the seconds after which the kubelet kills a container that doesn't answer its startup probe.

    Returns 0 if the container has no startup probe.
    """
    probe = spec.containers[0].startup_probe if spec.containers else None
    return probe.period_seconds * probe.failure_threshold if probe is not None else 0


def _has_unhealthy_device(status: _PodStatus) -> bool:
    """Return whether a device of the pod is unhealthy. A pod with an unhealthy device keeps running.

    Kubelets report the health of devices since Kubernetes 1.36.
    """
    return any(
        device.health == "Unhealthy"
        for container in status.container_statuses
        for allocated in container.allocated_resources_status
        for device in allocated.resources
    )


def _deciding_container(status: _PodStatus) -> _ContainerStatus:
    """Return the container that determines the state of a pod.

    This container is the first init container that has neither started nor succeeded. If there is none, it is the last
    init container while that container runs, or else the main container.
    """
    for container in status.init_container_statuses:
        ended = container.state.terminated
        if not container.started and (ended is None or ended.exit_code):
            return container
        if (
            container.started
            and container.state.running is not None
            and container is status.init_container_statuses[-1]
        ):
            return container
    return status.container_statuses[0] if status.container_statuses else _NO_STATUS

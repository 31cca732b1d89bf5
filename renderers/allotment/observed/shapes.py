"""The shapes of live objects as the API has them, no field more than is needed, and what is kept of each.

Decoding skips every field that isn't named here, so that tens of thousands of objects stay small and cheap to read.
"""

from __future__ import annotations

import msgspec

from allotment.manifests import names
from allotment.observed.objects import Application, Deployment, Job, Pod, ReplicaSet, Route, VolumeClaim

_CUT = 300  # characters kept of what a kubelet or controller says; only fixed words of it are ever shown


class Shape(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of an object as the API has it."""


class _Labels(
    Shape,
    frozen=True,
    rename={
        "tenant": names.TENANT,
        "instance": names.INSTANCE,
        "storage": names.STORAGE,
        "stock": names.STOCK,
        "gpu_spec": names.GPU_SPEC,
        "role": names.ROLE,
        "cluster": names.CLUSTER,
    },
):
    tenant: str = ""
    instance: str = ""
    storage: str = ""
    stock: str = ""
    gpu_spec: str = ""
    role: str = ""
    cluster: str = ""


class _Annotations(
    Shape,
    frozen=True,
    rename={
        "blob": names.BLOB,
        "waits_for": names.WAITS_FOR,
        "waits_reason": names.WAITS_REASON,
        "units": names.UNITS,
        "reserved_for": names.RESERVED_FOR,
        "input_hash": names.INPUT_HASH,
        "attempt": names.ATTEMPT,
        "link": names.EXTERNAL_LINK,
        "revision": "deployment.kubernetes.io/revision",
    },
):
    blob: str = ""
    waits_for: str = ""
    waits_reason: str = ""
    units: str = ""
    reserved_for: str = ""
    input_hash: str = ""
    attempt: str = ""
    link: str = ""
    revision: str = ""


class _Owner(Shape, frozen=True):
    uid: str = ""


class Metadata(Shape, frozen=True):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    generation: int = 0
    labels: _Labels = _Labels()
    annotations: _Annotations = _Annotations()
    owner_references: tuple[_Owner, ...] = ()

    @property
    def tenant(self) -> str:
        """The tenant whose it is; empty where its label claims another's namespace."""
        tenant = self.labels.tenant
        return tenant if tenant and self.namespace == names.namespace(tenant) else ""

    @property
    def stock(self) -> str:
        """The stock that it is a placeholder of."""
        return self.labels.stock if self.namespace == names.STOCK_NAMESPACE else ""

    @property
    def owner(self) -> str:
        """The uid of what it belongs to; empty where it belongs to nothing."""
        return self.owner_references[0].uid if self.owner_references else ""


class _Condition(Shape, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


_NO_CONDITION = _Condition()


def _named(conditions: tuple[_Condition, ...], kind: str) -> _Condition:
    for one in conditions:
        if one.type == kind:
            return one
    return _NO_CONDITION


class _Waiting(Shape, frozen=True):
    reason: str = ""
    message: str = ""


class _RunningState(Shape, frozen=True):
    started_at: str | None = None


class _Terminated(Shape, frozen=True):
    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class _State(Shape, frozen=True):
    waiting: _Waiting | None = None
    running: _RunningState | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Shape, frozen=True):
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()


class _PodSpec(Shape, frozen=True):
    node_name: str = ""


class _PodCondition(Shape, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


_NO_POD_CONDITION = _PodCondition()


class _PodStatus(Shape, frozen=True):
    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    conditions: tuple[_PodCondition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class RawPod(Shape, frozen=True):
    """A pod."""

    metadata: Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


_NO_STATUS = _ContainerStatus()


def pod(raw: RawPod) -> Pod:
    """Return what is kept of a pod."""
    metadata, status, labels = raw.metadata, raw.status, raw.metadata.labels
    container = status.container_statuses[0] if status.container_statuses else _NO_STATUS
    state, running = container.state, container.state.running
    ended = state.terminated or container.last_state.terminated
    scheduled = ready = _NO_POD_CONDITION
    for one in status.conditions:
        if one.type == "Ready":
            ready = one
        elif one.type == "PodScheduled":
            scheduled = one
    return Pod(
        metadata.uid,
        metadata.name,
        metadata.owner,
        metadata.tenant,
        labels.instance,
        labels.storage,
        metadata.stock,
        labels.role,
        metadata.creation_timestamp,
        metadata.deletion_timestamp is not None,
        raw.spec.node_name,
        status.phase,
        status.reason,
        (scheduled.last_transition_time or "") if scheduled.status == "True" else "",
        scheduled.status == "False" and scheduled.reason == "Unschedulable",
        bool(status.nominated_node_name),
        (running.started_at or "") if running else "",
        bool(container.started),
        container.ready and ready.status == "True",
        (ready.last_transition_time or "") if ready.status == "True" else "",
        container.restart_count,
        state.waiting.reason if state.waiting else "",
        state.waiting.message[:_CUT] if state.waiting else "",
        ended.exit_code if ended else None,
        ended.reason if ended else "",
    )


class _Claim(Shape, frozen=True):
    claim_name: str = ""


class _Volume(Shape, frozen=True):
    persistent_volume_claim: _Claim | None = None


class _Container(Shape, frozen=True):
    image: str = ""


class _TemplateSpec(Shape, frozen=True):
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


class _Template(Shape, frozen=True):
    spec: _TemplateSpec = _TemplateSpec()


class _DeploymentSpec(Shape, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class _DeploymentStatus(Shape, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    conditions: tuple[_Condition, ...] = ()


class RawDeployment(Shape, frozen=True):
    """A Deployment."""

    metadata: Metadata
    spec: _DeploymentSpec = _DeploymentSpec()
    status: _DeploymentStatus = _DeploymentStatus()


def deployment(raw: RawDeployment) -> Deployment:
    """Return what is kept of a Deployment."""
    metadata, spec, status = raw.metadata, raw.spec, raw.status
    labels, annotations, pod = metadata.labels, metadata.annotations, spec.template.spec
    refused = _named(status.conditions, "ReplicaFailure")
    return Deployment(
        metadata.uid,
        metadata.name,
        metadata.tenant,
        labels.instance,
        labels.storage,
        metadata.stock,
        labels.gpu_spec,
        annotations.blob,
        _number(annotations.units),
        annotations.reserved_for,
        annotations.waits_for,
        annotations.waits_reason,
        metadata.creation_timestamp,
        metadata.deletion_timestamp is not None,
        spec.replicas,
        status.replicas,
        status.ready_replicas,
        status.observed_generation >= metadata.generation,
        annotations.revision,
        pod.containers[0].image if pod.containers else "",
        tuple(volume.persistent_volume_claim.claim_name for volume in pod.volumes if volume.persistent_volume_claim),
        refused.message[:_CUT] if refused.status == "True" else "",
    )


class RawReplicaSet(Shape, frozen=True):
    """A ReplicaSet: its metadata is all that is asked for."""

    metadata: Metadata


def replica_set(raw: RawReplicaSet) -> ReplicaSet:
    """Return what is kept of a ReplicaSet."""
    metadata = raw.metadata
    return ReplicaSet(metadata.uid, metadata.name, metadata.owner, metadata.tenant, metadata.annotations.revision)


class _JobStatus(Shape, frozen=True):
    active: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[_Condition, ...] = ()


class RawJob(Shape, frozen=True):
    """A Job."""

    metadata: Metadata
    status: _JobStatus = _JobStatus()


def job(raw: RawJob) -> Job:
    """Return what is kept of a Job."""
    metadata, status = raw.metadata, raw.status
    complete, failed = _named(status.conditions, "Complete"), _named(status.conditions, "Failed")
    return Job(
        metadata.uid,
        metadata.name,
        metadata.tenant,
        metadata.labels.storage,
        metadata.annotations.input_hash,
        _number(metadata.annotations.attempt),
        metadata.creation_timestamp,
        status.start_time or "",
        status.completion_time or failed.last_transition_time or "",
        status.active,
        complete.status == "True",
        (failed.reason or "Failed") if failed.status == "True" else "",
    )


class _Sizes(Shape, frozen=True):
    storage: str = ""


class _Resources(Shape, frozen=True):
    requests: _Sizes = _Sizes()


class _ClaimSpec(Shape, frozen=True):
    resources: _Resources = _Resources()
    volume_name: str = ""


class _ClaimStatus(Shape, frozen=True):
    phase: str = ""
    capacity: _Sizes = _Sizes()
    conditions: tuple[_Condition, ...] = ()


class RawVolumeClaim(Shape, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


def volume_claim(raw: RawVolumeClaim) -> VolumeClaim:
    """Return what is kept of a PersistentVolumeClaim."""
    metadata = raw.metadata
    return VolumeClaim(
        metadata.uid,
        metadata.name,
        metadata.tenant,
        metadata.labels.storage,
        metadata.annotations.blob,
        metadata.creation_timestamp,
        metadata.deletion_timestamp is not None,
        raw.status.phase,
        raw.spec.resources.requests.storage,
        raw.status.capacity.storage,
    )


class _Parent(Shape, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _RouteStatus(Shape, frozen=True):
    parents: tuple[_Parent, ...] = ()


class RawRoute(Shape, frozen=True):
    """An HTTPRoute."""

    metadata: Metadata
    status: _RouteStatus = _RouteStatus()


def route(raw: RawRoute) -> Route:
    """Return what is kept of an HTTPRoute."""
    metadata = raw.metadata
    said = [_named(parent.conditions, "Accepted").status for parent in raw.status.parents]
    return Route(
        metadata.uid,
        metadata.name,
        metadata.tenant,
        metadata.labels.instance,
        metadata.labels.storage,
        metadata.annotations.link,
        bool(said) and all(one == "True" for one in said),
        "False" in said,
    )


class _Said(Shape, frozen=True):
    status: str = ""
    revision: str = ""


class _Resource(Shape, frozen=True):
    kind: str = ""
    name: str = ""
    status: str = ""
    message: str = ""


class _SyncResult(Shape, frozen=True):
    resources: tuple[_Resource, ...] | None = ()


class _Operation(Shape, frozen=True):
    phase: str = ""
    sync_result: _SyncResult | None = None


class _ApplicationStatus(Shape, frozen=True):
    sync: _Said = _Said()
    health: _Said = _Said()
    operation_state: _Operation | None = None
    resources: tuple[_Resource, ...] | None = ()


class RawApplication(Shape, frozen=True):
    """An Application."""

    metadata: Metadata
    status: _ApplicationStatus = _ApplicationStatus()


def application(raw: RawApplication) -> Application:
    """Return what is kept of an Application."""
    metadata, status, operation = raw.metadata, raw.status, raw.status.operation_state
    resources = status.resources or ()
    results = (operation.sync_result.resources or ()) if operation and operation.sync_result else ()
    return Application(
        metadata.uid,
        metadata.name,
        metadata.labels.tenant,
        metadata.labels.cluster,
        status.sync.status,
        status.health.status,
        status.sync.revision,
        operation.phase if operation else "",
        frozenset((one.kind, one.name) for one in resources),
        frozenset((one.kind, one.name) for one in resources if one.status == "OutOfSync"),
        frozenset((one.kind, one.name) for one in results if one.status == "SyncFailed"),
    )


def _number(text: str) -> int:
    """Return a count that an annotation says; 0 where it says none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0

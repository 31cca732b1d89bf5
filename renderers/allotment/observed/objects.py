"""Defines the summaries of live objects, with a few flat fields each. A time is text in the API's form, or empty."""

from __future__ import annotations

from typing import NamedTuple

PLATFORM_OWNER = "*platform"  # the owner of the platform's objects; no tenant can have this name
START_ERROR = "StartError"  # `terminated_reason` of a container that ended before its program began


class Pod(NamedTuple):
    """A pod with one of Allotment's labels, and the container that determines its state.

    This container is the first init container that has neither started nor succeeded. If there is none, it is the last
    init container while that container runs, or else the main container.

    - `scheduled_at` is the time when the pod got its node. A kubelet that rejects the pod removes the condition with
      this time. For a rejected pod, `scheduled_at` is therefore the time when the kubelet acknowledged the pod.
    - `waiting_message` has the last characters of the kubelet's message about a container that doesn't run.
    - `deletion_time` is the time when a terminating pod should be gone: its deletion and its grace period.
    - `run_seconds` is the duration of the container's last run.
    - `startup_seconds` is the time that the container has to answer its startup probe; 0 without a startup probe.
    - `terminated_at` is the time when the eviction of the pod began, or when the container ended, whichever is later.
    - `bill_labels` are the labels of the declaration, for cost allocation, as in the other objects.
    - `node_lost` means that the pod's node doesn't respond.
    - `has_unhealthy_device` means that one of the pod's devices has failed.
    """

    uid: str
    name: str
    owner: str
    tenant: str
    instance: str
    storage: str
    stock: str
    role: str
    bill_labels: tuple[tuple[str, str], ...]
    created: str
    terminating: bool
    deletion_time: str
    node: str
    phase: str
    reason: str
    message: str
    scheduled_at: str
    unschedulable: bool
    nominated: bool
    started_at: str
    started: bool
    ready: bool
    ready_at: str
    unready_at: str
    node_lost: bool
    restarts: int
    waiting_reason: str
    waiting_message: str
    exit_code: int | None
    terminated_reason: str
    run_seconds: float
    terminated_at: str
    startup_seconds: int
    container: str
    has_unhealthy_device: bool


class Deployment(NamedTuple):
    """A Deployment with one of Allotment's labels.

    `generation_observed` says whether Kubernetes' controller has seen the newest generation of the Deployment.
    `creation_failure` is the reason why pods could not be created; it is empty if no creation failed. The others are
    about a placeholder: `karpenter_pool` is its Karpenter NodePool, or empty if the nodes are static; `pool` is its
    declared NodePool; `pool_labels` are the labels of the pool's nodes.
    """

    uid: str
    name: str
    tenant: str
    instance: str
    storage: str
    stock: str
    gpu_spec: str
    blob: str
    units: int
    reserved_for: str
    ssh_command: str
    waits_for: str
    waits_reason: str
    created: str
    terminating: bool
    replicas: int
    current_replicas: int
    ready_replicas: int
    generation_observed: bool
    revision: str
    image: str
    mounts: tuple[str, ...]
    creation_failure: str
    karpenter_pool: str
    pool: str
    pool_labels: frozenset[tuple[str, str]]


class ReplicaSet(NamedTuple):
    """A ReplicaSet. `owner` is the uid of its Deployment, and `revision` is the number of the Deployment's rollout."""

    uid: str
    name: str
    owner: str
    tenant: str
    revision: str


class Job(NamedTuple):
    """A Job: one attempt to prepare a storage.

    `log` is the location of its log. `failure` is Kubernetes' reason for the failure of the Job; it is empty if the Job
    didn't fail. `already_complete` means that the Job failed because Allotment's check found a volume that was already
    complete.
    """

    uid: str
    name: str
    tenant: str
    storage: str
    input_hash: str
    attempt: int
    created: str
    started_at: str
    completed_at: str
    active: int
    succeeded: bool
    failure: str
    already_complete: bool
    log: str
    prune_protected: bool


class VolumeClaim(NamedTuple):
    """A storage's PersistentVolumeClaim.

    `requested` and `capacity` are quantities. `preparation_job` is the name of the Job that is to fill the volume.
    """

    uid: str
    name: str
    tenant: str
    storage: str
    storage_spec: str
    bill_labels: tuple[tuple[str, str], ...]
    blob: str
    created: str
    terminating: bool
    phase: str
    requested: str
    capacity: str
    preparation_job: str
    marked_for_deletion: bool
    unprotected: bool


class BucketClaim(NamedTuple):
    """A storage's ObjectBucketClaim; `size` is its maximum size."""

    uid: str
    name: str
    tenant: str
    storage: str
    storage_spec: str
    bill_labels: tuple[tuple[str, str], ...]
    blob: str
    created: str
    phase: str
    size: str
    marked_for_deletion: bool
    unprotected: bool


class VolumeSnapshot(NamedTuple):
    """A VolumeSnapshot.

    `source_claim` is the PersistentVolumeClaim that the snapshot is taken of, and `taken_at` is the time of the
    snapshot. A volume that is restored from the snapshot has at least the size `restore_size`.
    """

    uid: str
    name: str
    tenant: str
    snapshot: str
    storage_spec: str
    bill_labels: tuple[tuple[str, str], ...]
    blob: str
    created: str
    terminating: bool
    source_claim: str
    ready: bool
    taken_at: str
    restore_size: str
    failed: bool
    marked_for_deletion: bool
    unprotected: bool


class Namespace(NamedTuple):
    """A tenant's namespace; `unprotected` means that it may be deleted."""

    uid: str
    name: str
    tenant: str
    unprotected: bool


class Node(NamedTuple):
    """A node of the cluster, with all its labels."""

    uid: str
    name: str
    created: str
    labels: frozenset[tuple[str, str]]


class DisruptionBudget(NamedTuple):
    """A PodDisruptionBudget in a tenant's namespace."""

    uid: str
    name: str
    tenant: str
    terminating: bool


class Route(NamedTuple):
    """An HTTPRoute: its URL, and whether a gateway accepted or refused it."""

    uid: str
    name: str
    tenant: str
    instance: str
    storage: str
    created: str
    url: str
    accepted: bool
    refused: bool


class Application(NamedTuple):
    """The state that Argo CD reports for one part (storage or compute) of a tenant.

    `resources` has the kind and name of each object of the Application. `out_of_sync` has the objects that differ from
    their published version, and `failed` has the objects that Argo CD could not apply.
    """

    uid: str
    name: str
    tenant: str
    cluster: str
    sync: str
    health: str
    revision: str
    phase: str
    resources: frozenset[tuple[str, str]]
    out_of_sync: frozenset[tuple[str, str]]
    failed: frozenset[tuple[str, str]]


class LiveObject(NamedTuple):
    """An object of a tenant or of the platform, for the comparison with its manifest.

    `tenant` is PLATFORM_OWNER for an object of the platform, and empty for an object that is not compared. `name` is the
    name from `names.scoped_name`. `content` is compressed JSON of the compared fields. `owned` means that the object has an owner, such as a
    controller. `managed` means that it has Allotment's label.
    """

    uid: str
    kind: str
    name: str
    tenant: str
    created: str
    terminating: bool
    owned: bool
    managed: bool
    content: bytes


ObservedObject = (
    Namespace
    | DisruptionBudget
    | Pod
    | Deployment
    | ReplicaSet
    | Job
    | VolumeClaim
    | BucketClaim
    | VolumeSnapshot
    | Route
    | Application
    | LiveObject
    | Node
)

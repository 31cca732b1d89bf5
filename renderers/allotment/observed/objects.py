"""What is kept of a live object: a few flat fields each. Times are the API's texts, empty where nothing has
happened yet."""

from __future__ import annotations

from typing import NamedTuple

START_ERROR = "StartError"  # `ended` of a container that ended before its program began


class Pod(NamedTuple):
    """A pod of ours, and its one container that says how it is: of several the first that isn't done. Times are the
    API's texts; empty where something hasn't happened. `waiting_message` is the end of what the kubelet says of it, and
    `run_seconds` and `startup_seconds` are seconds: how long the container's last run lasted, and how long a start may take until
    it answers, 0 where nothing is asked. `terminated_at` is when its node began to throw it out, or its container ended, the
    later of both. `node_lost`: its node doesn't answer. `has_unhealthy_device`: a device that it was given went bad."""

    uid: str
    name: str
    owner: str
    tenant: str
    instance: str
    storage: str
    stock: str
    role: str
    created: str
    terminating: bool
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
    """A Deployment of ours. `generation_observed` says whether its controller has seen its newest generation, `creation_failure` why no pod
    could be made. `node_pool` is the Karpenter NodePool of placeholders, empty where their nodes are static."""

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
    node_pool: str


class ReplicaSet(NamedTuple):
    """A ReplicaSet: of which Deployment, and of which of its revisions."""

    uid: str
    name: str
    owner: str
    tenant: str
    revision: str


class Job(NamedTuple):
    """A preparation: its input and attempt, where its log is, and how it ended.

    `failure` is Kubernetes' reason, empty where it didn't fail. `already_complete` says that it failed because our own
    check found the volume complete.
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
    """A storage's PersistentVolumeClaim; `requested` and `capacity` are quantities, `preparation_job` is the Job that is
    to fill it."""

    uid: str
    name: str
    tenant: str
    storage: str
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
    """A storage's ObjectBucketClaim; `size` is the most it may hold."""

    uid: str
    name: str
    tenant: str
    storage: str
    blob: str
    created: str
    phase: str
    size: str
    marked_for_deletion: bool
    unprotected: bool


class VolumeSnapshot(NamedTuple):
    """A VolumeSnapshot: of which claim, when it was taken, and how large what is restored from it must be."""

    uid: str
    name: str
    tenant: str
    snapshot: str
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
    """A tenant's namespace; `unprotected` says that it was let go."""

    uid: str
    name: str
    tenant: str
    unprotected: bool


class DisruptionBudget(NamedTuple):
    """A PodDisruptionBudget of a tenant's namespace."""

    uid: str
    name: str
    tenant: str
    terminating: bool


class Route(NamedTuple):
    """An HTTPRoute: the URL that it serves, and whether a gateway accepted or refused it."""

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
    """What Argo CD says of one part of a tenant.

    `out_of_sync` are the (kind, name) of objects that aren't as published, `failed` of those that could not be applied;
    `resources` of all there are.
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
    """Any object in a tenant's namespace, or that namespace itself, to compare with its manifest. `content` is JSON of the
    fields that are compared, compressed. `owned` says that a controller made it, `managed` that it has our label."""

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
)

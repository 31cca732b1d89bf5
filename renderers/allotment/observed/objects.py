"""What is kept of a live object: a few flat fields each. Times are the API's texts, empty where nothing has
happened yet."""

from __future__ import annotations

from typing import NamedTuple

NEVER_BEGAN = "StartError"  # `ended` of a container that ended before its program began


class Pod(NamedTuple):
    """A pod of ours, and its one container that says how it is: of several the first that isn't done. Times are the
    API's texts; empty where something hasn't happened. `waiting_words` is the end of what the kubelet says of it, and
    `ran` and `start_limit` are seconds: how long the container's last run lasted, and how long a start may take until
    it answers, 0 where nothing is asked. `ended_at` is when its node began to throw it out, or its container ended, the
    later of both. `lost`: its node doesn't answer. `unhealthy`: a device that it was given went bad."""

    uid: str
    name: str
    owner: str
    tenant: str
    instance: str
    storage: str
    stock: str
    role: str
    created: str
    ending: bool
    node: str
    phase: str
    reason: str
    words: str
    scheduled_at: str
    unschedulable: bool
    nominated: bool
    started_at: str
    started: bool
    ready: bool
    ready_at: str
    unready_at: str
    lost: bool
    restarts: int
    waiting: str
    waiting_words: str
    exit_code: int | None
    ended: str
    ran: float
    ended_at: str
    start_limit: int
    container: str
    unhealthy: bool


class Deployment(NamedTuple):
    """A Deployment of ours. `observed` says whether its controller has seen its newest generation, `refused` why no pod
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
    ending: bool
    replicas: int
    there: int
    ready: int
    observed: bool
    revision: str
    image: str
    mounts: tuple[str, ...]
    refused: str
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

    `failure` is Kubernetes' reason, empty where it didn't fail. `was_complete` says that it failed because our own
    check found the volume complete.
    """

    uid: str
    name: str
    tenant: str
    storage: str
    input_hash: str
    attempt: int
    created: str
    started: str
    ended: str
    active: int
    succeeded: bool
    failure: str
    was_complete: bool
    log: str
    kept: bool


class VolumeClaim(NamedTuple):
    """A storage's PersistentVolumeClaim; `requested` and `capacity` are quantities, `prepares` is the Job that is
    to fill it."""

    uid: str
    name: str
    tenant: str
    storage: str
    blob: str
    created: str
    ending: bool
    phase: str
    requested: str
    capacity: str
    prepares: str
    marked: bool
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
    marked: bool
    unprotected: bool


class VolumeSnapshot(NamedTuple):
    """A VolumeSnapshot: of which claim, when it was taken, and how large what is restored from it must be."""

    uid: str
    name: str
    tenant: str
    snapshot: str
    blob: str
    created: str
    ending: bool
    of: str
    ready: bool
    taken: str
    restore_size: str
    failed: bool
    marked: bool
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
    ending: bool


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

    `differing` are the (kind, name) of objects that aren't as published, `failed` of those that could not be applied;
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
    differing: frozenset[tuple[str, str]]
    failed: frozenset[tuple[str, str]]


class LiveObject(NamedTuple):
    """Any object in a tenant's namespace, or that namespace itself, to compare with its manifest. `content` is JSON of the
    fields that are compared, compressed. `owned` says that a controller made it, `managed` that it has our label."""

    uid: str
    kind: str
    name: str
    tenant: str
    created: str
    ending: bool
    owned: bool
    managed: bool
    content: bytes


Seen = (
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

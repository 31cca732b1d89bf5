"""What the cluster still has or runs although the rendered branch removed or stopped it: since when, and said once
that is too long.

Argo CD prunes what was removed, and where it missed that, its Application says Synced all the same. So the objects that
we render are held against those that are published. An object that isn't published gives its instance, storage or
snapshot a condition, whose time says since when: that is how a reporter that begins again goes on counting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from allotment import conditions as word
from allotment.manifests import names
from allotment.observed.conditions import seconds_between
from allotment.observed.objects import BucketClaim, Deployment, Job, Route, VolumeClaim, VolumeSnapshot
from allotment.observed.status import Condition, Instance, Snapshot, Storage, TenantStatus
from allotment.problems import escape_unprintable

REMOVAL_SECONDS = 120  # so long Argo CD may take to remove something
STOP_SECONDS = 600  # so long pods may take to end once their instance is published without replicas
STOPPED_DEPLOYMENT = "Deployment without replicas"  # in place of a kind, beside the Deployment itself
Resource = Instance | Storage | Snapshot
T = TypeVar("T", Instance, Storage, Snapshot)
RenderedObject = Deployment | Job | VolumeClaim | BucketClaim | VolumeSnapshot | Route
OBJECT_KINDS: dict[type, str] = {
    Deployment: "Deployment",
    Job: "Job",
    VolumeClaim: "PersistentVolumeClaim",
    BucketClaim: "ObjectBucketClaim",
    VolumeSnapshot: "VolumeSnapshot",
    Route: "HTTPRoute",
}
ORPHAN_STATES = {
    word.REMOVED_STILL_RUNNING: "still running",
    word.REMOVED_STILL_THERE: "still there",
    word.REMOVED_STILL_OPEN: "still open",
    word.STOPPED_STILL_RUNNING: "still running",
}


class PublishedObjects(NamedTuple):
    """The kinds and names of a tenant's published objects, as they were at a time by the API server's clock.

    A Deployment without replicas is there a second time, as WITHOUT_REPLICAS.
    """

    objects: frozenset[tuple[str, str]]
    time: str

    def is_unpublished(self, live_object: RenderedObject) -> bool:
        """Return whether an object isn't published.

        One that is no older than this look may have been published after it: nothing is known of that yet.
        """
        return live_object.created < self.time and not self._contains(live_object)

    def has_instance(self, name: str) -> bool:
        """Return whether an instance's Deployment is published."""
        return (OBJECT_KINDS[Deployment], name) in self.objects

    def has_stopped_instance(self, name: str) -> bool:
        """Return whether an instance is published without replicas."""
        return (STOPPED_DEPLOYMENT, name) in self.objects

    def predates(self, live_object: RenderedObject) -> bool:
        """Return whether only a later look can tell of an object."""
        return live_object.created >= self.time and not self._contains(live_object)

    def _contains(self, live_object: RenderedObject) -> bool:
        return (OBJECT_KINDS[type(live_object)], live_object.name) in self.objects


class TenantObservation(NamedTuple):
    """What a look at a tenant knows: who it is, its Applications' parts, what is published (None: not known), the time."""

    tenant: str
    cluster: str
    application_parts: Collection[str]
    published: PublishedObjects | None
    now: str


class Orphan(NamedTuple):
    """One removed object that stays: of which instance, storage or snapshot (`kind`), and in words what is to be done."""

    kind: str
    tenant: str
    name: str
    condition: Condition
    remedy: str

    @property
    def is_stopped(self) -> bool:
        """Whether it is declared and should have stopped, rather than gone."""
        return self.condition.type == word.STOPPED_DECLARED

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same of it for as long as it stays."""
        return self.kind, self.tenant, self.name, self.condition.type


def group_by_resource(objects: Iterable[RenderedObject]) -> dict[tuple[type, str], list[RenderedObject]]:
    """Return objects by the type and name of the instance, storage or snapshot that they belong to."""
    objects_by_resource: dict[tuple[type, str], list[RenderedObject]] = defaultdict(list)
    for live_object in objects:
        if isinstance(live_object, VolumeSnapshot):
            objects_by_resource[Snapshot, live_object.snapshot].append(live_object)
        elif isinstance(live_object, Deployment | Route) and live_object.instance:
            objects_by_resource[Instance, live_object.instance].append(live_object)
        else:
            objects_by_resource[Storage, live_object.storage].append(live_object)
    return objects_by_resource


def with_orphans(resource: T, objects: Sequence[RenderedObject], previous: T | None, look: TenantObservation) -> T:
    """Return a thing with what of it is removed and still there; `objects` are all that the cluster has of it.

    Where it isn't known what is published, what was said of objects that are still there stays as it was.
    """
    own = _main_object(objects)
    previous_conditions = (
        {condition.type: condition for condition in previous.conditions if _is_orphan_condition(condition)}
        if previous is not None
        else {}
    )
    if look.published is None:
        present_types = {_condition_type(live_object, own) for live_object in objects}
        if isinstance(resource, Instance) and _has_pods(own, resource):
            present_types |= {word.STOPPED_DECLARED} if own is not None else {word.STOPPED_DECLARED, word.DECLARED}
        conditions = [condition for kind, condition in previous_conditions.items() if kind in present_types]
    else:
        conditions = [
            _orphan_condition(live_object, own, resource, previous_conditions, look.now)
            for live_object in _unpublished_objects(objects, own, look.published)
        ]
        if isinstance(resource, Instance) and _has_pods(own, resource):
            if look.published.has_stopped_instance(resource.name):
                conditions.append(_stopping_condition(previous_conditions, look.now))
            elif own is None and not look.published.has_instance(resource.name):
                conditions.append(
                    _removal_condition(word.DECLARED, word.REMOVED_STILL_RUNNING, "", previous_conditions, look.now)
                )
    return _with_orphan_conditions(resource, conditions, look) if conditions else resource


def _main_object(objects: Sequence[RenderedObject]) -> RenderedObject | None:
    """Return the object without which a thing isn't there; a volume rather than a bucket, of several the last."""
    own_objects = [live_object for live_object in objects if _is_main_object(live_object)]
    return (
        max(enumerate(own_objects), key=lambda pair: (not isinstance(pair[1], BucketClaim), pair[0]))[1]
        if own_objects
        else None
    )


def _is_main_object(live_object: RenderedObject) -> bool:
    if isinstance(live_object, Deployment):
        return bool(live_object.instance)
    return isinstance(live_object, VolumeClaim | BucketClaim | VolumeSnapshot)


def _unpublished_objects(
    objects: Sequence[RenderedObject], own: RenderedObject | None, published: PublishedObjects
) -> list[RenderedObject]:
    """Return what isn't published: the thing itself, or else what belongs to it. A Job that has ended doesn't count."""
    if own is not None and published.is_unpublished(own):
        return [own]
    return [
        live_object
        for live_object in objects
        if live_object is not own and published.is_unpublished(live_object) and not _is_finished_job(live_object)
    ]


def _is_finished_job(live_object: RenderedObject) -> bool:
    return isinstance(live_object, Job) and (live_object.succeeded or bool(live_object.failure))


def _condition_type(live_object: RenderedObject, own: RenderedObject | None) -> str:
    """Return the type of an object's condition: of the thing itself, or with the kind and name of what belongs to it."""
    return (
        word.DECLARED if live_object is own else f"{word.DECLARED}.{OBJECT_KINDS[type(live_object)]}.{live_object.name}"
    )


def _is_orphan_condition(condition: Condition) -> bool:
    if condition.type == word.STOPPED_DECLARED:
        return True
    return condition.type == word.DECLARED or condition.type.startswith(f"{word.DECLARED}.")


def _orphan_condition(
    live_object: RenderedObject,
    own: RenderedObject | None,
    resource: Resource,
    previous_conditions: dict[str, Condition],
    now: str,
) -> Condition:
    return _removal_condition(
        _condition_type(live_object, own),
        _orphan_reason(live_object, resource),
        "" if live_object is own else f"{_describe_object(live_object)} is ",
        previous_conditions,
        now,
    )


def _removal_condition(
    kind: str, reason: str, subject: str, previous_conditions: dict[str, Condition], now: str
) -> Condition:
    """Return that something is removed; `reason` is what it goes on doing if that takes too long."""
    since = (previous_conditions[kind].last_transition_time if kind in previous_conditions else "") or now
    if seconds_between(since, now) < REMOVAL_SECONDS:
        return Condition(kind, "False", word.REMOVED, f"{subject}being removed", since)
    return Condition(
        kind, "False", reason, f"{subject}removed, {ORPHAN_STATES[reason]}: not published since {since}", since
    )


def _has_pods(own: RenderedObject | None, instance: Instance) -> bool:
    """Return whether an instance has pods, or will; of one whose Deployment is gone pods may be left."""
    if own is None:
        return bool(instance.pods)
    return isinstance(own, Deployment) and bool(own.replicas or own.current_replicas or instance.pods)


def _stopping_condition(previous_conditions: dict[str, Condition], now: str) -> Condition:
    """Return that an instance is published without replicas and runs."""
    kind = word.STOPPED_DECLARED
    since = (previous_conditions[kind].last_transition_time if kind in previous_conditions else "") or now
    if seconds_between(since, now) < STOP_SECONDS:
        return Condition(kind, "False", word.STOPPING, "being stopped", since)
    words = f"declared stopped, still running: published without replicas since {since}"
    return Condition(kind, "False", word.STOPPED_STILL_RUNNING, words, since)


def _describe_object(live_object: RenderedObject) -> str:
    """Return what belongs to a thing in words."""
    if isinstance(live_object, Route):
        return (
            f"its address {escape_unprintable(live_object.url, 200)}"
            if live_object.url
            else f"its route {live_object.name}"
        )
    if isinstance(live_object, Deployment) and live_object.name == names.files_service(live_object.storage):
        return "its file server"
    return (
        f"its preparation {live_object.name}"
        if isinstance(live_object, Job)
        else f"its {OBJECT_KINDS[type(live_object)]} {live_object.name}"
    )


def _orphan_reason(live_object: RenderedObject, resource: Resource) -> str:
    """Return what a removed object that stays goes on doing."""
    if isinstance(live_object, Route):
        return word.REMOVED_STILL_OPEN
    if isinstance(live_object, Job):
        return word.REMOVED_STILL_RUNNING
    if isinstance(live_object, Deployment) and (
        live_object.terminating
        or live_object.replicas
        or live_object.current_replicas
        or resource.reason == word.TERMINATING
    ):
        return word.REMOVED_STILL_RUNNING
    return word.REMOVED_STILL_THERE


def _with_orphan_conditions(resource: T, conditions: Sequence[Condition], look: TenantObservation) -> T:
    """Return a thing with these conditions; its message says what stays, and nothing else where that is the thing
    itself."""
    stuck_conditions: list[Condition] = [condition for condition in conditions if condition.reason in ORPHAN_STATES]
    reason, message = resource.reason, resource.message
    if stuck_conditions:
        own_condition = next(
            (condition for condition in stuck_conditions if condition.type in (word.DECLARED, word.STOPPED_DECLARED)),
            None,
        )
        words = [
            *(condition.message for condition in stuck_conditions),
            describe_remedy(resource, look.tenant, look.cluster, look.application_parts),
        ]
        if own_condition is not None:
            reason = own_condition.reason
        elif message:
            words.insert(0, message)
        message = "; ".join(words)
    return msgspec.structs.replace(
        resource, reason=reason, message=message, conditions=(*resource.conditions, *conditions)
    )


def describe_remedy(resource: Resource, tenant: str, cluster: str, parts: Collection[str]) -> str:
    """Return what to do about what stays of a thing; `parts` are the tenant's Applications that there are."""
    if (
        isinstance(resource, Instance) and resource.pods and not resource.units
    ):  # its Deployment is gone, so Argo CD knows of none
        return f"ask the platform team to delete its pods in Namespace {names.namespace(tenant)}"
    part = "compute" if isinstance(resource, Instance) else "storage"
    application = names.application(tenant, cluster, part)
    if part in parts:
        return f"ask the platform team to refresh Application {application}"
    return f"ask the platform team to delete it: Application {application} is gone"


def removal_conditions(resource: Resource) -> list[Condition]:
    """Return the conditions of what is removed and may be going just now."""
    return [
        condition
        for condition in resource.conditions
        if _is_orphan_condition(condition) and condition.reason not in ORPHAN_STATES
    ]


def stuck_conditions(resource: Resource) -> list[Condition]:
    """Return the conditions of what is removed and stays."""
    return [
        condition
        for condition in resource.conditions
        if _is_orphan_condition(condition) and condition.reason in ORPHAN_STATES
    ]


def _resources(status: TenantStatus) -> list[Resource]:
    return [*status.instances, *status.storages, *status.snapshots]


def find_orphans(status: TenantStatus) -> Iterator[Orphan]:
    """Yield all that a cluster still has of a tenant although it is removed, and for too long."""
    parts = [application.name for application in status.applications]
    for resource in _resources(status):
        for condition in stuck_conditions(resource):
            way = describe_remedy(resource, status.tenant, status.cluster, parts)
            yield Orphan(type(resource).__name__.lower(), status.tenant, resource.name, condition, way)


def needs_newer_branch(objects: Iterable[RenderedObject], published: PublishedObjects) -> bool:
    """Return whether only a later look at the branch can tell of an object whether it is published."""
    return any(published.predates(live_object) for live_object in objects)


def is_time_dependent(status: TenantStatus) -> bool:
    """Return whether time alone makes what is going into what stays."""
    return any(removal_conditions(resource) for resource in _resources(status))

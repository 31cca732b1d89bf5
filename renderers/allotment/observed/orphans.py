"""Finds orphans: objects that still exist after their removal from the rendered branch, or still run after their stop.

Argo CD prunes removed objects. If Argo CD misses an object, Argo CD still reports the Application as Synced. Therefore
this module compares the live objects with the published objects. For an object that isn't published, this module adds a
condition to the instance, storage or snapshot that the object belongs to. The time of the condition is the time when
the removal was first seen, so that a restarted reporter continues to measure from this time.
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

REMOVAL_SECONDS = 120  # how long Argo CD may take to remove an object
STOP_SECONDS = 600  # how long pods may take to end after their instance was published without replicas
STOPPED_DEPLOYMENT = "Deployment without replicas"  # marks a published Deployment that declares no replicas
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
    """The kind and name of each published object of a tenant, as the reporter read them at `time`.

    `time` is from the API server's clock.

    A Deployment without replicas is listed twice: with its own kind, and with the kind STOPPED_DEPLOYMENT.
    """

    objects: frozenset[tuple[str, str]]
    time: str

    def is_unpublished(self, live_object: RenderedObject) -> bool:
        """Return whether a live object isn't published; False if this is not known yet.

        An object that was created at `time` or later may have been published since then, so the answer is not known.
        """
        return live_object.created < self.time and not self._contains(live_object)

    def has_instance(self, name: str) -> bool:
        """Return whether an instance's Deployment is published."""
        return (OBJECT_KINDS[Deployment], name) in self.objects

    def has_stopped_instance(self, name: str) -> bool:
        """Return whether an instance is published without replicas."""
        return (STOPPED_DEPLOYMENT, name) in self.objects

    def predates(self, live_object: RenderedObject) -> bool:
        """Return whether a live object isn't in `objects`, but was created at `time` or later.

        Only a later list of the published objects can show whether this live object is published.
        """
        return live_object.created >= self.time and not self._contains(live_object)

    def _contains(self, live_object: RenderedObject) -> bool:
        return (OBJECT_KINDS[type(live_object)], live_object.name) in self.objects


class TenantObservation(NamedTuple):
    """One observation of a tenant, made at the time `now`.

    `application_parts` are the tenant's parts (storage, compute) that have an Application. `published` is None if the
    published objects are not known.
    """

    tenant: str
    cluster: str
    application_parts: Collection[str]
    published: PublishedObjects | None
    now: str


class Orphan(NamedTuple):
    """An object that remains in the cluster after its removal, or still runs after its stop.
    `kind` and `name` identify the instance, storage or snapshot that the object belongs to.
    """

    kind: str
    tenant: str
    name: str
    condition: Condition
    remedy: str

    @property
    def is_stopped(self) -> bool:
        """Whether the object belongs to a stopped instance, which is still declared and only has to end its pods."""
        return self.condition.type == word.STOPPED_DECLARED

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The identity of the orphan. It stays the same as long as the orphan remains."""
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


def with_orphans(
    resource: T, objects: Sequence[RenderedObject], previous: T | None, observation: TenantObservation
) -> T:
    """Return a resource with conditions about its orphans. `objects` are all live objects of the resource.

    If the published objects are not known, each object that still exists keeps its previous condition.
    """
    own = _main_object(objects)
    previous_conditions = (
        {condition.type: condition for condition in previous.conditions if _is_orphan_condition(condition)}
        if previous is not None
        else {}
    )
    if observation.published is None:
        present_types = {_condition_type(live_object, own) for live_object in objects}
        if isinstance(resource, Instance) and _has_pods(own, resource):
            present_types |= {word.STOPPED_DECLARED} if own is not None else {word.STOPPED_DECLARED, word.DECLARED}
        conditions = [condition for kind, condition in previous_conditions.items() if kind in present_types]
    else:
        conditions = [
            _orphan_condition(live_object, own, resource, previous_conditions, observation.now)
            for live_object in _unpublished_objects(objects, own, observation.published)
        ]
        if isinstance(resource, Instance) and _has_pods(own, resource):
            if observation.published.has_stopped_instance(resource.name):
                conditions.append(_stopping_condition(previous_conditions, observation.now))
            elif own is None and not observation.published.has_instance(resource.name):
                conditions.append(
                    _removal_condition(
                        word.DECLARED, word.REMOVED_STILL_RUNNING, "", previous_conditions, observation.now
                    )
                )
    return _with_orphan_conditions(resource, conditions, observation) if conditions else resource


def _main_object(objects: Sequence[RenderedObject]) -> RenderedObject | None:
    """Return the main object of a resource: its Deployment, volume, bucket or snapshot; None if it has none.

    A volume takes precedence over a bucket. Of several objects of the same kind, the last is returned.
    """
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
    """Return the unpublished objects of a resource.

    If the main object isn't published, the result is only the main object. Otherwise the result is the unpublished
    dependent objects, without finished Jobs.
    """
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
    """Return the condition type of an object. The type of a dependent object contains its kind and name."""
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
    """Return the condition of a removed object. The condition has the reason `reason` if the removal takes too long."""
    since = (previous_conditions[kind].last_transition_time if kind in previous_conditions else "") or now
    if seconds_between(since, now) < REMOVAL_SECONDS:
        return Condition(kind, "False", word.REMOVED, f"{subject}being removed", since)
    return Condition(
        kind, "False", reason, f"{subject}removed, {ORPHAN_STATES[reason]}: not published since {since}", since
    )


def _has_pods(own: RenderedObject | None, instance: Instance) -> bool:
    """Return whether an instance has pods, or will get some.

    Pods may remain after their Deployment is gone.
    """
    if own is None:
        return bool(instance.pods)
    return isinstance(own, Deployment) and bool(own.replicas or own.current_replicas or instance.pods)


def _stopping_condition(previous_conditions: dict[str, Condition], now: str) -> Condition:
    """Return the condition of an instance that is published without replicas but still runs."""
    kind = word.STOPPED_DECLARED
    since = (previous_conditions[kind].last_transition_time if kind in previous_conditions else "") or now
    if seconds_between(since, now) < STOP_SECONDS:
        return Condition(kind, "False", word.STOPPING, "being stopped", since)
    words = f"declared stopped, still running: published without replicas since {since}"
    return Condition(kind, "False", word.STOPPED_STILL_RUNNING, words, since)


def _describe_object(live_object: RenderedObject) -> str:
    """Return a text that names a dependent object."""
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
    """Return the reason of an orphan: whether it still runs, is still reachable, or only exists."""
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


def _with_orphan_conditions(resource: T, conditions: Sequence[Condition], observation: TenantObservation) -> T:
    """Return a resource with additional conditions, and with a message that names its orphans.

    If the main object is an orphan, the new message replaces the message of the resource.
    """
    stuck_conditions: list[Condition] = [condition for condition in conditions if condition.reason in ORPHAN_STATES]
    reason, message = resource.reason, resource.message
    if stuck_conditions:
        own_condition = next(
            (condition for condition in stuck_conditions if condition.type in (word.DECLARED, word.STOPPED_DECLARED)),
            None,
        )
        words = [
            *(condition.message for condition in stuck_conditions),
            describe_remedy(resource, observation.tenant, observation.cluster, observation.application_parts),
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
    """Return the advice about a resource's orphans. `parts` are the parts of the tenant that have an Application."""
    if (
        isinstance(resource, Instance) and resource.pods and not resource.units
    ):  # the instance's Deployment is gone, so Argo CD doesn't know the pods
        return f"ask the platform team to delete its pods in Namespace {names.namespace(tenant)}"
    part = "compute" if isinstance(resource, Instance) else "storage"
    application = names.application(tenant, cluster, part)
    if part in parts:
        return f"ask the platform team to refresh Application {application}"
    return f"ask the platform team to delete it: Application {application} is gone"


def removal_conditions(resource: Resource) -> list[Condition]:
    """Return the conditions of a resource's removals and stops for which the time limit has not passed yet."""
    return [
        condition
        for condition in resource.conditions
        if _is_orphan_condition(condition) and condition.reason not in ORPHAN_STATES
    ]


def stuck_conditions(resource: Resource) -> list[Condition]:
    """Return the conditions of a resource's removals and stops for which the time limit has passed."""
    return [
        condition
        for condition in resource.conditions
        if _is_orphan_condition(condition) and condition.reason in ORPHAN_STATES
    ]


def _resources(status: TenantStatus) -> list[Resource]:
    return [*status.instances, *status.storages, *status.snapshots]


def find_orphans(status: TenantStatus) -> Iterator[Orphan]:
    """Yield the orphans of a tenant: objects that still exist or run after the time limit of their removal or stop."""
    parts = [application.name for application in status.applications]
    for resource in _resources(status):
        for condition in stuck_conditions(resource):
            way = describe_remedy(resource, status.tenant, status.cluster, parts)
            yield Orphan(type(resource).__name__.lower(), status.tenant, resource.name, condition, way)


def needs_newer_branch(objects: Iterable[RenderedObject], published: PublishedObjects) -> bool:
    """Return whether only a later version of the branch can show whether all of the objects are published."""
    return any(published.predates(live_object) for live_object in objects)


def is_time_dependent(status: TenantStatus) -> bool:
    """Return whether a removal or a stop is under way. An object that remains at the time limit becomes an orphan."""
    return any(removal_conditions(resource) for resource in _resources(status))

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
from allotment.problems import printable

SECONDS = 120  # so long Argo CD may take to remove something
STOPPED_SECONDS = 600  # so long pods may take to end once their instance is published without replicas
WITHOUT_REPLICAS = "Deployment without replicas"  # in place of a kind, beside the Deployment itself
Thing = Instance | Storage | Snapshot
T = TypeVar("T", Instance, Storage, Snapshot)
Object = Deployment | Job | VolumeClaim | BucketClaim | VolumeSnapshot | Route
KINDS: dict[type, str] = {
    Deployment: "Deployment",
    Job: "Job",
    VolumeClaim: "PersistentVolumeClaim",
    BucketClaim: "ObjectBucketClaim",
    VolumeSnapshot: "VolumeSnapshot",
    Route: "HTTPRoute",
}
STATES = {
    word.STILL_RUNNING: "still running",
    word.STILL_THERE: "still there",
    word.STILL_OPEN: "still open",
    word.STOPPED_STILL_RUNNING: "still running",
}


class Published(NamedTuple):
    """The kinds and names of a tenant's published objects, as they were at a time by the API server's clock.

    A Deployment without replicas is there a second time, as WITHOUT_REPLICAS.
    """

    objects: frozenset[tuple[str, str]]
    time: str

    def lacks(self, live_object: Object) -> bool:
        """Return whether an object isn't published.

        One that is no older than this look may have been published after it: nothing is known of that yet.
        """
        return live_object.created < self.time and not self._has(live_object)

    def has_instance(self, name: str) -> bool:
        """Return whether an instance's Deployment is published."""
        return (KINDS[Deployment], name) in self.objects

    def has_stopped(self, name: str) -> bool:
        """Return whether an instance is published without replicas."""
        return (WITHOUT_REPLICAS, name) in self.objects

    def is_too_old_for(self, live_object: Object) -> bool:
        """Return whether only a later look can tell of an object."""
        return live_object.created >= self.time and not self._has(live_object)

    def _has(self, live_object: Object) -> bool:
        return (KINDS[type(live_object)], live_object.name) in self.objects


class TenantSeen(NamedTuple):
    """What a look at a tenant knows: who it is, its Applications' parts, what is published (None: not known), the time."""

    tenant: str
    cluster: str
    parts: Collection[str]
    published: Published | None
    now: str


class Left(NamedTuple):
    """One removed object that stays: of which instance, storage or snapshot (`kind`), and in words what is to be done."""

    kind: str
    tenant: str
    name: str
    condition: Condition
    way_out: str

    @property
    def is_stopped(self) -> bool:
        """Whether it is declared and should have stopped, rather than gone."""
        return self.condition.type == word.STOPPED_DECLARED

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same of it for as long as it stays."""
        return self.kind, self.tenant, self.name, self.condition.type


def by_thing(objects: Iterable[Object]) -> dict[tuple[type, str], list[Object]]:
    """Return objects by the type and name of the instance, storage or snapshot that they belong to."""
    objects_by_resource: dict[tuple[type, str], list[Object]] = defaultdict(list)
    for live_object in objects:
        if isinstance(live_object, VolumeSnapshot):
            objects_by_resource[Snapshot, live_object.snapshot].append(live_object)
        elif isinstance(live_object, Deployment | Route) and live_object.instance:
            objects_by_resource[Instance, live_object.instance].append(live_object)
        else:
            objects_by_resource[Storage, live_object.storage].append(live_object)
    return objects_by_resource


def with_removed(resource: T, objects: Sequence[Object], previous: T | None, look: TenantSeen) -> T:
    """Return a thing with what of it is removed and still there; `objects` are all that the cluster has of it.

    Where it isn't known what is published, what was said of objects that are still there stays as it was.
    """
    own = _own(objects)
    previous_conditions = (
        {condition.type: condition for condition in previous.conditions if _is_of_removed(condition)}
        if previous is not None
        else {}
    )
    if look.published is None:
        present_types = {_type(live_object, own) for live_object in objects}
        if isinstance(resource, Instance) and _runs(own, resource):
            present_types |= {word.STOPPED_DECLARED} if own is not None else {word.STOPPED_DECLARED, word.DECLARED}
        conditions = [condition for kind, condition in previous_conditions.items() if kind in present_types]
    else:
        conditions = [
            _condition(live_object, own, resource, previous_conditions, look.now)
            for live_object in _removed(objects, own, look.published)
        ]
        if isinstance(resource, Instance) and _runs(own, resource):
            if look.published.has_stopped(resource.name):
                conditions.append(_still_running(previous_conditions, look.now))
            elif own is None and not look.published.has_instance(resource.name):
                conditions.append(_ending(word.DECLARED, word.STILL_RUNNING, "", previous_conditions, look.now))
    return _saying(resource, conditions, look) if conditions else resource


def _own(objects: Sequence[Object]) -> Object | None:
    """Return the object without which a thing isn't there; a volume rather than a bucket, of several the last."""
    own_objects = [live_object for live_object in objects if _is_own(live_object)]
    return (
        max(enumerate(own_objects), key=lambda pair: (not isinstance(pair[1], BucketClaim), pair[0]))[1]
        if own_objects
        else None
    )


def _is_own(live_object: Object) -> bool:
    if isinstance(live_object, Deployment):
        return bool(live_object.instance)
    return isinstance(live_object, VolumeClaim | BucketClaim | VolumeSnapshot)


def _removed(objects: Sequence[Object], own: Object | None, published: Published) -> list[Object]:
    """Return what isn't published: the thing itself, or else what belongs to it. A Job that has ended doesn't count."""
    if own is not None and published.lacks(own):
        return [own]
    return [
        live_object
        for live_object in objects
        if live_object is not own and published.lacks(live_object) and not _has_ended(live_object)
    ]


def _has_ended(live_object: Object) -> bool:
    return isinstance(live_object, Job) and (live_object.succeeded or bool(live_object.failure))


def _type(live_object: Object, own: Object | None) -> str:
    """Return the type of an object's condition: of the thing itself, or with the kind and name of what belongs to it."""
    return word.DECLARED if live_object is own else f"{word.DECLARED}.{KINDS[type(live_object)]}.{live_object.name}"


def _is_of_removed(condition: Condition) -> bool:
    if condition.type == word.STOPPED_DECLARED:
        return True
    return condition.type == word.DECLARED or condition.type.startswith(f"{word.DECLARED}.")


def _condition(
    live_object: Object, own: Object | None, resource: Thing, previous_conditions: dict[str, Condition], now: str
) -> Condition:
    return _ending(
        _type(live_object, own),
        _reason(live_object, resource),
        "" if live_object is own else f"{_what(live_object)} is ",
        previous_conditions,
        now,
    )


def _ending(kind: str, reason: str, subject: str, previous_conditions: dict[str, Condition], now: str) -> Condition:
    """Return that something is removed; `reason` is what it goes on doing if that takes too long."""
    since = (previous_conditions[kind].last_transition_time if kind in previous_conditions else "") or now
    if seconds_between(since, now) < SECONDS:
        return Condition(kind, "False", word.REMOVED, f"{subject}being removed", since)
    return Condition(kind, "False", reason, f"{subject}removed, {STATES[reason]}: not published since {since}", since)


def _runs(own: Object | None, instance: Instance) -> bool:
    """Return whether an instance has pods, or will; of one whose Deployment is gone pods may be left."""
    if own is None:
        return bool(instance.pods)
    return isinstance(own, Deployment) and bool(own.replicas or own.there or instance.pods)


def _still_running(previous_conditions: dict[str, Condition], now: str) -> Condition:
    """Return that an instance is published without replicas and runs."""
    kind = word.STOPPED_DECLARED
    since = (previous_conditions[kind].last_transition_time if kind in previous_conditions else "") or now
    if seconds_between(since, now) < STOPPED_SECONDS:
        return Condition(kind, "False", word.STOPPING, "being stopped", since)
    words = f"declared stopped, still running: published without replicas since {since}"
    return Condition(kind, "False", word.STOPPED_STILL_RUNNING, words, since)


def _what(live_object: Object) -> str:
    """Return what belongs to a thing in words."""
    if isinstance(live_object, Route):
        return f"its address {printable(live_object.url, 200)}" if live_object.url else f"its route {live_object.name}"
    if isinstance(live_object, Deployment) and live_object.name == names.files_service(live_object.storage):
        return "its file server"
    return (
        f"its preparation {live_object.name}"
        if isinstance(live_object, Job)
        else f"its {KINDS[type(live_object)]} {live_object.name}"
    )


def _reason(live_object: Object, resource: Thing) -> str:
    """Return what a removed object that stays goes on doing."""
    if isinstance(live_object, Route):
        return word.STILL_OPEN
    if isinstance(live_object, Job):
        return word.STILL_RUNNING
    if isinstance(live_object, Deployment) and (
        live_object.ending or live_object.replicas or live_object.there or resource.reason == word.TERMINATING
    ):
        return word.STILL_RUNNING
    return word.STILL_THERE


def _saying(resource: T, conditions: Sequence[Condition], look: TenantSeen) -> T:
    """Return a thing with these conditions; its message says what stays, and nothing else where that is the thing
    itself."""
    stuck_conditions: list[Condition] = [condition for condition in conditions if condition.reason in STATES]
    reason, message = resource.reason, resource.message
    if stuck_conditions:
        own_condition = next(
            (condition for condition in stuck_conditions if condition.type in (word.DECLARED, word.STOPPED_DECLARED)),
            None,
        )
        words = [
            *(condition.message for condition in stuck_conditions),
            way_out(resource, look.tenant, look.cluster, look.parts),
        ]
        if own_condition is not None:
            reason = own_condition.reason
        elif message:
            words.insert(0, message)
        message = "; ".join(words)
    return msgspec.structs.replace(
        resource, reason=reason, message=message, conditions=(*resource.conditions, *conditions)
    )


def way_out(resource: Thing, tenant: str, cluster: str, parts: Collection[str]) -> str:
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


def going(resource: Thing) -> list[Condition]:
    """Return the conditions of what is removed and may be going just now."""
    return [
        condition for condition in resource.conditions if _is_of_removed(condition) and condition.reason not in STATES
    ]


def staying(resource: Thing) -> list[Condition]:
    """Return the conditions of what is removed and stays."""
    return [condition for condition in resource.conditions if _is_of_removed(condition) and condition.reason in STATES]


def _things(status: TenantStatus) -> list[Thing]:
    return [*status.instances, *status.storages, *status.snapshots]


def left(status: TenantStatus) -> Iterator[Left]:
    """Yield all that a cluster still has of a tenant although it is removed, and for too long."""
    parts = [application.name for application in status.applications]
    for resource in _things(status):
        for condition in staying(resource):
            way = way_out(resource, status.tenant, status.cluster, parts)
            yield Left(type(resource).__name__.lower(), status.tenant, resource.name, condition, way)


def awaits_look(objects: Iterable[Object], published: Published) -> bool:
    """Return whether only a later look at the branch can tell of an object whether it is published."""
    return any(published.is_too_old_for(live_object) for live_object in objects)


def may_change(status: TenantStatus) -> bool:
    """Return whether time alone makes what is going into what stays."""
    return any(going(resource) for resource in _things(status))

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

    def lacks(self, one: Object) -> bool:
        """Return whether an object isn't published.

        One that is no older than this look may have been published after it: nothing is known of that yet.
        """
        return one.created < self.time and not self._has(one)

    def has_instance(self, name: str) -> bool:
        """Return whether an instance's Deployment is published."""
        return (KINDS[Deployment], name) in self.objects

    def has_stopped(self, name: str) -> bool:
        """Return whether an instance is published without replicas."""
        return (WITHOUT_REPLICAS, name) in self.objects

    def is_too_old_for(self, one: Object) -> bool:
        """Return whether only a later look can tell of an object."""
        return one.created >= self.time and not self._has(one)

    def _has(self, one: Object) -> bool:
        return (KINDS[type(one)], one.name) in self.objects


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
    found: dict[tuple[type, str], list[Object]] = defaultdict(list)
    for one in objects:
        if isinstance(one, VolumeSnapshot):
            found[Snapshot, one.snapshot].append(one)
        elif isinstance(one, Deployment | Route) and one.instance:
            found[Instance, one.instance].append(one)
        else:
            found[Storage, one.storage].append(one)
    return found


def with_removed(thing: T, objects: Sequence[Object], before: T | None, look: TenantSeen) -> T:
    """Return a thing with what of it is removed and still there; `objects` are all that the cluster has of it.

    Where it isn't known what is published, what was said of objects that are still there stays as it was.
    """
    own = _own(objects)
    known = {one.type: one for one in before.conditions if _is_of_removed(one)} if before is not None else {}
    if look.published is None:
        there = {_type(one, own) for one in objects}
        if isinstance(thing, Instance) and _runs(own, thing):
            there |= {word.STOPPED_DECLARED} if own is not None else {word.STOPPED_DECLARED, word.DECLARED}
        found = [one for kind, one in known.items() if kind in there]
    else:
        found = [_condition(one, own, thing, known, look.now) for one in _removed(objects, own, look.published)]
        if isinstance(thing, Instance) and _runs(own, thing):
            if look.published.has_stopped(thing.name):
                found.append(_still_running(known, look.now))
            elif own is None and not look.published.has_instance(thing.name):
                found.append(_ending(word.DECLARED, word.STILL_RUNNING, "", known, look.now))
    return _saying(thing, found, look) if found else thing


def _own(objects: Sequence[Object]) -> Object | None:
    """Return the object without which a thing isn't there; a volume rather than a bucket, of several the last."""
    found = [one for one in objects if _is_own(one)]
    return max(enumerate(found), key=lambda one: (not isinstance(one[1], BucketClaim), one[0]))[1] if found else None


def _is_own(one: Object) -> bool:
    if isinstance(one, Deployment):
        return bool(one.instance)
    return isinstance(one, VolumeClaim | BucketClaim | VolumeSnapshot)


def _removed(objects: Sequence[Object], own: Object | None, published: Published) -> list[Object]:
    """Return what isn't published: the thing itself, or else what belongs to it. A Job that has ended doesn't count."""
    if own is not None and published.lacks(own):
        return [own]
    return [one for one in objects if one is not own and published.lacks(one) and not _has_ended(one)]


def _has_ended(one: Object) -> bool:
    return isinstance(one, Job) and (one.succeeded or bool(one.failure))


def _type(one: Object, own: Object | None) -> str:
    """Return the type of an object's condition: of the thing itself, or with the kind and name of what belongs to it."""
    return word.DECLARED if one is own else f"{word.DECLARED}.{KINDS[type(one)]}.{one.name}"


def _is_of_removed(condition: Condition) -> bool:
    if condition.type == word.STOPPED_DECLARED:
        return True
    return condition.type == word.DECLARED or condition.type.startswith(f"{word.DECLARED}.")


def _condition(one: Object, own: Object | None, thing: Thing, known: dict[str, Condition], now: str) -> Condition:
    return _ending(_type(one, own), _reason(one, thing), "" if one is own else f"{_what(one)} is ", known, now)


def _ending(kind: str, reason: str, what: str, known: dict[str, Condition], now: str) -> Condition:
    """Return that something is removed; `reason` is what it goes on doing if that takes too long."""
    since = (known[kind].last_transition_time if kind in known else "") or now
    if seconds_between(since, now) < SECONDS:
        return Condition(kind, "False", word.REMOVED, f"{what}being removed", since)
    return Condition(kind, "False", reason, f"{what}removed, {STATES[reason]}: not published since {since}", since)


def _runs(own: Object | None, thing: Instance) -> bool:
    """Return whether an instance has pods, or will; of one whose Deployment is gone pods may be left."""
    if own is None:
        return bool(thing.pods)
    return isinstance(own, Deployment) and bool(own.replicas or own.there or thing.pods)


def _still_running(known: dict[str, Condition], now: str) -> Condition:
    """Return that an instance is published without replicas and runs."""
    kind = word.STOPPED_DECLARED
    since = (known[kind].last_transition_time if kind in known else "") or now
    if seconds_between(since, now) < STOPPED_SECONDS:
        return Condition(kind, "False", word.STOPPING, "being stopped", since)
    words = f"declared stopped, still running: published without replicas since {since}"
    return Condition(kind, "False", word.STOPPED_STILL_RUNNING, words, since)


def _what(one: Object) -> str:
    """Return what belongs to a thing in words."""
    if isinstance(one, Route):
        return f"its address {printable(one.url, 200)}" if one.url else f"its route {one.name}"
    if isinstance(one, Deployment) and one.name == names.files_service(one.storage):
        return "its file server"
    return f"its preparation {one.name}" if isinstance(one, Job) else f"its {KINDS[type(one)]} {one.name}"


def _reason(one: Object, thing: Thing) -> str:
    """Return what a removed object that stays goes on doing."""
    if isinstance(one, Route):
        return word.STILL_OPEN
    if isinstance(one, Job):
        return word.STILL_RUNNING
    if isinstance(one, Deployment) and (one.ending or one.replicas or one.there or thing.reason == word.TERMINATING):
        return word.STILL_RUNNING
    return word.STILL_THERE


def _saying(thing: T, found: Sequence[Condition], look: TenantSeen) -> T:
    """Return a thing with these conditions; its message says what stays, and nothing else where that is the thing
    itself."""
    said: list[Condition] = [one for one in found if one.reason in STATES]
    reason, message = thing.reason, thing.message
    if said:
        gone = next((one for one in said if one.type in (word.DECLARED, word.STOPPED_DECLARED)), None)
        words = [*(one.message for one in said), way_out(thing, look.tenant, look.cluster, look.parts)]
        if gone is not None:
            reason = gone.reason
        elif message:
            words.insert(0, message)
        message = "; ".join(words)
    return msgspec.structs.replace(thing, reason=reason, message=message, conditions=(*thing.conditions, *found))


def way_out(thing: Thing, tenant: str, cluster: str, parts: Collection[str]) -> str:
    """Return what to do about what stays of a thing; `parts` are the tenant's Applications that there are."""
    if (
        isinstance(thing, Instance) and thing.pods and not thing.units
    ):  # its Deployment is gone, so Argo CD knows of none
        return f"ask the platform team to delete its pods in Namespace {names.namespace(tenant)}"
    part = "compute" if isinstance(thing, Instance) else "storage"
    application = names.application(tenant, cluster, part)
    if part in parts:
        return f"ask the platform team to refresh Application {application}"
    return f"ask the platform team to delete it: Application {application} is gone"


def going(thing: Thing) -> list[Condition]:
    """Return the conditions of what is removed and may be going just now."""
    return [one for one in thing.conditions if _is_of_removed(one) and one.reason not in STATES]


def staying(thing: Thing) -> list[Condition]:
    """Return the conditions of what is removed and stays."""
    return [one for one in thing.conditions if _is_of_removed(one) and one.reason in STATES]


def _things(status: TenantStatus) -> list[Thing]:
    return [*status.instances, *status.storages, *status.snapshots]


def left(status: TenantStatus) -> Iterator[Left]:
    """Yield all that a cluster still has of a tenant although it is removed, and for too long."""
    parts = [one.name for one in status.applications]
    for thing in _things(status):
        for condition in staying(thing):
            way = way_out(thing, status.tenant, status.cluster, parts)
            yield Left(type(thing).__name__.lower(), status.tenant, thing.name, condition, way)


def awaits_look(objects: Iterable[Object], published: Published) -> bool:
    """Return whether only a later look at the branch can tell of an object whether it is published."""
    return any(published.is_too_old_for(one) for one in objects)


def may_change(status: TenantStatus) -> bool:
    """Return whether time alone makes what is going into what stays."""
    return any(going(thing) for thing in _things(status))

"""How far what a pull request changed has come: from its merge to running, or to why it doesn't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from allotment import conditions as word
from allotment.declared.things import THINGS
from allotment.observed import removed
from allotment.observed.deletion_point import LOST, marked_since, saving_words
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.observed.status import Condition, Instance, Snapshot, Storage, TenantStatus

Progress = Literal["going", "done", "failed"]
Thing = Instance | Storage | Snapshot


class Merged(NamedTuple):
    """An instance, storage or snapshot that was merged: the blob of its declaration, empty where it was removed."""

    kind: str
    tenant: str
    name: str
    cluster: str
    blob: str


class LeavingVolume(NamedTuple):
    """A published volume that nothing declares any more: whether it is protected still, and for how many seconds it must be
    seen to be marked before it goes."""

    protected: bool
    after: float


class MergedBlobs(NamedTuple):
    """The published state of a resource: the blob that the source has of it, the rendered blob, and its volume where that is
    leaving. `waits` is the message of an instance that waits for units of another GPUSpec."""

    source: str
    rendered: str
    leaving: LeavingVolume | None = None
    waits: str = ""


class Stage(NamedTuple):
    """How far a thing is: in a word, why, where it is reached, and what to do."""

    progress: Progress
    state: str
    words: str = ""
    url: str = ""
    way_out: str = ""


# What a person can do about a reason, where the reason's own words don't say it.
_WAYS_OUT = {
    word.NO_FREE_UNIT: "stop another instance, or choose another GPUSpec or cluster",
    word.RESIZE_PENDING: "stop another instance, or choose another GPUSpec",
    word.IMAGE_PULL_FAILED: "correct the image's name and digest",
    word.CRASH_LOOP: "read its log in Argo CD, correct its command or arguments",
    word.CONTAINER_ENDED: "read its log in Argo CD, correct its command or arguments",
    word.OUT_OF_MEMORY: "choose a GPUSpec with more memory",
    word.PROBE_FAILED: "read its log in Argo CD; a longer startTimeout may help",
    word.CONFIG_FAILED: "correct its command, or what it takes from a bucket; else show this to the platform team",
    word.NODE_LOST: "it goes on by itself",
    word.GPU_UNHEALTHY: "show this to the platform team",
    word.CREATION_REFUSED: "show this to the platform team",
    word.ADMISSION_FAILED: "show this to the platform team",
    word.SYNC_FAILED: "show this to the platform team",
    word.ROUTE_REFUSED: "show this to the platform team",
    word.VOLUME_LOST: "show this to the platform team",
    word.JOB_FAILED: "read its log in Argo CD; correct the source, or try again with `allot recover`",
    word.CHECKSUM_MISMATCH: "correct the URL or its sha256",
    word.ADDRESS_REFUSED: "name an https address of the internet",
    word.SOURCE_UNAVAILABLE: "correct the source, or try again with `allot recover`",
    word.SOURCE_UNREADABLE: "correct the source, or try again with `allot recover`",
    word.ACCESS_DENIED: "correct the source's secretRef, or ask its owner",
    word.SUPERSEDED: "raise spec.prepare.attempt if what another preparation brought is to be overwritten",
    word.NO_SPACE: "raise spec.size, then try again with `allot recover`",
    word.DEADLINE_EXCEEDED: "raise spec.prepare.timeout, then try again with `allot recover`",
    word.SOURCE_UNPREPARED: "it goes on by itself once that is prepared",
    word.STORAGE_UNPREPARED: "it starts by itself once the storage is prepared",
}
_ELSE = "see `allot status`"


def stage(
    resource: Merged,
    published: MergedBlobs | None,
    statuses: Sequence[TenantStatus],
    silent: Mapping[str, str] = MappingProxyType({}),
    retained: RetainedTenant | None = None,
) -> Stage:
    """Return how far a thing is; `published` is None while its merge is not published. `silent` has in words why
    nothing, or nothing certain, is known of a cluster. `retained` is the tenant in the record of the retained tenants."""
    if published is None:
        return Stage("going", "merged", "not published yet")
    if published.source != resource.blob:
        return Stage("done", "overtaken", "a later change replaced this one")
    if published.rendered != resource.blob and published.waits and resource.blob:
        return Stage("going", "waiting", published.waits, way_out=_WAYS_OUT[word.RESIZE_PENDING])
    if published.rendered != resource.blob:
        description = "still published as it was before" if published.rendered else "not published"
        if retained is None:
            return Stage("failed", "kept", description, way_out="run `allot validate`, or `allot publish --dry-run`")
        words = f"{description}: its tenant is retained: {retained.words}"
        return Stage("failed", "kept", words, way_out=WAYS_OUT[retained.reason])
    seen = _seen(resource, statuses)
    if not resource.blob and published.leaving is not None:
        mark = marked_since(seen.conditions) if seen is not None else ""
        words = saving_words(mark, published.leaving.after) if published.leaving.protected else LOST
        return (_left(resource, seen, statuses) if seen is not None else None) or Stage("going", "removing", words)
    if not resource.blob:
        if seen is None:
            return Stage("done", "gone")
        return _left(resource, seen, statuses) or Stage("going", "published", "being removed")
    if seen is None or seen.observed_blob != resource.blob:
        return _unsynced(resource, statuses, silent)
    if any(condition.type == word.DECLARED for condition in seen.conditions):
        return Stage("going", "published", "its cluster's status is of the time when it was removed")
    runtime_stage = _of_instance(seen) if isinstance(seen, Instance) else _of_data(seen)
    going = removed.going(seen)
    if going and runtime_stage.progress == "done":
        runtime_stage = Stage("going", runtime_stage.state, _words(going), runtime_stage.url)
    if runtime_stage.progress == "failed":
        return runtime_stage  # its message says what stays, too
    return _left(resource, seen, statuses) or runtime_stage


def _left(resource: Merged, seen: Thing, statuses: Sequence[TenantStatus]) -> Stage | None:
    """Return that something is removed and stays; None where nothing is."""
    stays = removed.staying(seen)
    if not stays:
        return None
    status = _status(resource, statuses)
    parts = [application.name for application in status.applications] if status is not None else []
    way_out = removed.way_out(seen, resource.tenant, resource.cluster, parts)
    return Stage("failed", removed.STATES[stays[0].reason], _words(stays), way_out=way_out)


def _words(conditions: Sequence[Condition]) -> str:
    return "; ".join(condition.message for condition in conditions)


def _status(resource: Merged, statuses: Sequence[TenantStatus]) -> TenantStatus | None:
    """Return what the cluster of a thing says of its tenant."""
    return next(
        (status for status in statuses if (status.tenant, status.cluster) == (resource.tenant, resource.cluster)), None
    )


def _seen(resource: Merged, statuses: Sequence[TenantStatus]) -> Thing | None:
    status = _status(resource, statuses)
    if status is None:
        return None
    resources: Sequence[Thing] = getattr(status, THINGS[resource.kind].plural)
    return next((candidate for candidate in resources if candidate.name == resource.name), None)


def _unsynced(resource: Merged, statuses: Sequence[TenantStatus], silent: Mapping[str, str]) -> Stage:
    """Return that Argo CD hasn't applied it, or can't: another thing of its Application may be refused. Where nothing
    is known of its cluster, that is said instead."""
    part = THINGS[resource.kind].part
    status = _status(resource, statuses)
    if status is None and resource.cluster in silent:
        return Stage("going", "published", f"what runs in {resource.cluster} isn't known: {silent[resource.cluster]}")
    for application in status.applications if status is not None else ():
        if application.name == part and application.health == "Degraded" and application.sync != "Synced":
            return Stage("failed", "published", "Argo CD can't apply it", way_out=_WAYS_OUT[word.SYNC_FAILED])
    return Stage("going", "published", "Argo CD hasn't applied it yet")


def _of_instance(seen: Instance) -> Stage:
    if seen.state == word.RUNNING:
        return Stage("done", "running", seen.message, seen.url)
    if seen.state == word.FAILED:
        return _failed(seen)
    if seen.state == word.STOPPED:
        finished = seen.reason != word.TERMINATING
        return Stage("done" if finished else "going", "stopped", seen.message)
    if seen.state == word.WAITING:
        return Stage("going", "waiting", seen.message or seen.reason, way_out=_WAYS_OUT.get(seen.reason, ""))
    words = "its units are held" if seen.state == word.INIT else "its container has started"
    state = "synced" if seen.state == word.INIT else word.displayed_state(seen.state, of_instance=True).lower()
    return Stage("going", state, seen.message or words)


def _of_data(seen: Storage | Snapshot) -> Stage:
    if seen.state == word.AVAILABLE_STORAGE:
        return Stage("done", "ready", seen.message, seen.url if isinstance(seen, Storage) else "")
    if seen.state in (word.FAILED, word.LOST):
        return _failed(seen)
    words = {word.PENDING: "waits for its volume", word.PREPARING: "is being prepared"}.get(seen.state, seen.state)
    return Stage("going", "synced", seen.message or words)


def _failed(seen: Thing) -> Stage:
    return Stage("failed", "failed", seen.message or seen.reason, way_out=_WAYS_OUT.get(seen.reason, _ELSE))

"""All live objects of a tenant → its status, with every change of state since the last one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.declared.things import INSTANCE, SNAPSHOT, STORAGE
from allotment.manifests import names
from allotment.manifests.tenant import disruption
from allotment.observed import instances, removed, snapshots, storages
from allotment.observed.conditions import Conditions, synced
from allotment.observed.copies import InstanceView
from allotment.observed.objects import (
    Application,
    BucketClaim,
    Deployment,
    DisruptionBudget,
    Job,
    LiveObject,
    Namespace,
    Pod,
    ReplicaSet,
    Route,
    Seen,
    VolumeClaim,
    VolumeSnapshot,
)
from allotment.observed.status import ApplicationStatus, Instance, Snapshot, Storage, TenantStatus, Transition


class Live(NamedTuple):
    """The sorted-out objects of one tenant in one cluster."""

    deployments: list[Deployment]
    replica_sets: list[ReplicaSet]
    pods: list[Pod]
    jobs: list[Job]
    claims: list[VolumeClaim]
    buckets: list[BucketClaim]
    snapshots: list[VolumeSnapshot]
    routes: list[Route]
    applications: list[Application]
    namespaces: list[Namespace]
    budgets: list[DisruptionBudget]
    whole: list[LiveObject]

    @staticmethod
    def of(objects: Iterable[Seen]) -> Live:
        """Return objects sorted by what they are."""
        kinds: dict[type, list[Seen]] = defaultdict(list)
        for one in objects:
            kinds[type(one)].append(one)
        about = Deployment, ReplicaSet, Pod, Job, VolumeClaim, BucketClaim, VolumeSnapshot
        order = *about, Route, Application, Namespace, DisruptionBudget, LiveObject
        return Live(*(kinds[kind] for kind in order))  # type: ignore[arg-type]

    @property
    def rendered(self) -> list[removed.Object]:
        """The objects that we render; pods and ReplicaSets follow from them."""
        return [*self.deployments, *self.jobs, *self.claims, *self.buckets, *self.snapshots, *self.routes]

    @property
    def is_of_tenant(self) -> bool:
        """Whether anything here has the tenant's label, rather than only to lie in a namespace that is named like its own."""
        return any(several for several in self if several is not self.whole)

    def published_last(self, published: removed.Published) -> Live:
        """Return the same with what isn't published first: of two that claim to be one thing, the last counts."""

        def is_published(one: removed.Object) -> bool:
            return not published.lacks(one)

        return self._replace(
            deployments=sorted(self.deployments, key=is_published),
            claims=sorted(self.claims, key=is_published),
            buckets=sorted(self.buckets, key=is_published),
            snapshots=sorted(self.snapshots, key=is_published),
        )


# By part: the source commit that is live in a folder of the rendered branch, and the folder's Git tree.
Sources = Mapping[str, tuple[str, str]]


def tenant_status(
    tenant: str,
    cluster: str,
    live: Live,
    *,
    before: TenantStatus | None,
    now: str,
    sources: Sources | None = None,
    published: removed.Published | None = None,
) -> TenantStatus:
    """Return a tenant's status. Its transitions are those since `before`, whose own are left behind.

    `published` is what the rendered branch has of the tenant, None where that isn't known.
    """
    if published is not None:
        live = live.published_last(published)
    parts = {one.name.rpartition("--")[2]: one for one in live.applications}
    look = removed.TenantSeen(tenant, cluster, parts, published, now)
    there = removed.by_thing(live.rendered)

    def judged(thing: removed.T, known: Mapping[str, removed.T]) -> removed.T:
        return removed.with_removed(thing, there.get((type(thing), thing.name), ()), known.get(thing.name), look)

    known_storages = {one.name: one for one in before.storages} if before else {}
    known_instances = {one.name: one for one in before.instances} if before else {}
    waiting = _waiting(parts.get("storage"))
    stored = _storages(live, parts.get("storage"), waiting, known_storages, now)
    kept = tuple(judged(one, known_storages) for one in stored)
    known_snapshots = {one.name: one for one in before.snapshots} if before else {}
    shots = _snapshots(live, parts.get("storage"), waiting, known_snapshots, now)
    taken = tuple(judged(one, known_snapshots) for one in shots)
    by_name = {one.name: one for one in kept}
    running = _instances(cluster, live, parts.get("compute"), known_instances, by_name, now)
    run = tuple(judged(one, known_instances) for one in running)
    return TenantStatus(
        tenant=tenant,
        cluster=cluster,
        applications=tuple(_part(name, one, before, sources or {}) for name, one in sorted(parts.items())),
        instances=run,
        storages=kept,
        snapshots=taken,
        namespace=next((word.UNPROTECTED if one.unprotected else word.PROTECTED for one in live.namespaces), ""),
        disruption=word.PROTECTED if any(one.name == disruption.ALL and not one.ending for one in live.budgets) else "",
        transitions=(
            *_transitions(known_instances, run, known_storages, kept, now),
            *_taken(known_snapshots, taken, now),
        ),
    )


def _waiting(application: Application | None) -> dict[str, str]:
    """Return the storages and snapshots that wait for a storage, and for which: by the names of what stands for them."""
    markers = [name for kind, name in application.resources if kind == "ConfigMap"] if application else []
    split = [name.split(names.WAITS) for name in markers]
    return {parts[0]: parts[1] for parts in split if len(parts) == 2}


def _part(name: str, one: Application, before: TenantStatus | None, sources: Sources) -> ApplicationStatus:
    known = {part.name: part for part in before.applications} if before else {}
    if name in sources:
        commit, tree = sources[name]
    else:
        commit, tree = (known[name].source_commit, known[name].tree) if name in known else ("", "")
    return ApplicationStatus(name, one.sync or "Unknown", one.health or "Unknown", commit, tree)


def _snapshots(
    live: Live, application: Application | None, waiting: Mapping[str, str], before: Mapping[str, Snapshot], now: str
) -> Iterator[Snapshot]:
    there = {one.snapshot: one for one in live.snapshots if one.snapshot}
    awaited = {
        thing.removesuffix(SNAPSHOT.suffix): source
        for thing, source in waiting.items()
        if thing.endswith(SNAPSHOT.suffix)
    }
    for name in sorted(there.keys() | awaited.keys()):
        if name in there:
            found = synced(application, "VolumeSnapshot", there[name].name, live=True)
            yield snapshots.snapshot(there[name], found, now, before.get(name))
        else:
            yield snapshots.waiting(name, awaited[name], now, before.get(name))


def _storages(
    live: Live, application: Application | None, waiting: Mapping[str, str], before: Mapping[str, Storage], now: str
) -> Iterator[Storage]:
    claims = {one.storage: one for one in live.claims if one.storage}
    buckets = {one.storage: one for one in live.buckets if one.storage and one.storage not in claims}
    unborn = {name for name in waiting if "--" not in name}
    for name in sorted(claims.keys() | buckets.keys() | unborn):
        claim = claims.get(name)
        if claim is None and name in buckets:
            found = synced(application, "ObjectBucketClaim", name, live=True)
            yield storages.bucket(buckets[name], found, now, before.get(name))
            continue
        if claim is None:
            yield storages.unborn(name, waiting[name], now, before.get(name))
            continue
        yield storages.storage(
            storages.StorageView(
                claim=claim,
                jobs=[job for job in live.jobs if job.storage == name],
                pods=[pod for pod in live.pods if pod.storage == name],
                accessor=next((one for one in live.deployments if one.storage == name), None),
                routes=[route for route in live.routes if route.storage == name],
                synced=synced(application, "PersistentVolumeClaim", claim.name, live=True),
                now=now,
                awaited=waiting.get(name, ""),
            ),
            before.get(name),
        )


def _instances(
    cluster: str,
    live: Live,
    application: Application | None,
    before: Mapping[str, Instance],
    kept: dict[str, Storage],
    now: str,
) -> Iterator[Instance]:
    there = {one.instance: one for one in live.deployments if one.instance}
    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in live.pods:
        pods[pod.instance].append(pod)
    rollouts: dict[str, list[ReplicaSet]] = defaultdict(list)
    for each in live.replica_sets:
        rollouts[each.owner].append(each)
    unborn = {name for kind, name in application.resources if kind == "Deployment"} if application else set()
    orphans = {
        name: left for name, several in pods.items() if (left := [pod for pod in several if instances.is_holding(pod)])
    }
    for name in sorted(there.keys() | unborn | orphans.keys() - {""}):
        if name not in there and name in orphans:
            yield instances.orphaned(name, orphans[name], before.get(name), now)
            continue
        if name not in there:
            yield _unborn(name, application, before.get(name), now)
            continue
        view = InstanceView(
            cluster=cluster,
            deployment=there[name],
            rollout=rollouts[there[name].uid],
            pods=pods[name],
            routes=[route for route in live.routes if route.instance == name],
            storages=kept,
            synced=synced(application, "Deployment", name, live=True),
            now=now,
        )
        yield instances.instance(view, before.get(name))


def _unborn(name: str, application: Application | None, before: Instance | None, now: str) -> Instance:
    """An instance that is published, and that the cluster hasn't got."""
    found = synced(application, "Deployment", name, live=False)
    failed = found.reason == word.SYNC_FAILED
    state = word.FAILED if failed else word.INIT
    same = before is not None and before.state == state
    conditions = Conditions(before.conditions if before else (), now)
    conditions.add(word.SYNCED, *found)
    return Instance(
        name,
        before.observed_blob if before else "",
        state,
        found.reason,
        found.message,
        before.since if before is not None and same else now,
        gpu_spec=before.gpu_spec if before else "",
        conditions=conditions.all(),
    )


def _transitions(
    instances_before: Mapping[str, Instance],
    run: Sequence[Instance],
    storages_before: Mapping[str, Storage],
    kept: Sequence[Storage],
    now: str,
) -> Iterator[Transition]:
    there = {one.name for one in run} if instances_before else set()
    for name in sorted(instances_before.keys() - there):
        yield Transition(INSTANCE.kind.name, name, instances_before[name].state, "", "", now)
    for one in run:
        before = instances_before.get(one.name)
        state = before.state if before else ""
        if before is not None and before.state == one.state:
            continue
        for target, time in instances.steps(before, one):
            yield Transition(
                INSTANCE.kind.name, one.name, state, target, one.reason if target == one.state else "", time
            )
            state = target
    stored = {each.name for each in kept}
    for name in sorted(storages_before.keys() - stored):
        yield Transition(STORAGE.kind.name, name, storages_before[name].state, "", "", now)
    for each in kept:
        was = storages_before.get(each.name)
        if was is not None and was.claim != each.claim:
            yield Transition(STORAGE.kind.name, each.name, was.state, "", word.VOLUME_LOST, now)
            was = None
        if was is None or was.state != each.state:
            yield Transition(
                STORAGE.kind.name, each.name, was.state if was else "", each.state, each.reason, each.since
            )


def _taken(before: Mapping[str, Snapshot], taken: Sequence[Snapshot], now: str) -> Iterator[Transition]:
    there = {one.name for one in taken}
    for name in sorted(before.keys() - there):
        yield Transition(SNAPSHOT.kind.name, name, before[name].state, "", "", now)
    for one in taken:
        was = before.get(one.name)
        if was is None or was.state != one.state:
            yield Transition(SNAPSHOT.kind.name, one.name, was.state if was else "", one.state, one.reason, one.since)


def unsettled(status: TenantStatus) -> bool:
    """Return whether a status may change by time alone: a pod looks for its place, a container was just started again, or what is
    removed is going."""
    return any(map(instances.may_change, status.instances)) or removed.may_change(status)

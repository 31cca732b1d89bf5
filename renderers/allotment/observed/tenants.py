"""Derives the status of a tenant from its live objects, with every change of state since the previous status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.manifests import names
from allotment.manifests.tenant import disruption
from allotment.observed import instances, orphans, snapshots, storages
from allotment.observed.conditions import ConditionBuilder, derive_synced_condition
from allotment.observed.objects import (
    Application,
    BucketClaim,
    Deployment,
    DisruptionBudget,
    Job,
    LiveObject,
    Namespace,
    ObservedObject,
    Pod,
    ReplicaSet,
    Route,
    VolumeClaim,
    VolumeSnapshot,
)
from allotment.observed.pod_state import InstanceView
from allotment.observed.status import (
    ApplicationStatus,
    Instance,
    Snapshot,
    Storage,
    TenantStatus,
    Transition,
    UsageInterval,
)


class TenantObjects(NamedTuple):
    """The objects of one tenant in one cluster, by type."""

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
    whole_objects: list[LiveObject]

    @staticmethod
    def from_objects(objects: Iterable[ObservedObject]) -> TenantObjects:
        """Return `objects`, grouped by type."""
        kinds: dict[type, list[ObservedObject]] = defaultdict(list)
        for live_object in objects:
            kinds[type(live_object)].append(live_object)
        about = Deployment, ReplicaSet, Pod, Job, VolumeClaim, BucketClaim, VolumeSnapshot
        order = *about, Route, Application, Namespace, DisruptionBudget, LiveObject
        return TenantObjects(*(kinds[kind] for kind in order))  # type: ignore[arg-type]

    @property
    def rendered_objects(self) -> list[orphans.RenderedObject]:
        """The objects that Allotment rendered. Controllers create the pods and ReplicaSets, so these are left out."""
        return [*self.deployments, *self.jobs, *self.claims, *self.buckets, *self.snapshots, *self.routes]

    @property
    def has_labelled_objects(self) -> bool:
        """Whether an object has the tenant's label.

        `whole_objects` are ignored, because they may lie in the tenant's namespace without having the label.
        """
        return any(objects for objects in self if objects is not self.whole_objects)

    def prefer_published(self, published: orphans.PublishedObjects) -> TenantObjects:
        """Return the objects in an order in which the published objects come last.

        If several objects of a type belong to the same resource, the status of the resource comes from the last object.
        """

        def is_published(live_object: orphans.RenderedObject) -> bool:
            return not published.is_unpublished(live_object)

        return self._replace(
            deployments=sorted(self.deployments, key=is_published),
            claims=sorted(self.claims, key=is_published),
            buckets=sorted(self.buckets, key=is_published),
            snapshots=sorted(self.snapshots, key=is_published),
        )


# For each part (storage, compute) of a tenant: the source commit from which the applied manifests were rendered, and
# the Git tree of these manifests on the rendered branch.
PartSources = Mapping[str, tuple[str, str]]


def derive_tenant_status(
    tenant: str,
    cluster: str,
    live: TenantObjects,
    *,
    previous: TenantStatus | None,
    now: str,
    sources: PartSources | None = None,
    published: orphans.PublishedObjects | None = None,
    usage: Sequence[UsageInterval] = (),
) -> TenantStatus:
    """Return the status of a tenant. Its transitions are the changes since the status `previous`.

    `published` has the tenant's objects on the rendered branch; it is None if these objects are not known. `usage` are the
    intervals of use that continue.
    """
    if published is not None:
        live = live.prefer_published(published)
    parts = {application.name.rpartition("--")[2]: application for application in live.applications}
    observation = orphans.TenantObservation(tenant, cluster, parts, published, now)
    objects_by_resource = orphans.group_by_resource(live.rendered_objects)

    def judged(resource: orphans.T, previous_resources: Mapping[str, orphans.T]) -> orphans.T:
        return orphans.with_orphans(
            resource,
            objects_by_resource.get((type(resource), resource.name), ()),
            previous_resources.get(resource.name),
            observation,
        )

    known_storages = {storage.name: storage for storage in previous.storages} if previous else {}
    known_instances = {instance.name: instance for instance in previous.instances} if previous else {}
    waiting = _find_waiting(parts.get("storage"))
    stored = _derive_storages(live, parts.get("storage"), waiting, known_storages, now)
    storage_statuses = tuple(judged(storage, known_storages) for storage in stored)
    known_snapshots = {snapshot.name: snapshot for snapshot in previous.snapshots} if previous else {}
    shots = _derive_snapshots(live, parts.get("storage"), waiting, known_snapshots, now)
    snapshot_statuses = tuple(judged(snapshot, known_snapshots) for snapshot in shots)
    by_name = {storage.name: storage for storage in storage_statuses}
    running = _derive_instances(cluster, live, parts.get("compute"), known_instances, by_name, now)
    run = tuple(judged(instance, known_instances) for instance in running)
    return TenantStatus(
        tenant=tenant,
        cluster=cluster,
        applications=tuple(
            _application_status(name, application, previous, sources or {})
            for name, application in sorted(parts.items())
        ),
        instances=run,
        storages=storage_statuses,
        snapshots=snapshot_statuses,
        namespace=next(
            (word.UNPROTECTED if namespace.unprotected else word.PROTECTED for namespace in live.namespaces), ""
        ),
        disruption=word.PROTECTED
        if any(budget.name == disruption.ALL_INSTANCES_BUDGET and not budget.terminating for budget in live.budgets)
        else "",
        transitions=(
            *_find_transitions(known_instances, run, known_storages, storage_statuses, now),
            *_snapshot_transitions(known_snapshots, snapshot_statuses, now),
        ),
        usage=tuple(usage),
    )


def _find_waiting(application: Application | None) -> dict[str, str]:
    """Return the file stems of the storages and snapshots that wait, each with the storage that must be prepared first.

    For each of these storages and snapshots, the cluster has a ConfigMap as a wait marker. The name of the ConfigMap
    contains the stem of the waiting resource and the name of the other storage.
    """
    markers = [name for kind, name in application.resources if kind == "ConfigMap"] if application else []
    split = [name.split(names.WAIT_MARKER_INFIX) for name in markers]
    return {parts[0]: parts[1] for parts in split if len(parts) == 2}


def _application_status(
    name: str, application: Application, previous: TenantStatus | None, sources: PartSources
) -> ApplicationStatus:
    previous_parts = {part.name: part for part in previous.applications} if previous else {}
    if name in sources:
        commit, tree = sources[name]
    else:
        commit, tree = (
            (previous_parts[name].source_commit, previous_parts[name].tree) if name in previous_parts else ("", "")
        )
    return ApplicationStatus(name, application.sync or "Unknown", application.health or "Unknown", commit, tree)


def _derive_snapshots(
    live: TenantObjects,
    application: Application | None,
    waiting: Mapping[str, str],
    previous_snapshots: Mapping[str, Snapshot],
    now: str,
) -> Iterator[Snapshot]:
    volume_snapshots = {
        volume_snapshot.snapshot: volume_snapshot for volume_snapshot in live.snapshots if volume_snapshot.snapshot
    }
    awaited = {
        waiting_name.removesuffix(SNAPSHOT.suffix): source
        for waiting_name, source in waiting.items()
        if waiting_name.endswith(SNAPSHOT.suffix)
    }
    for name in sorted(volume_snapshots.keys() | awaited.keys()):
        if name in volume_snapshots:
            sync_condition = derive_synced_condition(
                application, "VolumeSnapshot", volume_snapshots[name].name, live=True
            )
            yield snapshots.derive_snapshot(volume_snapshots[name], sync_condition, now, previous_snapshots.get(name))
        else:
            yield snapshots.derive_waiting_snapshot(name, awaited[name], now, previous_snapshots.get(name))


def _derive_storages(
    live: TenantObjects,
    application: Application | None,
    waiting: Mapping[str, str],
    previous_storages: Mapping[str, Storage],
    now: str,
) -> Iterator[Storage]:
    claims = {volume_claim.storage: volume_claim for volume_claim in live.claims if volume_claim.storage}
    buckets = {
        bucket_claim.storage: bucket_claim
        for bucket_claim in live.buckets
        if bucket_claim.storage and bucket_claim.storage not in claims
    }
    missing_names = {name for name in waiting if "--" not in name}
    for name in sorted(claims.keys() | buckets.keys() | missing_names):
        claim = claims.get(name)
        if claim is None and name in buckets:
            sync_condition = derive_synced_condition(application, "ObjectBucketClaim", name, live=True)
            yield storages.derive_bucket(buckets[name], sync_condition, now, previous_storages.get(name))
            continue
        if claim is None:
            yield storages.derive_not_created(name, waiting[name], now, previous_storages.get(name))
            continue
        yield storages.derive_storage(
            storages.StorageView(
                claim=claim,
                jobs=[job for job in live.jobs if job.storage == name],
                pods=[pod for pod in live.pods if pod.storage == name],
                accessor=next((deployment for deployment in live.deployments if deployment.storage == name), None),
                routes=[route for route in live.routes if route.storage == name],
                synced_condition=derive_synced_condition(application, "PersistentVolumeClaim", claim.name, live=True),
                now=now,
                waits_for_storage=waiting.get(name, ""),
            ),
            previous_storages.get(name),
        )


def _derive_instances(
    cluster: str,
    live: TenantObjects,
    application: Application | None,
    previous_instances: Mapping[str, Instance],
    storage_statuses: dict[str, Storage],
    now: str,
) -> Iterator[Instance]:
    deployments = {deployment.instance: deployment for deployment in live.deployments if deployment.instance}
    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in live.pods:
        pods[pod.instance].append(pod)
    rollouts: dict[str, list[ReplicaSet]] = defaultdict(list)
    for each in live.replica_sets:
        rollouts[each.owner].append(each)
    missing_names = {name for kind, name in application.resources if kind == "Deployment"} if application else set()
    unowned_pods = {
        name: holding_pods
        for name, owned_pods in pods.items()
        if (holding_pods := [pod for pod in owned_pods if instances.holds_unit(pod)])
    }
    for name in sorted(deployments.keys() | missing_names | unowned_pods.keys() - {""}):
        if name not in deployments and name in unowned_pods:
            yield instances.derive_without_deployment(name, unowned_pods[name], previous_instances.get(name), now)
            continue
        if name not in deployments:
            yield _not_created_instance(name, application, previous_instances.get(name), now)
            continue
        view = InstanceView(
            cluster=cluster,
            deployment=deployments[name],
            replica_sets=rollouts[deployments[name].uid],
            pods=pods[name],
            routes=[route for route in live.routes if route.instance == name],
            storages=storage_statuses,
            synced_condition=derive_synced_condition(application, "Deployment", name, live=True),
            now=now,
        )
        yield instances.derive_instance(view, previous_instances.get(name))


def _not_created_instance(name: str, application: Application | None, previous: Instance | None, now: str) -> Instance:
    """Return the status of an instance that is published but not created in the cluster."""
    sync_condition = derive_synced_condition(application, "Deployment", name, live=False)
    failed = sync_condition.reason == word.SYNC_FAILED
    state = word.FAILED if failed else word.INIT
    same = previous is not None and previous.state == state
    conditions = ConditionBuilder(previous.conditions if previous else (), now)
    conditions.add(word.SYNCED, *sync_condition)
    return Instance(
        name,
        previous.observed_blob if previous else "",
        state,
        sync_condition.reason,
        sync_condition.message,
        previous.since if previous is not None and same else now,
        gpu_spec=previous.gpu_spec if previous else "",
        conditions=conditions.build(),
    )


def _find_transitions(
    instances_before: Mapping[str, Instance],
    run: Sequence[Instance],
    storages_before: Mapping[str, Storage],
    storage_statuses: Sequence[Storage],
    now: str,
) -> Iterator[Transition]:
    instance_names = {instance.name for instance in run} if instances_before else set()
    for name in sorted(instances_before.keys() - instance_names):
        yield Transition(INSTANCE.kind.name, name, instances_before[name].state, "", "", now)
    for instance in run:
        previous = instances_before.get(instance.name)
        state = previous.state if previous else ""
        if previous is not None and previous.state == instance.state:
            continue
        for target, time in instances.state_path(previous, instance):
            yield Transition(
                INSTANCE.kind.name,
                instance.name,
                state,
                target,
                instance.reason if target == instance.state else "",
                time,
            )
            state = target
    stored = {each.name for each in storage_statuses}
    for name in sorted(storages_before.keys() - stored):
        yield Transition(STORAGE.kind.name, name, storages_before[name].state, "", "", now)
    for each in storage_statuses:
        old = storages_before.get(each.name)
        if old is not None and old.claim != each.claim:
            yield Transition(STORAGE.kind.name, each.name, old.state, "", word.VOLUME_LOST, now)
            old = None
        if old is None or old.state != each.state:
            yield Transition(
                STORAGE.kind.name, each.name, old.state if old else "", each.state, each.reason, each.since
            )


def _snapshot_transitions(
    previous_snapshots: Mapping[str, Snapshot], snapshot_statuses: Sequence[Snapshot], now: str
) -> Iterator[Transition]:
    snapshot_names = {snapshot.name for snapshot in snapshot_statuses}
    for name in sorted(previous_snapshots.keys() - snapshot_names):
        yield Transition(SNAPSHOT.kind.name, name, previous_snapshots[name].state, "", "", now)
    for snapshot in snapshot_statuses:
        old = previous_snapshots.get(snapshot.name)
        if old is None or old.state != snapshot.state:
            yield Transition(
                SNAPSHOT.kind.name,
                snapshot.name,
                old.state if old else "",
                snapshot.state,
                snapshot.reason,
                snapshot.since,
            )


def is_time_dependent(status: TenantStatus) -> bool:
    """Return whether a status may change without a change of the live objects.

    The passing of time may change the status while a pod is being scheduled, after a container restarted, and while a
    removal or a stop is under way.
    """
    return any(map(instances.is_time_dependent, status.instances)) or orphans.is_time_dependent(status)

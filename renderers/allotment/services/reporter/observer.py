"""Derives the status of each tenant from a cluster's watches, and collects the transitions that aren't written yet."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from allotment import conditions as word
from allotment.adapters.git.repository import Repository
from allotment.branches.rendered_branches import live_source
from allotment.observed import orphans
from allotment.observed.cold_starts import find_cold_starts, select_newest
from allotment.observed.edits import ManualEdit, describe_edits, with_edits, with_edits_of
from allotment.observed.objects import PLATFORM_OWNER, Deployment, ObservedObject, Pod
from allotment.observed.status import (
    CapacityUsage,
    ClusterStatus,
    ColdStart,
    Condition,
    TenantStatus,
    Transition,
    UsageInterval,
)
from allotment.observed.stocks import derive_stocks
from allotment.observed.tenants import PartSources, TenantObjects, derive_tenant_status, is_time_dependent
from allotment.observed.usage import derive_usage, has_terminating_pod
from allotment.services.reporter.edit_detection import EditDetector, detect_edits_or_none
from allotment.services.reporter.observation_gaps import SILENT_SECONDS, WatchState, measure_silence, subtract_seconds
from allotment.services.reporter.published_objects import PublishedBranch
from allotment.services.reporter.usage_recorder import MAX_PENDING, UsageRecorder

_DELETION_STEPS = {word.MARKED_FOR_DELETION, word.UNPROTECTED}


class ObjectStore(Protocol):
    """The objects that the watches have seen, by owner."""

    changed: threading.Event
    events: int

    def owners(self) -> set[str]:
        """Return every owner that has an object."""
        ...

    def objects(self, owner: str) -> list[ObservedObject]:
        """Return all known objects of an owner."""
        ...

    def take_changed(self) -> set[str]:
        """Return the owners of objects that have changed since the last call."""
        ...


class ClusterSession(NamedTuple):
    """The connection to a cluster: its watches, their objects, the owner of the placeholders, and the API server's clock."""

    cluster: str
    watches: Sequence[WatchState]
    store: ObjectStore
    stock_owner: str
    read_clock: Callable[[], str]


class WrittenStatuses(NamedTuple):
    """The content of a status branch. `read_usage` returns the newest ended intervals of a tenant, or of the capacity ("")."""

    tenants: Mapping[str, TenantStatus]
    cluster: ClusterStatus
    capacity: CapacityUsage
    read_usage: Callable[[str], Sequence[UsageInterval]]


class LiveSourceFinder:
    """Finds the source commits of the manifests that are live, in a clone that has the rendered branch.

    The source commit is the commit of the declarations from which the manifests were rendered.
    """

    def __init__(self, repository: Repository, branch: PublishedBranch) -> None:
        self._repository = repository
        self._branch = branch

    def find_sources(self, tenant: str, live: TenantObjects, previous: TenantStatus | None) -> PartSources:
        """Return, for each changed part of a tenant, the source commit and the Git tree of the live manifests.

        A part is the folder of one Application of the tenant. Leaves out a part that is not synced, or that has not
        changed since the `previous` status.
        """
        previous_trees = {part.name: part.tree for part in previous.applications} if previous else {}
        sources = {}
        for application in live.applications:
            part = application.name.rpartition("--")[2]
            if application.sync == "Synced" and application.revision and self._branch.has_commit(application.revision):
                source = live_source(
                    self._repository, application.revision, f"tenants/{tenant}/{part}", previous_trees.get(part, "")
                )
                if source is not None:
                    sources[part] = source
        return sources


class Observer:
    """Derives the current statuses of a cluster.

    - `statuses` has the status of each tenant.
    - `pending_transitions` has the changes of state of each tenant that no commit contains yet.
    - `usage` has the usage that no commit contains yet.
    - `orphans` maps a tenant to the removed resources that are still in the cluster.
    - `recent_cold_starts` are the last cold starts of each GPUSpec.
    """

    def __init__(self, session: ClusterSession, sources: LiveSourceFinder, branch: PublishedBranch) -> None:
        self._session = session
        self._sources = sources
        self._branch = branch
        self._published_objects: dict[
            str, frozenset[tuple[str, str]]
        ] = {}  # by tenant: the published objects at the last observation
        self._compared_commit: str | None = None
        self._time_dependent_tenants: set[str] = set()
        self._unobserved_owners: set[str] = set()
        self._edit_detector = EditDetector(branch)
        self._deletion_marks: dict[str, str] = {}  # by tenant: the time of the newest mark
        self.statuses: dict[str, TenantStatus] = {}
        self.usage = UsageRecorder(session.cluster, session.watches)
        self.pending_transitions: dict[str, list[Transition]] = defaultdict(list)
        self.orphans: dict[str, list[orphans.Orphan]] = {}
        self.recent_cold_starts: tuple[ColdStart, ...] = ()
        self._platform_conditions: tuple[Condition, ...] = ()

    def resume(self, written: WrittenStatuses) -> None:
        """Continue from the written statuses. Every change since they were written becomes a pending transition.

        The usage keeps the times that this process has observed since then.
        """
        self.usage.begin_resume(written.cluster.observed_at, written.capacity, self.statuses)
        self.recent_cold_starts = select_newest((*written.cluster.cold_starts, *self.recent_cold_starts))
        self.statuses = {tenant: without_history(status) for tenant, status in written.tenants.items()}
        self._platform_conditions = written.cluster.conditions
        for collection in (
            self.pending_transitions,
            self.orphans,
            self._published_objects,
            self._time_dependent_tenants,
            self._deletion_marks,
        ):
            collection.clear()
        self._edit_detector.clear()
        self._branch.poll()
        self._compared_commit = self._branch.commit
        owners = {*written.tenants, *self._session.store.owners(), self._session.stock_owner, PLATFORM_OWNER}
        self._unobserved_owners |= owners
        self._observe_tenants(owners)
        self._unobserved_owners.clear()
        self.usage.finish_resume(written.tenants, written.read_usage, self.statuses)

    def forget_pending(self) -> None:
        """Forget the changes that no commit contains, because another replica reports the cluster."""
        self.pending_transitions.clear()
        self.statuses = {}
        self.usage.forget()

    def observe_changes(self) -> None:
        """Observe the tenants that may have changed since the last call. After an error, the next call repeats it."""
        self._branch.poll()
        changed = self._session.store.take_changed()
        self._unobserved_owners |= changed | self._find_republished_tenants()
        self._observe_tenants(
            self._unobserved_owners | self._time_dependent_tenants | self._edit_detector.undecided_tenants
        )
        self._unobserved_owners.clear()

    def _find_republished_tenants(self) -> set[str]:
        """Return the tenants with published objects that are unknown or have changed since the last observation."""
        commit = self._branch.commit
        if commit == self._compared_commit:
            return set()
        self._compared_commit = commit
        if commit is None:
            return set()
        now = {tenant: self._branch.find_published(tenant) for tenant in self.statuses}
        return {
            tenant
            for tenant, published in now.items()
            if published is None or self._published_objects.get(tenant) != published.objects
        } | {PLATFORM_OWNER}  # a merge may have changed its manifests without a change of an object

    @property
    def edits(self) -> list[ManualEdit]:
        """The edited and foreign objects of all tenants and of the platform."""
        return [edit for tenant_edits in self._edit_detector.edits.values() for edit in tenant_edits]

    def mark_written(self, tenants: Iterable[str]) -> None:
        """Record that the pending changes of these tenants, and all pending usage, are written."""
        self.usage.mark_written()
        for tenant in tenants:
            self.pending_transitions.pop(tenant, None)

    def list_changed_tenants(self, written_statuses: Mapping[str, TenantStatus]) -> list[str]:
        """Return the tenants with pending changes or with a status that differs from the written status, sorted."""
        return sorted(
            tenant
            for tenant, status in self.statuses.items()
            if tenant in self.pending_transitions or written_statuses.get(tenant) != status
        )

    def find_newest_deletion_mark(self) -> str:
        """Return the time when the cluster's newest deletion mark on a volume was first seen; empty if none."""
        return max(self._deletion_marks.values(), default="")

    def measure_silence(self) -> float:
        """Return the seconds since the last message on the watch that has been silent for the longest time."""
        return measure_silence(self._session.watches)

    def build_cluster_status(self, previous: ClusterStatus) -> ClusterStatus:
        """Return the current status of the cluster, with its stocks.

        `previous` is the last written status. If the cluster was silent when that status was written, `previous` has
        the time when the silence began.
        """
        name, objects = self._session.cluster, self._session.store.objects(self._session.stock_owner)
        held_units: dict[tuple[str, str], int] = defaultdict(int)
        for tenant, status in self.statuses.items():
            for instance in status.instances:
                held_units[instance.gpu_spec, tenant] += instance.units
        placeholders = [live_object for live_object in objects if isinstance(live_object, Deployment)]
        reported_stocks = derive_stocks(
            placeholders, [live_object for live_object in objects if isinstance(live_object, Pod)], held_units
        )
        now, silence = self._session.read_clock(), self.measure_silence()
        if silence <= SILENT_SECONDS:
            return ClusterStatus(
                name,
                now,
                reported_stocks,
                cold_starts=self.recent_cold_starts,
                conditions=self._platform_conditions,
            )
        since = previous.silent_since or subtract_seconds(now, silence)
        message = f"{name} has not answered since {since}: this status may be outdated"
        return ClusterStatus(
            name,
            min(since, now),
            reported_stocks,
            since,
            message,
            cold_starts=self.recent_cold_starts,
            conditions=self._platform_conditions,
        )

    def _observe_tenants(self, tenants: set[str]) -> None:
        now = self._session.read_clock()
        last_observed_at = self.usage.gaps.find_gap(now)
        try:
            if self._session.stock_owner in tenants:
                self.usage.observe_capacity(
                    self._session.store.objects(self._session.stock_owner), now, last_observed_at
                )
            if PLATFORM_OWNER in tenants:
                self._observe_platform(now)
            for tenant in sorted(tenants - {self._session.stock_owner, PLATFORM_OWNER}):
                self._observe_tenant(tenant, now, last_observed_at)
        except BaseException:
            self.usage.gaps.keep_open(last_observed_at)
            raise

    def _observe_platform(self, now: str) -> None:
        """Compare the platform's objects with their manifests. Keep the conditions if the manifests aren't known."""
        status = TenantStatus(PLATFORM_OWNER, self._session.cluster, conditions=self._platform_conditions)
        live = TenantObjects.from_objects(self._session.store.objects(PLATFORM_OWNER))
        published = self._branch.find_published(PLATFORM_OWNER)
        is_synced = all(application.sync == "Synced" for application in live.applications)
        revisions = {application.revision for application in live.applications}
        self._edit_detector.platform_revisions = frozenset(revisions if is_synced else ())
        edits = detect_edits_or_none(self._edit_detector, status, status, live.whole_objects, published, now)
        if edits is not None:
            self._platform_conditions = describe_edits(edits)

    def _observe_tenant(self, tenant: str, now: str, last_observed_at: str) -> None:
        cluster = self._session.cluster
        live, previous = TenantObjects.from_objects(self._session.store.objects(tenant)), self.statuses.get(tenant)
        if previous is None and not live.has_labelled_objects:
            return
        sources = self._sources.find_sources(tenant, live, previous)
        published = self._branch.find_published(tenant)
        usage = derive_usage(live, previous.usage if previous else (), now, last_observed_at)
        status = derive_tenant_status(
            tenant,
            cluster,
            live,
            previous=previous,
            now=now,
            sources=sources,
            published=published,
            usage=usage.current,
        )
        edits = detect_edits_or_none(self._edit_detector, status, previous, live.whole_objects, published, now)
        status = with_edits_of(status, previous) if edits is None else with_edits(status, edits)
        if status.transitions:
            transitions = self.pending_transitions[tenant]
            transitions += status.transitions[: max(0, MAX_PENDING - len(transitions))]
        self.usage.add(tenant, usage.ended)
        if cold := list(find_cold_starts(previous, status)):
            self.recent_cold_starts = select_newest((*self.recent_cold_starts, *cold))
        self.statuses[tenant] = without_history(status)
        self._deletion_marks[tenant] = _find_newest_deletion_mark(status)
        is_unsettled = (
            is_time_dependent(status)
            or has_terminating_pod(live.pods, usage.current)
            or (published is not None and orphans.needs_newer_branch(live.rendered_objects, published))
        )
        (self._time_dependent_tenants.add if is_unsettled else self._time_dependent_tenants.discard)(tenant)
        self._remember_published(tenant, status, published)

    def _remember_published(
        self, tenant: str, status: TenantStatus, published: orphans.PublishedObjects | None
    ) -> None:
        """Remember the published objects that a tenant was compared with, and its orphans."""
        self._published_objects.pop(tenant, None)
        if published is not None:
            self._published_objects[tenant] = published.objects
        self.orphans.pop(tenant, None)
        if leftovers := list(orphans.find_orphans(status)):
            self.orphans[tenant] = leftovers


def _find_newest_deletion_mark(status: TenantStatus) -> str:
    """Return the time when the tenant's newest deletion mark on a volume was first seen; empty if there is none.

    Ignores the volumes that have already lost their protection from deletion.
    """
    condition_lists = [
        *(storage.conditions for storage in status.storages),
        *(snapshot.conditions for snapshot in status.snapshots),
    ]
    condition_times = [
        {condition.type: condition.last_transition_time for condition in conditions} for conditions in condition_lists
    ]
    return max(
        [
            times[word.MARKED_FOR_DELETION]
            for times in condition_times
            if times.keys() & _DELETION_STEPS == {word.MARKED_FOR_DELETION}
        ],
        default="",
    )


def without_history(status: TenantStatus) -> TenantStatus:
    """Return a status without its transitions and the commit of the previous version."""
    return msgspec.structs.replace(status, transitions=(), previous="")

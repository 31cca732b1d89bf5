"""What a cluster's watches saw, tenant by tenant, and every change of it that hasn't been written yet."""

from __future__ import annotations

import datetime
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from allotment import conditions as word
from allotment.adapters.git.rendered import live_source
from allotment.adapters.git.repository import Repository
from allotment.observed import removed
from allotment.observed.cold_starts import cold_starts, newest
from allotment.observed.edits import Edit, with_conditions_of, with_edits
from allotment.observed.objects import Deployment, Pod, Seen
from allotment.observed.status import ClusterStatus, ColdStart, TenantStatus, Transition
from allotment.observed.stocks import stocks
from allotment.observed.tenants import Live, Sources, tenant_status, unsettled
from allotment.pipeline.report.comparing import Comparison, compared_or_none
from allotment.pipeline.report.published import PublishedBranch

SILENT_SECONDS = 180  # three bookmarks that didn't come
_STEPS = {word.MARKED, word.UNPROTECTED}
MOST_TRANSITIONS = 5_000  # of a tenant, while nothing can be pushed


class Watching(Protocol):
    """One of the cluster's watches, by the name of what it watches."""

    name: str
    synced: bool
    contact: float
    trouble: str


class Objects(Protocol):
    """What the watches have seen."""

    changed: threading.Event
    events: int

    def owners(self) -> set[str]:
        """Return everybody of whom there is something."""
        ...

    def objects(self, owner: str) -> list[Seen]:
        """Return all that is known of somebody."""
        ...

    def take_changed(self) -> set[str]:
        """Return who changed since the last call."""
        ...


class Seeing(NamedTuple):
    """A cluster as it is seen: its watches, their objects, whose placeholders lie where, and its API server's clock."""

    cluster: str
    watches: Sequence[Watching]
    store: Objects
    stocks: str
    now: Callable[[], str]


class LiveSources:
    """Finds the source commits that are live, in a clone that has the rendered branch."""

    def __init__(self, repository: Repository, branch: PublishedBranch) -> None:
        self._repository = repository
        self._branch = branch

    def of(self, tenant: str, live: Live, previous: TenantStatus | None) -> Sources:
        """Return the source commits of a tenant's parts whose folder isn't as it was when that was last found."""
        previous_trees = {part.name: part.tree for part in previous.applications} if previous else {}
        sources = {}
        for application in live.applications:
            part = application.name.rpartition("--")[2]
            if application.sync == "Synced" and application.revision and self._branch.has(application.revision):
                source = live_source(
                    self._repository, application.revision, f"tenants/{tenant}/{part}", previous_trees.get(part, "")
                )
                if source is not None:
                    sources[part] = source
        return sources


class Observed:
    """A cluster's statuses as they are now: `statuses` by tenant, `pending` their changes since what is written.

    `left` has, by tenant, what is removed and stays; `cold` the last cold starts of each GPUSpec.
    """

    def __init__(self, seeing: Seeing, sources: LiveSources, branch: PublishedBranch) -> None:
        self._seeing = seeing
        self._sources = sources
        self._branch = branch
        self._judged: dict[str, frozenset[tuple[str, str]]] = {}  # by tenant: what was published when it was looked at
        self._judged_by: str | None = None
        self._unsettled: set[str] = set()
        self._comparison = Comparison(branch)
        self._marks: dict[str, str] = {}  # by tenant, the newest
        self.statuses: dict[str, TenantStatus] = {}
        self.pending: dict[str, list[Transition]] = defaultdict(list)
        self.left: dict[str, list[removed.Left]] = {}
        self.cold: tuple[ColdStart, ...] = ()

    def begin(self, written: Mapping[str, TenantStatus], cluster: ClusterStatus) -> None:
        """Go on from what is written: every change since then is pending."""
        self.cold = newest((*cluster.cold_starts, *self.cold))
        self.statuses = dict(written)
        for collection in (self.pending, self.left, self._judged, self._unsettled, self._marks):
            collection.clear()
        self._comparison.clear()
        self._branch.look()
        self._judged_by = self._branch.commit
        self._observe(set(written) | self._seeing.store.owners())

    def look(self) -> None:
        """Take what changed since the last look."""
        self._branch.look()
        self._observe(
            self._seeing.store.take_changed() | self._unsettled | self._comparison.waiting | self._published_anew()
        )

    def _published_anew(self) -> set[str]:
        """Return the tenants of whom other objects are published than when they were looked at, or known to be."""
        commit = self._branch.commit
        if commit == self._judged_by:
            return set()
        self._judged_by = commit
        if commit is None:
            return set()
        now = {tenant: self._branch.of(tenant) for tenant in self.statuses}
        return {
            tenant
            for tenant, published in now.items()
            if published is None or self._judged.get(tenant) != published.objects
        }

    @property
    def edits(self) -> list[Edit]:
        """The edited and foreign objects of all tenants."""
        return [edit for tenant_edits in self._comparison.edits.values() for edit in tenant_edits]

    def told(self, tenants: Iterable[str]) -> None:
        """What was pending of these tenants is written."""
        for tenant in tenants:
            self.pending.pop(tenant, None)

    def differing(self, written: Mapping[str, TenantStatus]) -> list[str]:
        """Return the tenants that aren't as they are written, sorted."""
        return sorted(
            tenant
            for tenant, status in self.statuses.items()
            if self.pending.get(tenant) or written.get(tenant) != status
        )

    def newest_mark(self) -> str:
        """Return when the cluster was first seen to have the newest thing that is marked for deletion; empty where
        none is."""
        return max(self._marks.values(), default="")

    def silence(self) -> float:
        """Return the seconds since the API servers said something, the longest of all watches."""
        return time.monotonic() - min(watch.contact for watch in self._seeing.watches)

    def cluster_status(self, previous: ClusterStatus) -> ClusterStatus:
        """Return what the cluster holds ready now; `previous` says since when it is silent."""
        name, objects = self._seeing.cluster, self._seeing.store.objects(self._seeing.stocks)
        held: dict[tuple[str, str], int] = defaultdict(int)
        for tenant, status in self.statuses.items():
            for instance in status.instances:
                held[instance.gpu_spec, tenant] += instance.units
        placeholders = [live_object for live_object in objects if isinstance(live_object, Deployment)]
        reported_stocks = stocks(
            placeholders, [live_object for live_object in objects if isinstance(live_object, Pod)], held
        )
        now, silence = self._seeing.now(), self.silence()
        if silence <= SILENT_SECONDS:
            return ClusterStatus(name, now, reported_stocks, cold_starts=self.cold)
        since = previous.silent_since or _earlier(now, silence)
        words = f"{name} has not answered since {since}: what is said here may be old"
        return ClusterStatus(name, min(since, now), reported_stocks, since, words, self.cold)

    def _observe(self, tenants: set[str]) -> None:
        now, cluster = self._seeing.now(), self._seeing.cluster
        for tenant in sorted(tenants - {self._seeing.stocks}):
            live, previous = Live.of(self._seeing.store.objects(tenant)), self.statuses.get(tenant)
            if previous is None and not live.is_of_tenant:
                continue
            sources = self._sources.of(tenant, live, previous)
            published = self._branch.of(tenant)
            status = tenant_status(
                tenant, cluster, live, previous=previous, now=now, sources=sources, published=published
            )
            edits = compared_or_none(self._comparison, status, previous, live.whole, published, now)
            status = with_conditions_of(status, previous) if edits is None else with_edits(status, edits)
            pending = self.pending[tenant]
            pending += status.transitions[: max(0, MOST_TRANSITIONS - len(pending))]
            if not pending:
                del self.pending[tenant]
            if cold := list(cold_starts(previous, status)):
                self.cold = newest((*self.cold, *cold))
            self.statuses[tenant] = plain(status)
            self._marks[tenant] = _newest_mark(status)
            is_unsettled = unsettled(status) or (
                published is not None and removed.awaits_look(live.rendered, published)
            )
            (self._unsettled.add if is_unsettled else self._unsettled.discard)(tenant)
            self._note(tenant, status, published)

    def _note(self, tenant: str, status: TenantStatus, published: removed.Published | None) -> None:
        """Remember by what a tenant was judged, and what of it is removed and stays."""
        self._judged.pop(tenant, None)
        if published is not None:
            self._judged[tenant] = published.objects
        self.left.pop(tenant, None)
        if leftovers := list(removed.left(status)):
            self.left[tenant] = leftovers


def _newest_mark(status: TenantStatus) -> str:
    """Return when the newest thing of a tenant that is marked for deletion, and not let go yet, was first seen so."""
    condition_lists = [
        *(storage.conditions for storage in status.storages),
        *(snapshot.conditions for snapshot in status.snapshots),
    ]
    condition_times = [
        {condition.type: condition.last_transition_time for condition in conditions} for conditions in condition_lists
    ]
    return max([times[word.MARKED] for times in condition_times if times.keys() & _STEPS == {word.MARKED}], default="")


def plain(status: TenantStatus) -> TenantStatus:
    """Return a status without what belongs to one commit of it."""
    return msgspec.structs.replace(status, transitions=(), previous="")


def _earlier(now: str, seconds: float) -> str:
    moment = datetime.datetime.fromisoformat(now) - datetime.timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

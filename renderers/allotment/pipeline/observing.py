"""What a cluster's watches saw, tenant by tenant, and every change of it that hasn't been written yet."""

from __future__ import annotations

import datetime
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.rendered import live_source
from allotment.adapters.git.repository import Repository
from allotment.manifests.names import rendered_branch
from allotment.observed.objects import Application, Deployment, Pod, Seen
from allotment.observed.status import ClusterStatus, TenantStatus, Transition
from allotment.observed.stocks import stocks
from allotment.observed.tenants import Live, Sources, tenant_status, unsettled
from allotment.problems import Refused

SILENT_SECONDS = 180  # three bookmarks that didn't come
FETCH_SECONDS = 1.0  # between two looks for a rendered commit that isn't here
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

    def __init__(self, repository: Repository, rendered: Remote, cluster: str) -> None:
        self._repository = repository
        self._rendered = rendered
        self._cluster = cluster
        self._fetched = 0.0

    def of(self, tenant: str, live: Live, before: TenantStatus | None) -> Sources:
        """Return the source commits of a tenant's parts whose folder isn't as it was when that was last found."""
        known = {part.name: part.tree for part in before.applications} if before else {}
        found = {}
        for one in live.applications:
            part = one.name.rpartition("--")[2]
            if one.sync == "Synced" and one.revision and self._has(one):
                source = live_source(self._repository, one.revision, f"tenants/{tenant}/{part}", known.get(part, ""))
                if source is not None:
                    found[part] = source
        return found

    def _has(self, one: Application) -> bool:
        """Return whether the rendered commit that an Application names is here; it is fetched now and then."""
        if self._repository.has(one.revision):
            return True
        if time.monotonic() - self._fetched < FETCH_SECONDS:
            return False
        self._fetched = time.monotonic()
        try:
            self._rendered.fetch(rendered_branch(self._cluster))
        except Refused:
            return False
        return self._repository.has(one.revision)


class Observed:
    """A cluster's statuses as they are now: `statuses` by tenant, `pending` their changes since what is written."""

    def __init__(self, seeing: Seeing, sources: LiveSources) -> None:
        self._seeing = seeing
        self._sources = sources
        self._unsettled: set[str] = set()
        self.statuses: dict[str, TenantStatus] = {}
        self.pending: dict[str, list[Transition]] = defaultdict(list)

    def begin(self, written: Mapping[str, TenantStatus]) -> None:
        """Go on from what is written: every change since then is pending."""
        self.statuses = dict(written)
        self.pending.clear()
        self._unsettled.clear()
        self._observe(set(written) | self._seeing.store.owners())

    def look(self) -> None:
        """Take what changed since the last look."""
        self._observe(self._seeing.store.take_changed() | self._unsettled)

    def told(self, tenants: Iterable[str]) -> None:
        """What was pending of these tenants is written."""
        for tenant in tenants:
            self.pending.pop(tenant, None)

    def differing(self, written: Mapping[str, TenantStatus]) -> list[str]:
        """Return the tenants that aren't as they are written, sorted."""
        return sorted(
            tenant for tenant, one in self.statuses.items() if self.pending.get(tenant) or written.get(tenant) != one
        )

    def silence(self) -> float:
        """Return the seconds since the API servers said something, the longest of all watches."""
        return time.monotonic() - min(watch.contact for watch in self._seeing.watches)

    def cluster_status(self, before: ClusterStatus) -> ClusterStatus:
        """Return what the cluster holds ready now; `before` says since when it is silent."""
        name, objects = self._seeing.cluster, self._seeing.store.objects(self._seeing.stocks)
        held: dict[tuple[str, str], int] = defaultdict(int)
        for tenant, status in self.statuses.items():
            for one in status.instances:
                held[one.gpu_spec, tenant] += one.units
        placeholders = [one for one in objects if isinstance(one, Deployment)]
        found = stocks(placeholders, [one for one in objects if isinstance(one, Pod)], held)
        now, silence = self._seeing.now(), self.silence()
        if silence <= SILENT_SECONDS:
            return ClusterStatus(name, now, found)
        since = before.silent_since or _earlier(now, silence)
        words = f"{name} has not answered since {since}: what is said here may be old"
        return ClusterStatus(name, min(since, now), found, since, words)

    def _observe(self, tenants: set[str]) -> None:
        now, cluster = self._seeing.now(), self._seeing.cluster
        for tenant in sorted(tenants - {self._seeing.stocks}):
            live, before = Live.of(self._seeing.store.objects(tenant)), self.statuses.get(tenant)
            found = tenant_status(tenant, cluster, live, before, now, self._sources.of(tenant, live, before))
            pending = self.pending[tenant]
            pending += found.transitions[: max(0, MOST_TRANSITIONS - len(pending))]
            if not pending:
                del self.pending[tenant]
            self.statuses[tenant] = plain(found)
            (self._unsettled.add if unsettled(found) else self._unsettled.discard)(tenant)


def plain(status: TenantStatus) -> TenantStatus:
    """Return a status without what belongs to one commit of it."""
    return msgspec.structs.replace(status, transitions=(), previous="")


def _earlier(now: str, seconds: float) -> str:
    moment = datetime.datetime.fromisoformat(now) - datetime.timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

"""What is published to a cluster: the objects that our own last commit on its rendered branch has of each tenant."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.rendered import SOURCE, published_ref
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.retained import RETAINED
from allotment.declared.things import PARTS
from allotment.manifests import paths
from allotment.manifests.names import rendered_branch
from allotment.manifests.published import identities, without_replicas
from allotment.manifests.text import Malformed, Object, load
from allotment.observed import drift
from allotment.observed.removed import KINDS, WITHOUT_REPLICAS, Published
from allotment.observed.retention import RetainedTenant
from allotment.pipeline.report.retained import last_record
from allotment.problems import Refused

LOOK_SECONDS = 30.0  # how often the branch is looked at
FETCH_SECONDS = 1.0  # between two fetches for a commit that isn't here
AT_ONCE = 500  # files that are read at once
_WATCHED = frozenset({*KINDS.values(), *drift.KINDS})

NAMESPACES = "namespaces"  # the part that has a tenant's namespace and its isolation

Objects = frozenset[tuple[str, str]]


class PublishedFile(NamedTuple):
    """A file of the rendered branch: what it means, and its Git blob."""

    spot: paths.Spot
    blob: str


class PublishedBranch:
    """A cluster's rendered branch, fetched now and then into our clone.

    `commit` is our last commit there, None where that isn't known: the remote doesn't answer, nothing was published
    yet, or it can't be read. `trouble` then says why, if somebody should look. The branch's tip counts for nothing
    here, since others may push there.
    """

    def __init__(self, repository: Repository, remote: Remote, cluster: str, now: Callable[[], str]) -> None:
        self._repository = repository
        self._remote = remote
        self._cluster = cluster
        self._now = now
        self._looked = self._fetched = float("-inf")
        self._time = ""
        self._read_commit = ""
        self._files: dict[str, Objects] = {}  # by blob
        self._tenants: dict[str, Objects] = {}
        self._spots: dict[str, dict[paths.Spot, str]] = {}  # by tenant: the blob of each file
        self.commit: str | None = None
        self.trouble = ""
        self.retained: Mapping[str, RetainedTenant] = {}  # by name, as the record says without the publisher's key

    def forget(self) -> None:
        """Forget that the branch is here."""
        self._looked = self._fetched = float("-inf")
        self.commit, self.trouble = None, ""

    def take(self, commit: str) -> None:
        """Read a commit that is ours and is here already, and fetch nothing. Raises Refused or Malformed where it can't be read."""
        self._read(commit)
        self.commit, self._time = commit, self._now()

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants of whom something is published."""
        return frozenset(self._tenants)

    def look(self) -> None:
        """Fetch the branch, unless that was just done."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._fetch()

    def has(self, commit: str) -> bool:
        """Return whether a commit of the branch is here; where it isn't, the branch is fetched now and then."""
        if self._repository.has(commit):
            return True
        if time.monotonic() - self._fetched < FETCH_SECONDS:
            return False
        self._fetched = time.monotonic()
        self._fetch()
        return self._repository.has(commit)

    def of(self, tenant: str) -> Published | None:
        """Return what is published of a tenant; None where that isn't known."""
        return Published(self._tenants.get(tenant, frozenset()), self._time) if self.commit is not None else None

    def files_of(self, tenant: str) -> dict[tuple[str, str], PublishedFile]:
        """Return the file of each published object of a tenant, by the object's kind and name."""
        return {
            identity: PublishedFile(spot, blob)
            for spot, blob in self._spots.get(tenant, {}).items()
            for identity in self._files[blob]
        }

    def manifests_in(self, blobs: Sequence[str]) -> Iterator[list[Object]]:
        """Yield the objects of each of some published files. Raises Refused or Malformed where a file can't be read."""
        yield from (load(data) for data in self._repository.read_all(blobs))

    def tree_of(self, folder: str) -> str | None:
        """Return the Git tree of a published folder; None where there is none, or that isn't known."""
        return self._repository.tree_of(self.commit, folder) if self.commit is not None else None

    def _fetch(self) -> None:
        self._looked = time.monotonic()
        begun, name = self._now(), published_ref(self._cluster)
        self.commit, self.trouble = None, ""
        try:
            refs = self._remote.fetch(rendered_branch(self._cluster), name, RETAINED, ours=True, unfetched=(SOURCE,))
            commit = refs.get(name)
            if commit is not None:
                self._read(commit)
            self.retained = last_record(self._repository, refs.get(RETAINED), None).tenants(refs.get(SOURCE))
        except (Refused, Malformed) as error:
            self.trouble = str(error)
            return
        self.commit, self._time = commit, begun

    def _read(self, commit: str) -> None:
        """Read the files of tenants in a commit; what was read before isn't read again."""
        if commit == self._read_commit:
            return
        spots = defaultdict[str, dict[paths.Spot, str]](dict)
        for path, blob in self._repository.listing(commit).items():
            spot = paths.spot_of(paths.today(path))
            if spot is not None and spot.part in (*PARTS, NAMESPACES):
                spots[spot.tenant][spot] = blob
        self._files = self._contents({blob for tenant_spots in spots.values() for blob in tenant_spots.values()})
        nothing: Objects = frozenset()
        self._tenants = {
            tenant: nothing.union(*(self._files[blob] for blob in tenant_spots.values()))
            for tenant, tenant_spots in spots.items()
        }
        self._spots = dict(spots)
        self._read_commit = commit

    def _contents(self, blobs: set[str]) -> dict[str, Objects]:
        """Return the objects of each file, of the kinds that are watched."""
        contents = {blob: self._files[blob] for blob in blobs & self._files.keys()}
        new = sorted(blobs - contents.keys())
        for at in range(0, len(new), AT_ONCE):
            some = new[at : at + AT_ONCE]
            for blob, data in zip(some, self._repository.read_all(some), strict=True):
                objects = frozenset(identity for identity in identities(data) if identity[0] in _WATCHED)
                contents[blob] = objects | {(WITHOUT_REPLICAS, name) for name in without_replicas(data)}
        return contents

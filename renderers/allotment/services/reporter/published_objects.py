"""Reads the objects that are published to a cluster, from our last commit on its rendered branch."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.rendered_branches import SOURCE_REF, published_ref
from allotment.branches.retention_ref import RETAINED, fetch_record, last_record
from allotment.lifecycle.published_manifests import read_scoped_identities, stopped_deployments
from allotment.manifests import paths
from allotment.manifests.names import rendered_branch
from allotment.manifests.yaml_text import Malformed, Object, load
from allotment.observed import drift
from allotment.observed.objects import PLATFORM_OWNER
from allotment.observed.orphans import OBJECT_KINDS, STOPPED_DEPLOYMENT, PublishedObjects
from allotment.observed.retention import RetainedTenant
from allotment.problems import OperationRefused

POLL_SECONDS = 30.0  # the shortest wait between two fetches of the branch
FETCH_SECONDS = 1.0  # the shortest wait between two fetches that look for a missing commit
READ_BATCH_SIZE = 500  # files that one call to Git reads
_WATCHED_KINDS = frozenset({*OBJECT_KINDS.values(), *drift.COMPARED_KINDS})

_PLATFORM_FOLDERS = ("platform/", "control/")  # the files in them that belong to no tenant belong to the platform

ObjectIdentities = frozenset[tuple[str, str]]


class PublishedFile(NamedTuple):
    """A file of the rendered branch: its parsed path, and its Git blob."""

    tree_path: paths.TreePath
    blob: str


class PublishedBranch:
    """A cluster's rendered branch, fetched from time to time into the local clone.

    `commit` is our last commit on the branch. It is None if the remote doesn't answer, if nothing is published yet, or
    if the commit can't be read. If the last fetch failed, `trouble` gives the reason. The tip of the branch is ignored,
    because others may push to the branch.
    """

    def __init__(self, repository: Repository, remote: Remote, cluster: str, now: Callable[[], str]) -> None:
        self._repository = repository
        self._remote = remote
        self._cluster = cluster
        self._read_clock = now
        self._polled_at = self._fetched_at = float("-inf")
        self._published_at = ""
        self._indexed_commit = ""
        self._prefetched: dict[str, bytes] = {}
        self._identities_by_blob: dict[str, ObjectIdentities] = {}
        self._tenant_objects: dict[str, ObjectIdentities] = {}
        self._tenant_paths: dict[str, dict[paths.TreePath, str]] = {}  # by tenant: the blob of each file
        self.commit: str | None = None
        self.trouble = ""
        # The retained tenants by name, from their record; None if the last fetch failed, empty if the record is missing
        # or invalid. The record's signature is not checked.
        self.retained: Mapping[str, RetainedTenant] | None = None

    def forget(self) -> None:
        """Forget the fetched state of the branch."""
        self._polled_at = self._fetched_at = float("-inf")
        self.commit, self.trouble, self.retained = None, "", None

    def read_commit(self, commit: str) -> None:
        """List the files of one of our commits that the clone already has. Fetches nothing.

        The objects of a tenant are known after `prefetch`. Raises OperationRefused if the commit can't be read.
        """
        self._tenant_paths = self._list_tenant_paths(commit)
        self._tenant_objects = dict.fromkeys(self._tenant_paths, frozenset())
        self.commit, self._published_at = commit, self._read_clock()

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants that have published objects."""
        return frozenset(self._tenant_objects) - {PLATFORM_OWNER}

    def poll(self) -> None:
        """Fetch the branch, unless it was fetched a short time ago."""
        if time.monotonic() - self._polled_at >= POLL_SECONDS:
            self._fetch()

    def has_commit(self, commit: str) -> bool:
        """Return whether the clone has a commit of the branch. If not, fetch the branch, at most once a second."""
        if self._repository.has_object(commit):
            return True
        if time.monotonic() - self._fetched_at < FETCH_SECONDS:
            return False
        self._fetched_at = time.monotonic()
        self._fetch()
        return self._repository.has_object(commit)

    def find_published(self, tenant: str) -> PublishedObjects | None:
        """Return the published objects of a tenant; None if they aren't known."""
        return (
            PublishedObjects(self._tenant_objects.get(tenant, frozenset()), self._published_at)
            if self.commit is not None
            else None
        )

    def list_files(self, tenant: str) -> dict[tuple[str, str], PublishedFile]:
        """Return the file of each published object of a tenant, by the object's kind and name."""
        return {
            identity: PublishedFile(tree_path, blob)
            for tree_path, blob in self._tenant_paths.get(tenant, {}).items()
            for identity in self._identities_by_blob[blob]
        }

    def read_manifests(self, blobs: Sequence[str]) -> Iterator[list[Object]]:
        """Yield the objects of each published file. Raises OperationRefused or Malformed if a file can't be read."""
        missing = [blob for blob in blobs if blob not in self._prefetched]
        contents = self._prefetched | dict(zip(missing, self._repository.read_all(missing), strict=True))
        yield from (load(contents[blob]) for blob in blobs)

    def prefetch(self, tenants: Iterable[str]) -> None:
        """Read the files of some tenants with one request, for their objects and for later calls of `read_manifests`.

        Drops the bytes of the previous prefetch, so the caller limits the memory by the number of tenants. Raises
        OperationRefused or Malformed if a file can't be read.
        """
        paths_by_tenant = {tenant: self._tenant_paths.get(tenant, {}) for tenant in tenants}
        blobs = {blob for tenant_paths in paths_by_tenant.values() for blob in tenant_paths.values()}
        self._prefetched = self._repository.read_small(sorted(blobs))
        for blob, data in self._prefetched.items():
            if blob not in self._identities_by_blob:
                self._identities_by_blob[blob] = _parse_identities(data)
        self._identities_by_blob |= self._read_identities(blobs)
        self._tenant_objects |= self._join_identities(paths_by_tenant)

    def find_tree(self, folder: str) -> str | None:
        """Return the Git tree of a published folder; None if there is none, or if it isn't known."""
        return self._repository.tree_of(self.commit, folder) if self.commit is not None else None

    def is_folder_at(self, revisions: Collection[str], folder: str) -> bool:
        """Return whether each of some commits has a folder as it is published. False if the clone lacks a commit."""
        published = self.find_tree(folder)
        return published is not None and all(
            self._repository.has_object(revision) and self._repository.tree_of(revision, folder) == published
            for revision in revisions
        )

    def _fetch(self) -> None:
        self._polled_at = time.monotonic()
        begun, name = self._read_clock(), published_ref(self._cluster)
        self.commit, self.trouble, self.retained = None, "", None
        try:
            refs = self._remote.fetch(rendered_branch(self._cluster), name, ours=True, unfetched=(SOURCE_REF, RETAINED))
            commit = refs.get(name)
            if commit is not None:
                self._index_commit(commit)
            fetch_record(self._remote, refs)
            self.retained = last_record(self._repository, refs.get(RETAINED), None).tenants(refs.get(SOURCE_REF))
        except (OperationRefused, Malformed) as error:
            self.trouble = str(error)
            return
        self.commit, self._published_at = commit, begun

    def _index_commit(self, commit: str) -> None:
        """Read the files of tenants in a commit. Files that were read before aren't read again."""
        if commit == self._indexed_commit:
            return
        tree_paths = self._list_tenant_paths(commit)
        self._identities_by_blob = self._read_identities(
            {blob for tenant_spots in tree_paths.values() for blob in tenant_spots.values()}
        )
        self._tenant_objects = self._join_identities(tree_paths)
        self._tenant_paths = tree_paths
        self._indexed_commit = commit

    def _list_tenant_paths(self, commit: str) -> dict[str, dict[paths.TreePath, str]]:
        """Return, by tenant, the blob of each file of the tenant in a commit. The platform's files have PLATFORM_OWNER."""
        tree_paths = defaultdict[str, dict[paths.TreePath, str]](dict)
        for path, blob in self._repository.listing(commit).items():
            tree_path = paths.parse_tree_path(paths.current_path(path))
            if tree_path is None and path.startswith(_PLATFORM_FOLDERS):
                tree_path = paths.TreePath(PLATFORM_OWNER, "", path)
            if tree_path is not None:
                tree_paths[tree_path.tenant][tree_path] = blob
        return dict(tree_paths)

    def _join_identities(self, tree_paths: Mapping[str, Mapping[paths.TreePath, str]]) -> dict[str, ObjectIdentities]:
        """Return, by tenant, the kind and name of each object in the files of the tenant."""
        nothing: ObjectIdentities = frozenset()
        return {
            tenant: nothing.union(*(self._identities_by_blob[blob] for blob in tenant_spots.values()))
            for tenant, tenant_spots in tree_paths.items()
        }

    def _read_identities(self, blobs: set[str]) -> dict[str, ObjectIdentities]:
        """Return, by blob, the result of `_parse_identities`. Files with a known result aren't read."""
        contents = {blob: self._identities_by_blob[blob] for blob in blobs & self._identities_by_blob.keys()}
        new = sorted(blobs - contents.keys())
        for at in range(0, len(new), READ_BATCH_SIZE):
            batch = new[at : at + READ_BATCH_SIZE]
            for blob, data in zip(batch, self._repository.read_all(batch), strict=True):
                contents[blob] = _parse_identities(data)
        return contents


def _parse_identities(data: bytes) -> ObjectIdentities:
    """Return the kind and the name from `names.scoped_name` of each object in a file. Raises Malformed.

    Leaves out the kinds that are not in _WATCHED_KINDS. Adds STOPPED_DEPLOYMENT and the name for each Deployment
    without replicas.
    """
    objects = frozenset(identity for identity in read_scoped_identities(data) if identity[0] in _WATCHED_KINDS)
    return objects | {(STOPPED_DEPLOYMENT, name) for name in stopped_deployments(data)}

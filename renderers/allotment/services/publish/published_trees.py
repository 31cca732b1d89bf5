"""Reads the last published files of all clusters, by `<cluster>/<path>`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from allotment.branches.branch import Branch, compare_blobs
from allotment.capacity.units import UnitClaim
from allotment.declared.inventory import compute_blob_id
from allotment.declared.tenant_resources import INSTANCE
from allotment.lifecycle.published_manifests import read_unit_claim
from allotment.manifests import paths
from allotment.manifests.argo_folders import folder_of, render_markers
from allotment.manifests.pod_template_pin import with_pod_template_of

Blobs = dict[str, str]  # blob by `<cluster>/<path>`
RenderedBlobs = dict[
    str, tuple[str, bytes | None]
]  # by `<cluster>/<path>`: the blob, and the bytes if the file is new or changed


class _FilesByOwner(NamedTuple):
    """The blobs of each tenant's files, and the paths of each cluster's files that belong to no tenant."""

    tenants: dict[str, Blobs]
    clusters: dict[str, set[str]]


class PublishedTrees:
    """The rendered branches at their last published commits. Reads only the files that a caller needs.

    `previous` are the trees of the same clusters before an earlier publish; most of their files are unchanged.
    """

    def __init__(self, branches: Mapping[str, Branch], previous: PublishedTrees | None = None) -> None:
        self.branches = branches
        self._previous = previous if previous is not None and previous.branches.keys() == branches.keys() else None

    @property
    def tenant_files(self) -> Mapping[str, Blobs]:
        """The blobs of each tenant's files."""
        return self._files_by_owner.tenants

    @property
    def cluster_files(self) -> Mapping[str, Collection[str]]:
        """The paths of the files on each cluster's branch that belong to no tenant."""
        return self._files_by_owner.clusters

    @cached_property
    def _files_by_owner(self) -> _FilesByOwner:
        """The published files by owner.

        If `previous` is given, only the differences from it are assigned to their owners.
        """
        previous, self._previous = self._previous, None  # without a chain of all earlier trees
        owners = _FilesByOwner({}, {cluster: set() for cluster in self.branches})
        if previous is not None:
            tenants, clusters = previous._files_by_owner
            owners = _FilesByOwner(dict(tenants), {name: set(files) for name, files in clusters.items()})
        changed_tenants: dict[str, Blobs] = defaultdict(dict)
        for cluster, branch in self.branches.items():
            before = previous.branches[cluster].files if previous is not None else {}
            for path in compare_blobs(before, branch.files):
                blob = branch.files.get(path)
                tree_path = paths.parse_tree_path(path)
                if tree_path is not None:
                    changed_tenants[tree_path.tenant][f"{cluster}/{path}"] = blob or ""
                elif blob is None:
                    owners.clusters[cluster].remove(path)
                else:
                    owners.clusters[cluster].add(path)
        for tenant, changes in changed_tenants.items():
            files = {**owners.tenants.get(tenant, {}), **changes}
            owners.tenants[tenant] = {path: files[path] for path in sorted(files) if files[path]}
            if not owners.tenants[tenant]:
                del owners.tenants[tenant]
        return owners

    def list_unchanged(self, blobs_by_tenant: Iterable[tuple[str, Blobs]]) -> set[str]:
        """Return each tenant with published files that equal the given blobs."""
        published = self.tenant_files
        return {tenant for tenant, blobs in blobs_by_tenant if published.get(tenant, {}) == blobs}

    def find_blob(self, path: str) -> str | None:
        """Return the blob of a file; None if it is not published."""
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].files.get(inner)

    def read_file(self, path: str) -> bytes:
        """Return the bytes of a file."""
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].read(inner)

    def compare_rendered(self, files: Iterable[tuple[str, bytes]]) -> RenderedBlobs:
        """Return the blob of each rendered file, and its bytes if the published file differs.

        If a pod template differs from the published one only in a label that older versions rendered, the published
        template replaces it. The pods of a running instance are then not replaced.
        """
        changed_blobs: RenderedBlobs = {}
        retained_folders = set[str]()
        for path, data in files:
            blob = compute_blob_id(data)
            if self.find_blob(path) not in (None, blob) and _is_instance(path):
                then = with_pod_template_of(data, self.read_file(path))
                if then != data:
                    data, blob = then, compute_blob_id(then)  # noqa: PLW2901  # with the published pod template
                    retained_folders.add(folder_of(path))
            changed_blobs[path] = (blob, None if self.find_blob(path) == blob else data)
        for folder in retained_folders:
            path, marker = self._render_marker(folder, changed_blobs)
            blob = compute_blob_id(marker)
            changed_blobs[path] = (blob, None if self.find_blob(path) == blob else marker)
        return changed_blobs

    @staticmethod
    def _render_marker(folder: str, changed_blobs: RenderedBlobs) -> tuple[str, bytes]:
        """Return the path and the bytes of a folder's marker, which contains a hash of the folder's other files."""
        cluster, _, inner = folder.partition("/")
        blobs = {path.partition("/")[2]: blob for path, (blob, _) in changed_blobs.items() if folder_of(path) == folder}
        ((path, data),) = render_markers(cluster, [inner], blobs)
        return f"{cluster}/{path}", data

    def read_claims(self, tenant: str) -> Iterator[UnitClaim]:
        """Yield the published claims of a tenant's instances."""
        for path in sorted(self.tenant_files.get(tenant, ())):
            cluster, _, inner = path.partition("/")
            tree_path = paths.parse_tree_path(inner)
            if (
                tree_path is not None
                and tree_path.kind == "instance"
                and (claim := read_unit_claim(cluster, tenant, self.read_file(path)))
            ):
                yield claim

    def list_letters(self, cluster: str) -> set[str]:
        """Return the letters of a cluster's published shard files, which group tenants by the first letter of their names."""
        return {letter for path in self.branches[cluster].files if (letter := paths.shard_letter(path))}


def _is_instance(path: str) -> bool:
    tree_path = paths.parse_tree_path(path.partition("/")[2])
    return tree_path is not None and tree_path.kind == INSTANCE.word


def deleting_path(path: str) -> str:
    """Return the path that the file of a storage or snapshot has while the resource is being deleted."""
    return f"{path.removesuffix(paths.FILE_SUFFIX)}{paths.DELETING_SUFFIX}{paths.FILE_SUFFIX}"

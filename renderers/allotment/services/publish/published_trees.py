"""Reads the last published files of all clusters, by `<cluster>/<path>`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from allotment.branches.branch import Branch
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


class PublishedTrees:
    """The rendered branches at their last published commits. Reads only the files that a caller needs."""

    def __init__(self, branches: Mapping[str, Branch]) -> None:
        self.branches = branches

    @cached_property
    def tenant_files(self) -> Mapping[str, Blobs]:
        """The blobs of each tenant's files."""
        files_by_tenant: dict[str, Blobs] = defaultdict(dict)
        for cluster, branch in self.branches.items():
            for path, blob in branch.files.items():
                if spot := paths.parse_tree_path(path):
                    files_by_tenant[spot.tenant][f"{cluster}/{path}"] = blob
        return dict(files_by_tenant)

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
            spot = paths.parse_tree_path(inner)
            if (
                spot is not None
                and spot.kind == "instance"
                and (claim := read_unit_claim(cluster, tenant, self.read_file(path)))
            ):
                yield claim

    def list_letters(self, cluster: str) -> set[str]:
        """Return the letters of a cluster's published shard files, which group tenants by the first letter of their names."""
        return {letter for path in self.branches[cluster].files if (letter := paths.shard_letter(path))}


def _is_instance(path: str) -> bool:
    spot = paths.parse_tree_path(path.partition("/")[2])
    return spot is not None and spot.kind == INSTANCE.word


def deleting_path(path: str) -> str:
    """Return the path that the file of a storage or snapshot has while the resource is being deleted."""
    return f"{path.removesuffix(paths.FILE_SUFFIX)}{paths.DELETING_SUFFIX}{paths.FILE_SUFFIX}"

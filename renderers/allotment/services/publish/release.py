"""Assembles the next release: the trees of all clusters, from each tenant's rendered, retained and removed files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from allotment.capacity.units import UnitClaim
from allotment.declared.inventory import compute_blob_id
from allotment.manifests.argo_folders import folder_of
from allotment.observed.retention import Retention
from allotment.problems import Problem
from allotment.services.publish.published_trees import Blobs, PublishedTrees
from allotment.services.publish.rendered_tenant import RenderedTenant
from allotment.services.publish.renderer import ClusterRenderer
from allotment.services.publish.tenant_transition import TenantTransition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from allotment.declared.inventory import Catalog
    from allotment.services.publish.node_replacement import NodeReplacementGuard


class Release(NamedTuple):
    """The next release.

    - `files` has the blob of every file by cluster and path; `data` has the bytes of the files that are new or changed
      since the last release, except for the files with blobs that the repository already has.
    - `retained_tenants` has each retained tenant with its reason.
    - `waiting_instances` are messages about instances that wait for units.
    - `pending_deletions` are messages about deletions in progress.
    - `pending_changes` are messages about preparations and node replacements that wait.
    - `leaked_units` are messages about pods that hold units without a claim.
    - `problems` are the problems that are not a reason to retain a tenant or a cluster.
    - `declared_tenants` are the tenants with a folder; `rendered_count` is the number of tenants that were checked and,
      if valid, rendered for this release.
    - `tracebacks` has the traceback of the bug for each tenant on which Allotment failed.
    - `retained_clusters` has the problems of each cluster that keeps its published tree.
    - `approved_clusters` are the clusters in which an approval released a deletion that the brake would stop.
    """

    catalog: Catalog
    files: dict[str, Blobs]
    data: dict[str, dict[str, bytes]]
    retained_tenants: dict[str, Retention]
    waiting_instances: list[str]
    pending_deletions: list[str]
    pending_changes: list[str]
    leaked_units: list[str]
    problems: list[Problem]
    declared_tenants: frozenset[str]
    rendered_count: int
    tracebacks: Mapping[str, str] = MappingProxyType({})
    approved_clusters: frozenset[str] = frozenset()
    retained_clusters: Mapping[str, list[Problem]] = MappingProxyType({})


class ClusterTrees:
    """The files of all clusters in the next release. The steps of `release_assembly` add the files.

    `files` has the blobs by cluster and path; `data` has the bytes of the files that differ from the published files,
    except for the files with blobs that the repository already has.
    """

    def __init__(self, renderer: ClusterRenderer, published_trees: PublishedTrees) -> None:
        self._renderer, self._published_trees = renderer, published_trees
        catalog, self.gate = renderer.catalog, renderer.gate
        # By cluster: each tenant's folder with a file that differs from the rendered file. These folders need new
        # markers.
        self._touched_folders: dict[str, set[str]] = defaultdict(set)
        self.files: dict[str, Blobs] = {name: {} for name in catalog.clusters}
        self.data: dict[str, dict[str, bytes]] = {name: {} for name in catalog.clusters}

    def add_unchanged_tenants(self, tenants: Collection[str]) -> None:
        """Add the published files of unchanged tenants: their rendered files equal the published files.

        Call this first: it replaces the files of the trees.
        """
        published_trees = self._published_trees
        for cluster in self.files:
            files = self.files[cluster] = dict(published_trees.branches[cluster].files)
            for path in published_trees.cluster_files[cluster]:
                del files[path]
        for tenant in published_trees.tenant_files.keys() - tenants:
            for path in published_trees.tenant_files[tenant]:
                cluster, _, inner = path.partition("/")
                self.files.get(cluster, {}).pop(inner, None)

    def add_tenant(self, rendered: RenderedTenant | None, tenant_transition: TenantTransition) -> None:
        """Add a tenant's rendered files, and the published files that its transition keeps or changes.

        Raises IsolationBroken, and adds nothing, if the gate refuses a file that the transition changes.
        """
        retained_files = self.check_transition(tenant_transition)
        if rendered is not None:
            for path, blob in rendered.blobs.items():
                if path in tenant_transition.unreferenced:
                    continue
                cluster, _, inner = path.partition("/")
                self.files[cluster][inner] = blob
                if path in rendered.data:
                    self.data[cluster][inner] = rendered.data[path]
        for path, data in (*tenant_transition.updated.items(), *retained_files.items()):
            self._put_file(path, data)

    def check_transition(self, tenant_transition: TenantTransition) -> dict[str, bytes]:
        """Return a tenant's retained files without the objects that the gate refuses.

        Raises IsolationBroken if the gate refuses a file that the transition changes.
        """
        for path, data in tenant_transition.updated.items():
            self.gate.check(path, data, published=True)
        return {
            path: allowed_data
            for path, data in tenant_transition.retained.items()
            if (allowed_data := self.gate.drop_forbidden(path, data)[0])
        }

    def read_file(self, path: str) -> bytes:
        """Return the bytes of an added file."""
        cluster, _, inner = path.partition("/")
        data = self.data[cluster].get(inner)
        return self._published_trees.branches[cluster].read_blob(self.files[cluster][inner]) if data is None else data

    def add_retained_files(self, files: Mapping[str, bytes]) -> None:
        """Add the files of a retained tenant, or of retained instances."""
        for path, data in files.items():
            self._put_file(path, data)

    def add_cluster_files(
        self,
        claims: Iterable[UnitClaim],
        letters: Callable[[str], Collection[str]],
        guard: NodeReplacementGuard | None = None,
    ) -> list[str]:
        """Add the files that belong to the clusters themselves.

        Return a message about each pool whose published nodes `guard` keeps.
        """
        messages: list[str] = []
        for path, data in self._renderer.render_files(claims, letters):
            held_file = guard.hold_template(path, data) if guard is not None else None
            self._put_file(path, data if held_file is None else self._check_changed_file(path, data, held_file.data))
            messages += [] if held_file is None else [held_file.message]
        if guard is None:
            return messages
        for cluster, files in self.files.items():
            for held_file in list(guard.retain_removed_pools(cluster, files)):
                self._put_file(held_file.path, self._check_changed_file(held_file.path, b"", held_file.data))
                messages.append(held_file.message)
        return messages

    def _check_changed_file(self, path: str, now: bytes, data: bytes) -> bytes:
        """Return `data`, the file to publish. If it differs from the rendered file `now`, it must pass the gate."""
        if data != now:
            self.gate.check(path, data, published=True)
        return data

    def add_markers(self) -> None:
        """Add the markers of the clusters' own folders, and of the tenants' folders that need a new marker.

        A tenant's folder needs a new marker if a file of the folder differs from the rendered file, or if a foreign
        commit changed the folder.
        """
        over = {}
        foreign_folders = {
            name: stray_folders
            for name in self.files
            if (stray_folders := self._published_trees.branches[name].foreign_folders())
        }
        expected = self._with_markers() if foreign_folders else {}
        for cluster, folders in foreign_folders.items():
            branch = self._published_trees.branches[cluster]
            if branch.has_files(expected[cluster]):
                continue  # the tip already has the files of this release, because an earlier push was interrupted
            present_folders = folders & {folder_of(path) for path in self.files[cluster]}
            self._touched_folders[cluster] |= {folder for folder in present_folders if folder.startswith("tenants/")}
            over[cluster] = dict.fromkeys(present_folders, branch.tip or "")
        for path, data in list(self._renderer.render_markers(self.files, self._touched_folders, over)):
            self._put_file(path, data)

    def _with_markers(self) -> dict[str, Blobs]:
        """Return the files of all clusters, with the markers that they would have without foreign commits."""
        trees = {cluster: dict(files) for cluster, files in self.files.items()}
        for path, data in self._renderer.render_markers(self.files, self._touched_folders):
            cluster, _, inner = path.partition("/")
            trees[cluster][inner] = compute_blob_id(data)
        return trees

    def retain_clusters(self, clusters: Iterable[str]) -> None:
        """Retain the whole published trees of some clusters."""
        for cluster in clusters:
            self.files[cluster] = dict(self._published_trees.branches[cluster].files)
            self.data[cluster] = {}

    def _put_file(self, path: str, data: bytes) -> None:
        cluster, _, inner = path.partition("/")
        if inner.startswith("tenants/"):
            self._touched_folders[cluster].add(folder_of(inner))
        blob = self.files[cluster][inner] = compute_blob_id(data)
        self.data[cluster].pop(inner, None)
        if self._published_trees.find_blob(path) != blob:
            self.data[cluster][inner] = data

"""Renders tenants and clusters to manifests, and checks the manifests with the isolation gate."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from allotment.capacity.units import UnitClaim
    from allotment.declared.inventory import Catalog, ScopeDeclarations
    from allotment.isolation.gate import IsolationGate
    from allotment.preparation.runtime_state import RuntimeState
    from allotment.services.check.artifacts import ValidTenant

from allotment.branches.branch import compare_blobs
from allotment.services.check.cpu_budget import BUDGET_REJECTION, BudgetExceeded, CpuBudget, Rejection
from allotment.services.check.tenant_error import build_rejection

M = TypeVar("M")
CollectFiles = Callable[[Iterable[tuple[str, bytes]]], M]
FindGate = Callable[["Catalog"], "IsolationGate"]


def build_gate(catalog: Catalog) -> IsolationGate:
    """Return an isolation gate for all clusters with readable declarations; for none if the Platform can't be read."""
    from allotment.declared.kinds.platform import Platform
    from allotment.isolation.boundary import Boundary
    from allotment.isolation.gate import IsolationGate

    clusters = catalog.clusters if catalog.platform.get_singleton(Platform) else {}
    return IsolationGate(
        {
            name: Boundary.from_declarations(catalog, cluster)
            for name, cluster in clusters.items()
            if not cluster.invalid
        }
    )


def check_tenant_files(
    gate: IsolationGate, catalog: Catalog, tenant: ScopeDeclarations, files: Iterable[tuple[str, bytes]]
) -> None:
    """Raise IsolationBroken if one of a tenant's rendered files contains something that the tenant may not have."""
    from allotment.isolation.entitlements import Entitlements

    entitlements: dict[str, Entitlements] = {}
    for path, data in files:
        cluster = path.partition("/")[0]
        if cluster not in entitlements:
            entitlements[cluster] = Entitlements.from_declarations(catalog, catalog.clusters[cluster], tenant)
        gate.check(path, data, entitlements[cluster])


class Renderer(Generic[M]):
    """Renders tenants to artifacts. The artifact of a tenant is the value that `collect` returns for the tenant's files.

    If `clusters` are given, only the files of these clusters are rendered; if `tenants` are given, only these tenants.
    `find_gate` returns the isolation gate for a catalog. A renderer runs in the worker process that has read the
    tenants.
    """

    def __init__(
        self,
        collect: CollectFiles[M],
        clusters: frozenset[str] = frozenset(),
        tenants: frozenset[str] = frozenset(),
        find_gate: FindGate = build_gate,
    ) -> None:
        self._collect, self._clusters, self._tenants, self._find_gate = collect, clusters, tenants, find_gate
        self._gate: tuple[int, IsolationGate] | None = None

    def load_modules(self) -> None:
        """Load the manifests and the patterns of the isolation gate."""
        import allotment.manifests.layout  # noqa: F401
        from allotment.isolation.expected_objects import load_patterns

        load_patterns()

    def build_artifacts(self, catalog: Catalog, tenants: list[ValidTenant]) -> list[M | Rejection | None]:
        """Return the artifact of each tenant; None for a tenant without files, a Rejection for a rejected tenant."""
        rendered = [self._render_files(catalog, *tenant) for tenant in tenants]
        gate = self._open_gate(catalog)
        return [
            self._check_and_collect(gate, catalog, tenant.declarations, files)
            for tenant, files in zip(tenants, rendered, strict=True)
        ]

    def _check_and_collect(
        self,
        gate: IsolationGate,
        catalog: Catalog,
        tenant: ScopeDeclarations,
        files: list[tuple[str, bytes]] | Rejection,
    ) -> M | Rejection | None:
        if isinstance(files, Rejection):
            return files
        try:
            check_tenant_files(gate, catalog, tenant, files)
            return self._collect(files) if files else None
        except Exception as error:
            return build_rejection(error)

    def _render_files(
        self, catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState, budget: CpuBudget
    ) -> list[tuple[str, bytes]] | Rejection:
        from allotment.declared.placement import clusters_of
        from allotment.manifests.layout import render_tenant

        try:
            is_selected = not self._tenants or tenant.name in self._tenants
            is_selected = is_selected and all(name in catalog.clusters for name in clusters_of(tenant))
            with budget.measure():
                files = render_tenant(catalog, tenant, runtime_state, self._clusters or None) if is_selected else ()
                return list(budget.meter(files))
        except BudgetExceeded:
            return BUDGET_REJECTION
        except Exception as error:
            return build_rejection(error)

    def _open_gate(self, catalog: Catalog) -> IsolationGate:
        """Return the isolation gate. Each worker process has its own gate."""
        if self._gate is None or self._gate[0] != os.getpid():
            self._gate = os.getpid(), self._find_gate(catalog)
        return self._gate[1]


class _MarkedTree(NamedTuple):
    """A cluster's tree: the blobs by path, the folders that belong to no tenant, and the rendered markers by folder.

    `markers` has the path and the bytes of each marker that a later call may reuse: all markers except those that also
    depend on a foreign commit.
    """

    files: dict[str, str]
    own_folders: frozenset[str]
    markers: dict[str, tuple[str, bytes]]


class ClusterRenderer:
    """Renders the files that belong to a cluster and to no tenant, and checks them with one isolation gate.

    The methods reuse the files of a cluster while the inputs of the cluster stay the same, and the marker of a folder
    while the files of the folder stay the same. A process that publishes repeatedly therefore keeps one ClusterRenderer
    until the catalog changes.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.gate = build_gate(catalog)
        self._cluster_files: dict[str, tuple[tuple[frozenset[str], dict[str, int]], list[tuple[str, bytes]]]] = {}
        self._marked_trees: dict[str, _MarkedTree] = {}
        self._checked_paths: dict[str, Collection[str]] = {}

    def render_files(
        self, claims: Iterable[UnitClaim], letters: Callable[[str], Collection[str]], only: Collection[str] = ()
    ) -> Iterator[tuple[str, bytes]]:
        """Yield each file except the folder markers, as its path (`<cluster>/<path>`) and its bytes.

        `letters` returns the first letters of the names of a cluster's tenants, because a cluster has a file for each
        of these letters. If `only` is not empty, it names the clusters to render.
        """
        from allotment.capacity.units import count_placeholders
        from allotment.manifests.layout import render_cluster

        counts = count_placeholders(self.catalog, claims)
        for name, cluster in self.catalog.clusters.items():
            if only and name not in only:
                continue
            inputs = (
                frozenset(letters(name)),
                {stock: count for (place, stock), count in counts.items() if place == name},
            )
            if name not in self._cluster_files or self._cluster_files[name][0] != inputs:
                files = list(render_cluster(self.catalog, cluster, inputs[0], counts))
                for path, data in files:
                    self.gate.check(path, data)
                self._cluster_files[name] = inputs, files
            yield from self._cluster_files[name][1]

    def render_markers(
        self,
        trees: Mapping[str, Mapping[str, str]],
        touched: Mapping[str, Collection[str]] | None = None,
        over: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the folder markers of the clusters' own folders and of the `touched` folders of tenants.

        A folder marker is a ConfigMap that keeps a folder in Git. Each result is a marker's path (`<cluster>/<path>`)
        and its bytes. `trees` maps each cluster to the blobs of its files, by path. `over` maps a cluster and a folder
        to the foreign commit that the publish replaces. Raises IsolationBroken if the gate refuses a marker, if a tree
        has a file that no Application reads, or if a folder that an Application reads has no marker or is absent.
        """
        for cluster, files in trees.items():
            markers = self._render_markers(
                cluster, files, (touched or {}).get(cluster, ()), (over or {}).get(cluster, {})
            )
            for path, data in sorted(markers.values()):
                yield f"{cluster}/{path}", data
            paths = files.keys() | {path for path, _ in markers.values()}
            if paths != self._checked_paths.get(cluster):
                self.gate.check_tree(cluster, paths)
                self._checked_paths[cluster] = paths

    def _render_markers(
        self, cluster: str, files: Mapping[str, str], touched: Collection[str], over: Mapping[str, str]
    ) -> dict[str, tuple[str, bytes]]:
        """Return the path and the bytes of each marker, by folder.

        The marker of a folder depends only on the files of the folder, and on `over`.
        """
        from allotment.manifests import argo_folders

        last = self._marked_trees.get(cluster, _MarkedTree({}, frozenset(), {}))
        own_folders = (
            last.own_folders if files.keys() == last.files.keys() else frozenset(argo_folders.platform_folders(files))
        )
        folders = own_folders | frozenset(touched)
        changed = {argo_folders.folder_of(path) for path in compare_blobs(last.files, files)} | over.keys()
        markers = {folder: last.markers[folder] for folder in folders - changed if folder in last.markers}
        missing_folders = folders - markers.keys()
        for path, data in argo_folders.render_markers(cluster, missing_folders, files, over):
            self.gate.check(f"{cluster}/{path}", data)
            markers[argo_folders.folder_of(path)] = path, data
        reusable = {folder: marker for folder, marker in markers.items() if folder not in over}
        self._marked_trees[cluster] = _MarkedTree(dict(files), own_folders, reusable)
        return markers

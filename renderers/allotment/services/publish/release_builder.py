"""Builds the next release: checks and renders the tenants that changed, then calls the steps of `release_assembly`.

No tenant stops the publish of another tenant, and a merge of one tenant loses no data of another tenant. An invalid
tenant keeps its published manifests (`tenant_retention`). An undeclared resource is removed in steps
(`tenant_transition`). If no unit is free, an instance waits (`unit_allocation`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from allotment.adapters.declaration_source import Source
from allotment.branches.branch import Branch
from allotment.declared.inventory import Catalog
from allotment.lifecycle.brake import BrakeWindow
from allotment.preparation.runtime_state import RuntimeState
from allotment.services.check.artifacts import ArtifactHook
from allotment.services.check.catalog_check import CatalogCache
from allotment.services.check.check_options import CheckOptions, OpenCache
from allotment.services.check.cpu_budget import DEFAULT_SECONDS
from allotment.services.check.repository_check import RepositoryCheck, check_repository
from allotment.services.check.workers import count_cores
from allotment.services.publish.observed_state import ObservedState
from allotment.services.publish.preparation_history import PreparationHistory
from allotment.services.publish.published_file_cache import PublishedFileCache
from allotment.services.publish.published_trees import Blobs, PublishedTrees
from allotment.services.publish.refused_transitions import check_tenant_brakes, find_refused_transitions
from allotment.services.publish.release import ClusterTrees, Release
from allotment.services.publish.release_assembly import (
    ReleaseInputs,
    TenantOutcomes,
    allocate_release,
    assemble_release,
    transition_tenants,
)
from allotment.services.publish.render_cache import RenderCache
from allotment.services.publish.rendered_catalog_check import check_rendered_catalog
from allotment.services.publish.rendered_file_store import RenderedFileStore
from allotment.services.publish.rendered_tenant import (
    RenderedTenant,
    Rerenderer,
    build_rendered_tenant,
    find_tenants_missing_bytes,
)
from allotment.services.publish.renderer import ClusterRenderer, Renderer
from allotment.services.publish.tenant_retention import (
    RetentionByTenant,
    find_invalid_tenants,
    find_tenants_of_invalid_clusters,
)

if TYPE_CHECKING:
    from allotment.isolation.gate import IsolationGate


class ReleaseBuilder:
    """Builds releases repeatedly, and renders only the tenants that changed since the last release.

    A tenant that exceeds `cpu_seconds` of processor time keeps its published manifests. If `open_cache` is given, the
    builder reuses the manifests that another process rendered.
    """

    def __init__(
        self,
        processes: int | None = None,
        report_progress: Callable[[int, int], None] | None = None,
        cpu_seconds: float | None = DEFAULT_SECONDS,
        open_cache: OpenCache | None = None,
    ) -> None:
        self._cpu_seconds = cpu_seconds
        self._processes = processes or count_cores()
        self._report_progress = report_progress
        self._cache = RenderCache(open_cache)
        self._file_cache = PublishedFileCache()
        self._published_trees: PublishedTrees | None = None
        self._catalog_cache = CatalogCache(check_rendered_catalog)
        self._cluster_renderer: ClusterRenderer | None = None

    def build_release(
        self,
        source: Source,
        as_of: datetime.date,
        branches: Mapping[str, Branch],
        observed_state: ObservedState,
        *,
        window: Callable[[], BrakeWindow] = BrakeWindow,
        store: RenderedFileStore | None = None,
    ) -> Release:
        """Return the release that follows the published `branches`.

        `window` returns the facts for the verdict of the brake; it is called only if a tenant deletes something.
        `store` receives the rendered files. Raises PlatformInvalid.
        """
        store = store or RenderedFileStore()
        published_trees = self._read_published_trees(branches)
        preparations = PreparationHistory(observed_state, branches, self._file_cache)
        repository_check, retained_tenants, rendered = self._check_and_render(
            source, as_of, published_trees, preparations, store
        )
        inputs = ReleaseInputs(source, repository_check, published_trees, observed_state, preparations)
        rerenderer = Rerenderer(source, repository_check, published_trees, self._processes, store, self._find_gate)
        unchanged = published_trees.list_unchanged((name, tenant.blobs) for name, tenant in rendered.items())
        cached = {
            name: tenant for name, tenant in rendered.items() if name not in unchanged and name not in store.artifacts
        }
        outcomes = TenantOutcomes(
            rendered, retained_tenants, dict(repository_check.tracebacks), frozenset(unchanged)
        ).merge(rerenderer.render_tenants(find_tenants_missing_bytes(cached, published_trees)))
        trees = ClusterTrees(self._open_cluster_renderer(repository_check.valid_catalog), published_trees)
        transitions = transition_tenants(inputs, outcomes, trees)
        outcomes = outcomes.retain(transitions.rejected_tenants, transitions.tracebacks).retain(
            find_refused_transitions(transitions.by_tenant, source)
        )
        braked = check_tenant_brakes(
            repository_check.valid_catalog,
            transitions.by_tenant,
            outcomes.rendered,
            published_trees,
            window,
            outcomes.retained,
        )
        outcomes, allocation = allocate_release(inputs, outcomes.retain(braked.retained_tenants), rerenderer, trees)
        release = assemble_release(inputs, outcomes, transitions.by_tenant, allocation, trees)
        return release._replace(approved_clusters=braked.approved_clusters)

    def _read_published_trees(self, branches: Mapping[str, Branch]) -> PublishedTrees:
        """Return the published trees. Worker processes inherit the files of all tenants, so they are read before a fork.

        If a branch is unreadable, the trees of the last release stay for the next release.
        """
        published_trees = PublishedTrees(branches, self._published_trees)
        _ = published_trees.tenant_files
        self._published_trees = published_trees
        return published_trees

    def _check_and_render(
        self,
        source: Source,
        as_of: datetime.date,
        published_trees: PublishedTrees,
        preparations: PreparationHistory,
        store: RenderedFileStore,
    ) -> tuple[RepositoryCheck, RetentionByTenant, dict[str, RenderedTenant]]:
        """Return the checked source, the retained tenants, and the rendered manifests of the other tenants.

        Raises PlatformInvalid.
        """
        try:
            with store:
                repository_check = self._check_source(source, as_of, published_trees, preparations, store)
            retained_tenants = find_tenants_of_invalid_clusters(
                repository_check, published_trees
            ) | find_invalid_tenants(repository_check)
            return repository_check, retained_tenants, self._merge_with_cache(repository_check, retained_tenants, store)
        except BaseException:
            self._cache.clear()  # the check has cached tenants, but their manifests are not stored yet
            raise

    def _check_source(
        self,
        source: Source,
        as_of: datetime.date,
        published_trees: PublishedTrees,
        preparations: PreparationHistory,
        store: RenderedFileStore,
    ) -> RepositoryCheck:
        """Return the check of the whole source, and store the manifests of the tenants that changed."""
        prepared = preparations.list_succeeded_jobs()
        options = CheckOptions(
            open_cache=self._cache.bind_prepared_jobs(prepared),
            check_catalog=self._catalog_cache.check,
            report_progress=self._report_progress,
            processes=self._processes,
            runtime_states=lambda tenant: RuntimeState(prepared.get(tenant, frozenset())),
            cpu_seconds=self._cpu_seconds,
            partial=True,
        )
        renderer = Renderer(published_trees.compare_rendered, find_gate=self._find_gate)
        return check_repository(source, as_of, options, hook=ArtifactHook(renderer, store.put))

    def _open_cluster_renderer(self, catalog: Catalog) -> ClusterRenderer:
        """Return the renderer of the last release, or a new renderer if the catalog has changed."""
        if self._cluster_renderer is None or self._cluster_renderer.catalog != catalog:
            self._cluster_renderer = ClusterRenderer(catalog)
        return self._cluster_renderer

    def _find_gate(self, catalog: Catalog) -> IsolationGate:
        return self._open_cluster_renderer(catalog).gate

    def _merge_with_cache(
        self, repository_check: RepositoryCheck, retained_tenants: RetentionByTenant, store: RenderedFileStore
    ) -> dict[str, RenderedTenant]:
        """Return the manifests of each tenant that is not retained, from this check or from an earlier check."""
        now = {
            name: build_rendered_tenant(artifact, repository_check.tally_entries[name].claims, store.read_blob)
            for name, artifact in store.artifacts.items()
        }
        self._cache.store(
            {name: rendered_tenant.blobs for name, rendered_tenant in now.items()}, repository_check.tally_entries
        )
        return {
            name: now[name]
            if name in now
            else RenderedTenant(blobs, {}, repository_check.tally_entries[name].claims, store.read_blob)
            for name, blobs in self._cache.rendered_blobs.items()
            if name not in retained_tenants
        }

    @property
    def rendered_blobs(self) -> Mapping[str, Blobs]:
        """The blobs of each tenant's last rendering."""
        return self._cache.rendered_blobs

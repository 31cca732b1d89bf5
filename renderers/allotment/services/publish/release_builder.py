"""Assembles what is published next, again and again: every step of it in order, and only what changed since is
rendered.

One tenant never stops the others, and none loses data by what another merged: who is invalid keeps what was published
(`kept`), what runs goes on and what is declared no more leaves in steps (`tenant_transition`), who came too late for a unit waits
(`allocated_units`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

from allotment.adapters.declaration_source import Source, path_problem
from allotment.branches.branch import Branch
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import Scope, folder_of
from allotment.lifecycle.brake import BrakeWindow
from allotment.lifecycle.volume_transitions import StorageUsers
from allotment.preparation.runtime_state import RuntimeState
from allotment.rules import stock
from allotment.services.check.check_options import CheckOptions, OpenCache
from allotment.services.check.cpu_budget import DEFAULT_SECONDS
from allotment.services.check.repository_check import RepositoryCheck, check_repository
from allotment.services.check.tenant_error import build_rejection
from allotment.services.check.workers import count_cores, locate_findings
from allotment.services.publish.instance_retention import limit_retention
from allotment.services.publish.node_replacement import NodeReplacementGuard
from allotment.services.publish.observed_state import ObservedState
from allotment.services.publish.preparation_history import PreparationHistory
from allotment.services.publish.published_trees import Blobs, PublishedTrees
from allotment.services.publish.published_units import PodUnits
from allotment.services.publish.release import ClusterTrees, Release
from allotment.services.publish.render_cache import RenderCache
from allotment.services.publish.rendered_tenant import (
    RenderedTenant,
    Rerenderer,
    RerenderResult,
    build_rendered_tenant,
    find_tenants_missing_bytes,
)
from allotment.services.publish.tenant_brake import check_tenant_brakes
from allotment.services.publish.tenant_retention import (
    RetainedTenants,
    find_invalid_tenants,
    find_refused_transitions,
    find_tenants_of_invalid_clusters,
    read_retained_files,
    read_retained_instance_files,
    rejection,
)
from allotment.services.publish.tenant_transition import TenantTransition, TransitionContext, transition_tenant
from allotment.services.publish.unit_allocation import Allocation, build_allocation
from allotment.services.renderer import Renderer


class ReleaseBuilder:
    """Assembles trees again and again; it renders only the tenants that changed since it last did.

    A tenant that exceeds `cpu_seconds` of processor time keeps its published manifests. With `open_cache` it continues from the
    manifests that another process rendered.
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

    def build_release(
        self,
        source: Source,
        as_of: datetime.date,
        branches: Mapping[str, Branch],
        observed_state: ObservedState,
        *,
        window: Callable[[], BrakeWindow] = BrakeWindow,
    ) -> Release:
        """Return the trees that follow those of `branches`. `window` returns the facts of the brake; it is called only where a
        tenant deletes something.

        Raises PlatformInvalid.
        """
        published_trees = PublishedTrees(branches)
        _ = published_trees.tenant_files  # listed once, before other processes are forked
        preparations = PreparationHistory(observed_state, branches)
        repository_check, retained_tenants, rendered = self._check_and_render(
            source, as_of, published_trees, preparations
        )
        traces = dict(repository_check.traces)
        rerenderer = Rerenderer(source, repository_check, published_trees, self._processes)
        rendered, retained_tenants = _merge_rerendered(
            rerenderer.render_tenants(find_tenants_missing_bytes(rendered, published_trees)),
            rendered,
            retained_tenants,
            traces,
        )

        trees = ClusterTrees(repository_check.valid_catalog, published_trees)
        tenant_transitions: dict[str, TenantTransition] = {}
        for tenant in sorted((published_trees.tenant_files.keys() | rendered.keys()) - retained_tenants.keys()):
            watched = _create_transition_context(
                tenant, repository_check, observed_state, preparations, published_trees
            )
            try:
                tenant_transition = transition_tenant(
                    tenant, tenant in repository_check.tally_entries, rendered.get(tenant), published_trees, watched
                )
                trees.check_transition(tenant_transition)
                tenant_transitions[tenant] = tenant_transition
            except Exception as error:
                _reject_tenant(tenant, error, retained_tenants, traces)
        retained_tenants |= find_refused_transitions(tenant_transitions, source)
        braked = check_tenant_brakes(
            repository_check.valid_catalog, tenant_transitions, rendered, published_trees, window, retained_tenants
        )
        retained_tenants |= braked.retained_tenants

        offers, pods = (
            repository_check.valid_catalog,
            PodUnits(observed_state, branches, preparations.find_published_claim),
        )
        published = limit_retention(offers, rendered, published_trees, trees.gate, preparations.find_published_claim)
        while True:  # each further round retains a tenant more
            claims = {
                name: rendered_tenant.claims
                for name, rendered_tenant in rendered.items()
                if name not in retained_tenants
            }
            claims |= {name: tuple(published_trees.read_claims(name)) for name in retained_tenants}
            claims = {
                name: tuple(claim for claim in some if claim.cluster in offers.clusters)
                for name, some in claims.items()
            }
            allocation = build_allocation(offers, claims, pods, observed_state, published)
            reduced = rerenderer.render_tenants(
                {tenant for tenant, _ in allocation.reduced_units if tenant not in retained_tenants},
                allocation.reduced_units,
            )
            retained_tenants |= reduced.rejected_tenants
            traces |= reduced.traces
            if not reduced.rejected_tenants:
                break
        rendered |= reduced.rendered_tenants
        turnover = NodeReplacementGuard(offers, published_trees, observed_state)
        release = _assemble_release(
            source,
            repository_check,
            retained_tenants,
            rendered=rendered,
            tenant_transitions=tenant_transitions,
            allocation=allocation,
            turnover=turnover,
            published_trees=published_trees,
            traces=traces,
            trees=trees,
        )
        return release._replace(approved_clusters=braked.approved_clusters)

    def _check_and_render(
        self, source: Source, as_of: datetime.date, published_trees: PublishedTrees, preparations: PreparationHistory
    ) -> tuple[RepositoryCheck, RetainedTenants, dict[str, RenderedTenant]]:
        """Return the checked source, who is kept, and what the others are rendered to. Raises PlatformInvalid."""
        try:
            repository_check = self._check_source(source, as_of, published_trees, preparations)
            retained_tenants = find_tenants_of_invalid_clusters(
                repository_check, published_trees
            ) | find_invalid_tenants(repository_check)
            return repository_check, retained_tenants, self._merge_with_cache(repository_check, retained_tenants)
        except BaseException:
            self._cache.clear()  # the survey noted tenants as known whose files weren't taken up
            raise

    def _check_source(
        self, source: Source, as_of: datetime.date, published_trees: PublishedTrees, preparations: PreparationHistory
    ) -> RepositoryCheck:
        """Return the whole source, checked, with what those tenants are rendered to that aren't as they were."""
        prepared = preparations.list_succeeded_jobs()
        options = CheckOptions(
            open_cache=self._cache.bind_prepared_jobs(prepared),
            render=Renderer(published_trees.compare_rendered),
            report_progress=self._report_progress,
            processes=self._processes,
            runtime_states=lambda tenant: RuntimeState(prepared.get(tenant, frozenset())),
            cpu_seconds=self._cpu_seconds,
            partial=True,
        )
        return check_repository(source, as_of, options)

    def _merge_with_cache(
        self, repository_check: RepositoryCheck, retained_tenants: RetainedTenants
    ) -> dict[str, RenderedTenant]:
        """Return what each tenant is rendered to, now or before, but those that are kept."""
        now = {
            name: build_rendered_tenant(artifact, repository_check.tally_entries[name].claims)
            for name, artifact in repository_check.artifacts.items()
        }
        self._cache.store(
            {name: rendered_tenant.blobs for name, rendered_tenant in now.items()}, repository_check.tally_entries
        )
        return {
            name: now[name] if name in now else RenderedTenant(blobs, {}, repository_check.tally_entries[name].claims)
            for name, blobs in self._cache.rendered_blobs.items()
            if name not in retained_tenants
        }

    @property
    def rendered_blobs(self) -> Mapping[str, Blobs]:
        """What each tenant was last rendered to."""
        return self._cache.rendered_blobs


def _merge_rerendered(
    rerender_result: RerenderResult,
    rendered: dict[str, RenderedTenant],
    retained_tenants: RetainedTenants,
    traces: dict[str, str],
) -> tuple[dict[str, RenderedTenant], RetainedTenants]:
    """Return the rendered and the retained tenants with those that were rendered again; add the traces of bugs."""
    traces |= rerender_result.traces
    return rendered | rerender_result.rendered_tenants, retained_tenants | rerender_result.rejected_tenants


def _reject_tenant(tenant: str, error: Exception, retained_tenants: RetainedTenants, traces: dict[str, str]) -> None:
    """Retain a tenant that ran into a bug. Raises the error where it does not concern one tenant."""
    stopped = build_rejection(error)
    retained_tenants[tenant] = rejection(
        [path_problem(folder_of(Scope("tenant", tenant)), stopped.message, stopped.rule)]
    )
    traces[tenant] = stopped.trace


def _create_transition_context(
    tenant: str,
    repository_check: RepositoryCheck,
    observed_state: ObservedState,
    preparations: PreparationHistory,
    published_trees: PublishedTrees,
) -> TransitionContext:
    platform = repository_check.catalog.platform.get_singleton(Platform)
    assert platform is not None

    def users(cluster: str, storage: str) -> StorageUsers:
        claims = {claim.instance: claim for claim in repository_check.tally_entries[tenant].claims}
        return preparations.find_storage_users(
            cluster, tenant, storage, claims, published_trees.tenant_files.get(tenant, ())
        )

    def last(cluster: str, storage: str) -> str:
        return preparations.find_last_job_uid(cluster, tenant, storage)

    return TransitionContext(observed_state, platform.model.spec.deletion.after, users, last)


def _assemble_release(
    source: Source,
    repository_check: RepositoryCheck,
    retained_tenants: RetainedTenants,
    *,
    rendered: Mapping[str, RenderedTenant],
    tenant_transitions: Mapping[str, TenantTransition],
    allocation: Allocation,
    turnover: NodeReplacementGuard,
    published_trees: PublishedTrees,
    traces: dict[str, str],
    trees: ClusterTrees,
) -> Release:
    """Return the trees of all clusters, and in words who isn't in them as declared."""
    published = {
        tenant: tenant_transition
        for tenant, tenant_transition in sorted(tenant_transitions.items())
        if tenant not in retained_tenants
    }
    for tenant, tenant_transition in published.items():
        trees.add_tenant(rendered.get(tenant), tenant_transition)
    files, left_out = read_retained_instance_files(allocation.retained_instances, published_trees, trees)
    trees.add_retained_files(files)
    for tenant in retained_tenants:
        files, problems = read_retained_files(tenant, published_trees, trees.gate)
        trees.add_retained_files(files)
        retained_tenants[tenant] = retained_tenants[tenant]._replace(
            problems=[*retained_tenants[tenant].problems, *problems]
        )
    claims = allocation.list_claims(
        {name: rendered_tenant.claims for name, rendered_tenant in rendered.items() if name not in retained_tenants}
    )
    trees.add_cluster_files(
        claims, lambda cluster: published_trees.list_letters(cluster) | repository_check.list_letters(cluster), turnover
    )
    trees.add_markers()
    faults = repository_check.faults
    trees.retain_clusters(faults.by_cluster)
    problems = [
        *faults.harmless,
        *left_out,
        *(
            problem
            for problem in repository_check.shared_problems
            if problem.rule != stock.RULE and not problem.warning
        ),
    ]
    return Release(
        catalog=repository_check.valid_catalog,
        files=trees.files,
        data=trees.data,
        retained_tenants=dict(sorted(retained_tenants.items())),
        waiting_instances=allocation.waiting_instances,
        pending_deletions=[
            words for tenant_transition in published.values() for words in tenant_transition.pending_deletions
        ],
        pending_changes=[
            *turnover.pending_replacements,
            *(words for tenant_transition in published.values() for words in tenant_transition.pending_preparations),
        ],
        leaked_units=allocation.leaked_units,
        problems=[
            *problems,
            *locate_findings(stock.check_retained_units(repository_check.valid_catalog, claims), source),
        ],
        declared_tenants=frozenset(repository_check.tally_entries),
        rendered_count=len(repository_check.artifacts),
        traces=traces,
        retained_clusters=faults.by_cluster,
    )

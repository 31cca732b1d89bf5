"""The steps of a release after the tenants are rendered: their transitions, the allocation of units, and the trees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from allotment.adapters.declaration_source import Source, path_problem
from allotment.branches.platform_settings import read_lifecycle
from allotment.capacity.units import UnitClaim
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import Scope, folder_of
from allotment.lifecycle.volume_transitions import StorageUsers
from allotment.problems import Problem
from allotment.rules import stock
from allotment.services.check.repository_check import RepositoryCheck
from allotment.services.check.tenant_error import build_rejection
from allotment.services.check.workers import locate_findings
from allotment.services.publish.instance_retention import limit_retention, read_retained_instance_files
from allotment.services.publish.node_replacement import NodeReplacementGuard
from allotment.services.publish.observed_state import ObservedState
from allotment.services.publish.preparation_history import PreparationHistory
from allotment.services.publish.published_trees import PublishedTrees
from allotment.services.publish.published_units import PodUnits
from allotment.services.publish.release import ClusterTrees, Release
from allotment.services.publish.rendered_tenant import RenderedTenant, Rerenderer, RerenderResult
from allotment.services.publish.tenant_retention import (
    RetentionByTenant,
    read_retained_files,
    rejection,
)
from allotment.services.publish.tenant_transition import (
    NO_TRANSITION,
    TenantTransition,
    TransitionContext,
    transition_tenant,
)
from allotment.services.publish.unit_allocation import Allocation, build_allocation


class ReleaseInputs(NamedTuple):
    """The inputs of a release: the source and its check, the published trees, and the observed state."""

    source: Source
    repository_check: RepositoryCheck
    published_trees: PublishedTrees
    observed_state: ObservedState
    preparations: PreparationHistory


class TenantOutcomes(NamedTuple):
    """The rendered and the retained tenants of a release, and the tracebacks of bugs, by tenant.

    `unchanged` are tenants with rendered files that equal the published files.
    """

    rendered: dict[str, RenderedTenant]
    retained: RetentionByTenant
    tracebacks: dict[str, str]
    unchanged: frozenset[str] = frozenset()

    def merge(self, result: RerenderResult) -> TenantOutcomes:
        """Return the outcomes with the results for the tenants that were rendered again."""
        if not any(result):
            return self
        merged = self._replace(
            rendered=self.rendered | result.rendered_tenants,
            unchanged=self.unchanged - result.rendered_tenants.keys(),
        )
        return merged.retain(result.rejected_tenants, result.tracebacks)

    def retain(self, retained: RetentionByTenant, tracebacks: Mapping[str, str] | None = None) -> TenantOutcomes:
        """Return the outcomes with more retained tenants."""
        return self._replace(retained=self.retained | retained, tracebacks=self.tracebacks | dict(tracebacks or {}))

    def list_rendered_claims(self) -> dict[str, tuple[UnitClaim, ...]]:
        """Return the claims of each tenant that is not retained."""
        return {name: tenant.claims for name, tenant in self.rendered.items() if name not in self.retained}


class TransitionResult(NamedTuple):
    """The transitions, the tenants that are rejected because of a bug, and the tracebacks of the bugs, each by tenant."""

    by_tenant: dict[str, TenantTransition]
    rejected_tenants: RetentionByTenant
    tracebacks: dict[str, str]


def transition_tenants(inputs: ReleaseInputs, outcomes: TenantOutcomes, trees: ClusterTrees) -> TransitionResult:
    """Return the transition of each published or rendered tenant that is not retained.

    Leaves out the unchanged tenants, because their transitions would be empty. Raises an error of a transition if the
    error does not concern a single tenant (`build_rejection`).
    """
    result = TransitionResult({}, {}, {})
    published_trees, declared = inputs.published_trees, inputs.repository_check.tally_entries
    tenants = (published_trees.tenant_files.keys() | outcomes.rendered.keys()) - outcomes.retained.keys()
    for tenant in sorted(tenants - outcomes.unchanged):
        context = _create_transition_context(tenant, inputs)
        try:
            transition = transition_tenant(
                tenant, tenant in declared, outcomes.rendered.get(tenant), published_trees, context
            )
            trees.check_transition(transition)
            result.by_tenant[tenant] = transition
        except Exception as error:
            rejected = build_rejection(error)
            problem = path_problem(folder_of(Scope("tenant", tenant)), rejected.message, rejected.rule)
            result.rejected_tenants[tenant] = rejection([problem])
            result.tracebacks[tenant] = rejected.traceback
    return result


def allocate_release(
    inputs: ReleaseInputs, outcomes: TenantOutcomes, rerenderer: Rerenderer, trees: ClusterTrees
) -> tuple[TenantOutcomes, Allocation]:
    """Allocate units, and render again each tenant that gets fewer units than it declares.

    Returns the outcomes and the allocation. If the second rendering of a tenant fails, the tenant is retained, and the
    units are allocated again.
    """
    catalog, published_trees = inputs.repository_check.valid_catalog, inputs.published_trees
    find_published_claim = inputs.preparations.find_published_claim
    pods = PodUnits(inputs.observed_state, published_trees.branches, find_published_claim)
    published = limit_retention(catalog, outcomes.rendered, published_trees, trees.gate, find_published_claim)
    while True:  # each round retains at least one more tenant, so the loop ends
        claims = outcomes.list_rendered_claims() | {
            name: tuple(published_trees.read_claims(name)) for name in outcomes.retained
        }
        claims = {
            name: tuple(claim for claim in tenant_claims if claim.cluster in catalog.clusters)
            for name, tenant_claims in claims.items()
        }
        allocation = build_allocation(catalog, claims, pods, inputs.observed_state, published)
        reduced = rerenderer.render_tenants(
            {tenant for tenant, _ in allocation.reduced_units if tenant not in outcomes.retained},
            allocation.reduced_units,
        )
        if not reduced.rejected_tenants:
            return outcomes.merge(reduced), allocation
        outcomes = outcomes.retain(reduced.rejected_tenants, reduced.tracebacks)


def assemble_release(
    inputs: ReleaseInputs,
    outcomes: TenantOutcomes,
    transitions: Mapping[str, TenantTransition],
    allocation: Allocation,
    trees: ClusterTrees,
) -> Release:
    """Return the trees of all clusters, with messages about each tenant that is not published as declared."""
    repository_check, published_trees = inputs.repository_check, inputs.published_trees
    published = {
        tenant: transition for tenant, transition in sorted(transitions.items()) if tenant not in outcomes.retained
    }
    rendered_tenants = outcomes.rendered.keys() - outcomes.retained.keys() - published.keys()
    unchanged_tenants = outcomes.unchanged & rendered_tenants
    trees.add_unchanged_tenants(unchanged_tenants)
    for tenant in rendered_tenants - unchanged_tenants:  # rendered again, with fewer units
        trees.add_tenant(outcomes.rendered[tenant], NO_TRANSITION)
    for tenant, transition in published.items():
        trees.add_tenant(outcomes.rendered.get(tenant), transition)
    retained_tenants, left_out = _add_retained_files(inputs, outcomes, allocation, trees)
    claims = allocation.list_claims(outcomes.list_rendered_claims())
    pending_replacements = trees.add_cluster_files(
        claims,
        lambda cluster: published_trees.list_letters(cluster) | repository_check.list_letters(cluster),
        NodeReplacementGuard(repository_check.valid_catalog, published_trees, inputs.observed_state),
    )
    trees.add_markers()
    faults = repository_check.faults
    trees.retain_clusters(faults.by_cluster)
    return Release(
        catalog=repository_check.valid_catalog,
        files=trees.files,
        data=trees.data,
        retained_tenants=retained_tenants,
        waiting_instances=allocation.waiting_instances,
        pending_deletions=[message for transition in published.values() for message in transition.pending_deletions],
        pending_changes=[
            *pending_replacements,
            *(message for transition in published.values() for message in transition.pending_preparations),
        ],
        leaked_units=allocation.leaked_units,
        problems=[*faults.harmless, *left_out, *_list_shared_errors(inputs, claims)],
        declared_tenants=frozenset(repository_check.tally_entries),
        rendered_count=len(repository_check.tally_entries) - repository_check.cached_count,
        tracebacks=outcomes.tracebacks,
        retained_clusters=faults.by_cluster,
    )


def _add_retained_files(
    inputs: ReleaseInputs, outcomes: TenantOutcomes, allocation: Allocation, trees: ClusterTrees
) -> tuple[RetentionByTenant, list[Problem]]:
    """Add the published files of retained instances and tenants to the trees.

    If the gate refuses objects in a file, the file has a problem. The first result maps each retained tenant to its
    retention, which includes the problems of the tenant's files. The second result has the problems of the files of
    retained instances.
    """
    files, left_out = read_retained_instance_files(allocation.retained_instances, inputs.published_trees, trees)
    trees.add_retained_files(files)
    retained_tenants: RetentionByTenant = {}
    for tenant, retention in sorted(outcomes.retained.items()):
        files, problems = read_retained_files(tenant, inputs.published_trees, trees.gate)
        trees.add_retained_files(files)
        retained_tenants[tenant] = retention._replace(problems=[*retention.problems, *problems])
    return retained_tenants, left_out


def _list_shared_errors(inputs: ReleaseInputs, claims: list[UnitClaim]) -> list[Problem]:
    """Return the errors that several owners cause together.

    The check computed the shortages of stocks from the declared claims. Instead of these shortages, the result has the
    shortages for `claims`, the allocated claims of the release.
    """
    repository_check = inputs.repository_check
    findings = stock.check_retained_units(repository_check.valid_catalog, claims)
    return [
        *(
            problem
            for problem in repository_check.shared_problems
            if problem.rule != stock.RULE and not problem.warning
        ),
        *locate_findings(findings, inputs.source),
    ]


def _create_transition_context(tenant: str, inputs: ReleaseInputs) -> TransitionContext:
    platform = inputs.repository_check.catalog.platform.get_singleton(Platform)
    assert platform is not None

    def find_users(cluster: str, storage: str) -> StorageUsers:
        claims = {claim.instance: claim for claim in inputs.repository_check.tally_entries[tenant].claims}
        published_files = inputs.published_trees.tenant_files.get(tenant, ())
        return inputs.preparations.find_storage_users(cluster, tenant, storage, claims, published_files)

    return TransitionContext(
        inputs.observed_state,
        platform.model.spec.deletion.after,
        find_users,
        lambda cluster, storage: inputs.preparations.find_last_job_uid(cluster, tenant, storage),
        partial(read_lifecycle, inputs.source, tenant),
    )

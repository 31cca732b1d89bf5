"""Finds the tenants that a publish retains, and reads the published files of these tenants.

A retained tenant stays at its last published manifests. Each publish decides again which tenants it retains.
`RetentionReason` lists the reasons. The table names the functions that return retained tenants, and the cases in which
each of them returns a tenant:

    find_invalid_tenants              The declarations are invalid, the tenant declares something in an invalid cluster,
                                      the tenant exceeds its time budget, the isolation gate refuses a rendered
                                      manifest, or a bug makes Allotment fail on the tenant.
    find_tenants_of_invalid_clusters  The tenant has published files in a cluster with invalid declarations.
    transition_tenants                The gate refuses the next version of a published file, or a bug makes Allotment
                                      fail on the tenant.
    find_refused_transitions          A deletion is not allowed (`lifecycle/deletion_steps`), or a volume cannot change
                                      as declared (`lifecycle/volume_transitions`).
    check_tenant_brakes               The tenant deletes more of its own resources than the brake allows.
    Rerenderer.render_tenants         The second rendering of the tenant fails. A publish renders a tenant twice if the
                                      cache lacks the bytes of a file, or if the tenant gets fewer units.

A publish applies the declarations of each tenant that it does not retain. It does not apply the rules about changes
(`rules.CHANGE_RULES`), which are for pull requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from allotment.adapters.declaration_source import path_problem
from allotment.declared.layout import Scope, folder_of
from allotment.lifecycle.published_manifests import with_disruption_budget
from allotment.lifecycle.retained_instance import without_wait_annotations
from allotment.manifests.paths import parse_tree_path
from allotment.observed.retention import Retention, RetentionReason
from allotment.problems import AllotmentError, Problem
from allotment.services.check import cpu_budget, tenant_error
from allotment.services.check.platform_faults import CLUSTER_RULE
from allotment.services.check.repository_check import RepositoryCheck
from allotment.services.check.tenant_error import ISOLATION_RULE
from allotment.services.publish.published_trees import PublishedTrees

if TYPE_CHECKING:
    from allotment.isolation.gate import IsolationGate

RetentionByTenant = dict[str, Retention]  # by tenant
# Rules whose problems are not errors in declarations, each with its reason. If a tenant has problems of several of
# these rules, the first rule in this order gives the reason.
_REASONS = {
    tenant_error.RULE: RetentionReason.PROGRAM_ERROR,
    ISOLATION_RULE: RetentionReason.ISOLATION_GATE,
    cpu_budget.RULE: RetentionReason.TIME_BUDGET,
}


def rejection(problems: list[Problem]) -> Retention:
    """Return the retention of a tenant whose check or rendering failed with the errors `problems`."""
    rules = {problem.rule for problem in problems}
    stopped = next((reason for rule, reason in _REASONS.items() if rule in rules), RetentionReason.INVALID)
    return Retention(RetentionReason.INVALID_CLUSTER if rules == {CLUSTER_RULE} else stopped, problems)


class PlatformInvalid(AllotmentError):
    """The platform's own declarations are invalid, so a publish is impossible."""

    def __init__(self, problems: list[Problem], files: int, tenants: int) -> None:
        super().__init__("the declarations of the platform are invalid")
        self.problems = problems
        self.file_count = files
        self.tenant_count = tenants


def find_invalid_tenants(repository_check: RepositoryCheck) -> RetentionByTenant:
    """Return the tenants that did not pass the check.

    Raises PlatformInvalid if the platform's own declarations have an error that concerns every tenant.
    """
    if stops := repository_check.faults.blocking:
        raise PlatformInvalid(stops, repository_check.file_count, len(repository_check.tally_entries))
    return {tenant: rejection(problems) for tenant, problems in repository_check.split_errors_by_owner()[1].items()}


def find_tenants_of_invalid_clusters(
    repository_check: RepositoryCheck, published_trees: PublishedTrees
) -> RetentionByTenant:
    """Return the tenants with published files in a cluster with invalid declarations."""
    retained_tenants: RetentionByTenant = {}
    for cluster, problems in repository_check.faults.by_cluster.items():
        for tenant, files in published_trees.tenant_files.items():
            if tenant not in retained_tenants and any(path.startswith(f"{cluster}/") for path in files):
                message = f"cluster {cluster} is invalid: {problems[0]}"
                problem = path_problem(folder_of(Scope("tenant", tenant)), message, CLUSTER_RULE)
                retained_tenants[tenant] = Retention(RetentionReason.INVALID_CLUSTER, [problem])
    return retained_tenants


def read_retained_files(
    tenant: str, published_trees: PublishedTrees, gate: IsolationGate
) -> tuple[dict[str, bytes], list[Problem]]:
    """Return a retained tenant's published files, and a problem for each file that lost objects.

    The files lack the objects that the gate refuses. They also lack the annotations that say that an instance waits for
    units of another GPUSpec. The instance no longer waits, because a publish ignores the declarations of a retained
    tenant. The namespace gets a PodDisruptionBudget like the namespace of any other tenant, because `node_replacement`
    keeps the published nodes of a pool until every tenant in the cluster has a PodDisruptionBudget.
    """
    published = {
        path: without_wait_annotations(published_trees.read_file(path))
        for path in published_trees.tenant_files.get(tenant, ())
        if path.partition("/")[0] in gate.clusters  # the publish retains any other cluster as a whole
    }
    files, problems = drop_refused_objects(published, gate)
    return {path: _with_disruption_budget(gate, path, data, tenant) for path, data in files.items()}, problems


def drop_refused_objects(published: Mapping[str, bytes], gate: IsolationGate) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the files without the objects that the gate refuses, and a problem for each file that lost objects."""
    files: dict[str, bytes] = {}
    problems = []
    for path, published_data in published.items():
        data, dropped = gate.drop_forbidden(path, published_data)
        if dropped:
            message = (
                f"these published objects are no longer allowed in the cluster, and are removed: {'; '.join(dropped)}"
            )
            problems.append(Problem(path, 1, 1, "(file)", message, ISOLATION_RULE))
        if data:
            files[path] = data
    return files, problems


def _with_disruption_budget(gate: IsolationGate, path: str, data: bytes, tenant: str) -> bytes:
    """Return a retained tenant's file. Adds a PodDisruptionBudget to the file of the namespace.

    Raises IsolationBroken if the gate refuses the file with the PodDisruptionBudget.
    """
    tree_path = parse_tree_path(path.partition("/")[2])
    if (
        tree_path is None
        or tree_path.part != "namespaces"
        or (protecting := with_disruption_budget(data, tenant)) == data
    ):
        return data
    gate.check(path, protecting, published=True)
    return protecting

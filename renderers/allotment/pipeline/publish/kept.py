"""Who is kept as it was published, and why: nothing that is declared of such a tenant counts until the reason is gone.

`Assembler.assemble` puts these reasons together:

    invalid           its declarations are wrong, take more than its share, or are rendered to what the gate stops:
                      what `pipeline/check` and `pipeline/render` found
    may_not_settle    something is gone that may not go (`changes/departure`), or a volume would become what it can't
                      (`changes/volumes`)
    of_unsound_clusters  a cluster that it has anything in is invalid
    brake_tenants     the tenant deletes more of its own than the brake allows
    rendered.Again    what had to be rendered once more is stopped: because it wasn't remembered, or because the tenant
                      gets fewer units than it declares

Everybody else is published. Rules about change (`rules.CHANGE_RULES`) judge pull requests; a publish has these alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from allotment.adapters.source import Source, place_problem
from allotment.declared.layout import Scope, folder_of
from allotment.declared.things import INSTANCE
from allotment.manifests.paths import spot_of, tenant_file
from allotment.manifests.published import with_budget
from allotment.manifests.retained_instance import with_published_deployment, without_waiting
from allotment.observed.retention import Retention, RetentionReason
from allotment.pipeline.check import share, tenant_error
from allotment.pipeline.check.platform_faults import CLUSTER_RULE
from allotment.pipeline.check.survey import Survey
from allotment.pipeline.check.tenant_error import ISOLATION_RULE
from allotment.pipeline.check.workers import placed
from allotment.pipeline.publish.before import Before
from allotment.problems import AllotmentError, Problem

if TYPE_CHECKING:
    from allotment.accounts.resizes import InstanceKey
    from allotment.manifests.gate.isolation import Gate
    from allotment.pipeline.publish.assembly import ClusterTrees
    from allotment.pipeline.publish.granted import RetainedInstance
    from allotment.pipeline.publish.settled import Settled

Kept = dict[str, Retention]  # by tenant
# The rules of the rejections that stop a tenant before or beside the rules of declarations, the most urgent first.
_REASONS = {
    tenant_error.RULE: RetentionReason.PROGRAM_ERROR,
    ISOLATION_RULE: RetentionReason.ISOLATION_GATE,
    share.RULE: RetentionReason.TIME_BUDGET,
}


def rejection(problems: list[Problem]) -> Retention:
    """Return the retention of a tenant that its check or its rendering rejected with these errors."""
    rules = {problem.rule for problem in problems}
    stopped = next((reason for rule, reason in _REASONS.items() if rule in rules), RetentionReason.INVALID)
    return Retention(RetentionReason.INVALID_CLUSTER if rules == {CLUSTER_RULE} else stopped, problems)


class PlatformInvalid(AllotmentError):
    """What the platform itself declares is wrong, so that nothing can be published."""

    def __init__(self, problems: list[Problem], files: int, tenants: int) -> None:
        super().__init__("what the platform declares is wrong")
        self.problems = problems
        self.files = files
        self.tenants = tenants


def invalid(repository_check: Survey) -> Kept:
    """Return the tenants whose own declarations, or one of whose clusters, are invalid. Raises PlatformInvalid where the
    catalog is."""
    if stops := repository_check.faults.of_all:
        raise PlatformInvalid(stops, repository_check.files, len(repository_check.parts))
    return {tenant: rejection(problems) for tenant, problems in repository_check.by_owner()[1].items()}


def of_unsound_clusters(repository_check: Survey, published_trees: Before) -> Kept:
    """Return the tenants with published files in a cluster that is invalid."""
    retained_tenants: Kept = {}
    for cluster, problems in repository_check.faults.by_cluster.items():
        for tenant, files in published_trees.tenants.items():
            if tenant not in retained_tenants and any(path.startswith(f"{cluster}/") for path in files):
                words = f"cluster {cluster} is invalid: {problems[0]}"
                problem = place_problem(folder_of(Scope("tenant", tenant)), words, CLUSTER_RULE)
                retained_tenants[tenant] = Retention(RetentionReason.INVALID_CLUSTER, [problem])
    return retained_tenants


def may_not_settle(tenant_transitions: Mapping[str, Settled], source: Source) -> Kept:
    """Return the tenants that want something gone which may not go, or a volume to be what it can't become."""
    return {  # a tenant that is removed from two clusters has the same finding in both
        name: Retention(
            RetentionReason.REFUSED_TRANSITION, sorted(dict.fromkeys(placed(tenant_transition.findings, source)))
        )
        for name, tenant_transition in tenant_transitions.items()
        if tenant_transition.findings
    }


def kept_files(tenant: str, published_trees: Before, gate: Gate) -> tuple[dict[str, bytes], list[Problem]]:
    """Return a kept tenant's published files without the objects that the gate refuses now, and a problem about each file
    that lost some.

    An instance of it that waited for units of another GPUSpec waits no more: nothing that the tenant declares counts.
    Its instances are protected from drained nodes as everybody's: else one tenant would keep a cluster's nodes from being
    replaced (`turnover`).
    """
    published = {
        path: without_waiting(published_trees.read(path))
        for path in published_trees.tenants.get(tenant, ())
        if path.partition("/")[0] in gate.clusters  # any other cluster is retained as a whole
    }
    files, problems = _sifted(published, gate)
    return {path: _protecting(gate, path, data, tenant) for path, data in files.items()}, problems


def retained_instance_files(
    retained: Mapping[InstanceKey, RetainedInstance], published_trees: Before, trees: ClusterTrees
) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the files of instances that wait for units of another GPUSpec, and the problems of `_sifted`. `trees` have them as
    they are rendered."""
    files = {}
    for (tenant, name), instance in retained.items():
        path = f"{instance.claim.cluster}/{tenant_file(tenant, INSTANCE.part, name)}"
        files[path] = with_published_deployment(published_trees.read(path), trees.read(path), instance.words)
    return _sifted(files, trees.gate)


def _sifted(published: Mapping[str, bytes], gate: Gate) -> tuple[dict[str, bytes], list[Problem]]:
    """Return published files without the objects that the gate refuses now, and a problem about each file that lost some."""
    files: dict[str, bytes] = {}
    problems = []
    for path, published_data in published.items():
        data, dropped = gate.sift(path, published_data)
        if dropped:
            words = f"what was published of it no longer fits its cluster, and is left out: {'; '.join(dropped)}"
            problems.append(Problem(path, 1, 1, "(file)", words, ISOLATION_RULE))
        if data:
            files[path] = data
    return files, problems


def _protecting(gate: Gate, path: str, data: bytes, tenant: str) -> bytes:
    """Return a kept tenant's file, its namespace's with a budget."""
    spot = spot_of(path.partition("/")[2])
    if spot is None or spot.part != "namespaces" or (protecting := with_budget(data, tenant)) == data:
        return data
    gate.check(path, protecting, published=True)
    return protecting

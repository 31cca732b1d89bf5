"""Retains each tenant with a refused transition: by a deletion step, by a volume, or by the brake."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from allotment.adapters.declaration_source import Source, path_problem
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import Scope, folder_of
from allotment.lifecycle.brake import RULE, BrakeWindow, brake_items, judge_tenant
from allotment.observed.retention import Retention, RetentionReason
from allotment.services.check.workers import locate_findings
from allotment.services.publish.published_trees import PublishedTrees
from allotment.services.publish.rendered_tenant import RenderedTenant
from allotment.services.publish.tenant_retention import RetentionByTenant
from allotment.services.publish.tenant_transition import TenantTransition

if TYPE_CHECKING:
    from allotment.declared.inventory import Catalog


def find_refused_transitions(tenant_transitions: Mapping[str, TenantTransition], source: Source) -> RetentionByTenant:
    """Return the tenants with a refused transition.

    A refused transition contains a deletion that is not allowed, or an impossible change of a volume.
    """
    return {
        name: Retention(
            RetentionReason.REFUSED_TRANSITION,
            # Without duplicates: the removal of a tenant from two clusters yields the same finding twice.
            sorted(dict.fromkeys(locate_findings(tenant_transition.findings, source))),
        )
        for name, tenant_transition in tenant_transitions.items()
        if tenant_transition.findings
    }


class TenantBrakeResult(NamedTuple):
    """The tenants that the brake retains, and the clusters in which an approval released a deletion."""

    retained_tenants: dict[str, Retention]
    approved_clusters: frozenset[str]


def check_tenant_brakes(
    catalog: Catalog,
    tenant_transitions: Mapping[str, TenantTransition],
    rendered: Mapping[str, RenderedTenant],
    published_trees: PublishedTrees,
    window: Callable[[], BrakeWindow],
    retained_tenants: Collection[str],
) -> TenantBrakeResult:
    """Return the brake's verdict on the deletions of each tenant that is not in `retained_tenants`.

    A tenant without a transition deletes nothing.
    """
    platform = catalog.platform.get_singleton(Platform)
    assert platform is not None
    retained: dict[str, Retention] = {}
    released: set[str] = set()
    for tenant in sorted(tenant_transitions.keys() - set(retained_tenants)):
        files = rendered[tenant].blobs if tenant in rendered else {}
        published_paths = published_trees.tenant_files.get(tenant, {}).keys()
        paths = {*files, *tenant_transitions[tenant].updated, *tenant_transitions[tenant].retained}
        if published_paths <= paths:
            continue  # no file is removed, so no item is removed
        published, now = brake_items(published_paths), brake_items(paths)
        if not published - now:
            continue
        verdict = judge_tenant(platform.model.spec.brake, tenant, published, now, window())
        if verdict.excess is not None:
            problem = path_problem(folder_of(Scope("tenant", tenant)), verdict.excess.publish_message, RULE)
            retained[tenant] = Retention(RetentionReason.BRAKE, [problem])
        released |= verdict.released_clusters
    return TenantBrakeResult(retained, frozenset(released))

"""Retains each tenant that deletes more of its own than the brake allows, so that no tenant stops the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from allotment.adapters.source import place_problem
from allotment.changes.brake import RULE, Window, items_of, judge_tenant
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import Scope, folder_of
from allotment.observed.retention import Retention, RetentionReason
from allotment.pipeline.publish.before import Before
from allotment.pipeline.publish.rendered import Rendered

if TYPE_CHECKING:
    from allotment.declared.inventory import Offers
    from allotment.pipeline.publish.settled import Settled


class BrakedTenants(NamedTuple):
    """The tenants that the brake retains, and the clusters of deletions that an approval released."""

    retained: dict[str, Retention]
    released: frozenset[str]


def brake_tenants(
    offers: Offers,
    tenant_transitions: Mapping[str, Settled],
    rendered: Mapping[str, Rendered],
    published_trees: Before,
    window: Callable[[], Window],
    retained_tenants: Collection[str],
) -> BrakedTenants:
    """Judge the deletions of each tenant that is not `retained_tenants` for another reason."""
    platform = offers.platform.one(Platform)
    assert platform is not None
    retained: dict[str, Retention] = {}
    released: set[str] = set()
    for tenant in sorted(tenant_transitions.keys() - set(retained_tenants)):
        files = rendered[tenant].blobs if tenant in rendered else {}
        published = items_of(published_trees.tenants.get(tenant, ()))
        now = items_of((*files, *tenant_transitions[tenant].follows, *tenant_transitions[tenant].stays))
        if not published - now:
            continue
        verdict = judge_tenant(platform.model.spec.brake, tenant, published, now, window())
        if verdict.stop is not None:
            problem = place_problem(folder_of(Scope("tenant", tenant)), verdict.stop.words, RULE)
            retained[tenant] = Retention(RetentionReason.BRAKE, [problem])
        released |= verdict.released
    return BrakedTenants(retained, frozenset(released))

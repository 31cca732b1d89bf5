"""Budget: a tenant's declarations cost no more per month than its plan's budget."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from allotment.capacity.pricing import format_money, monthly_costs
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.tenant import Tenant
from allotment.problems import Finding
from allotment.rules.limits import plan_of

RULE = "budget"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's monthly cost. If the budget of its plan has `enforcement: Warn`, the finding is a warning."""
    plan, declared, platform = (
        plan_of(catalog, tenant),
        tenant.get_singleton(Tenant),
        catalog.platform.get_singleton(Platform),
    )
    if plan is None or declared is None or platform is None or plan.model.spec.budget is None:
        return
    budget, currency = plan.model.spec.budget, platform.model.spec.billing.currency
    costs = monthly_costs(catalog, tenant)
    total = sum((cost.per_month for cost in costs), Decimal(0))
    if total > budget.per_month:
        largest = ", ".join(f"{cost.label} {format_money(cost.per_month)}" for cost in costs[:3])
        message = (
            f"the declared resources cost {format_money(total)} {currency} a month, but plan "
            f"{plan.model.name} allows {format_money(budget.per_month)}; the most expensive are {largest}: reduce the cost by "
            f"{format_money(total - budget.per_month)}, or ask the platform team for another plan"
        )
        warning = budget.enforcement == "Warn"
        yield declared.make_finding(
            "spec.plan", message, RULE, warning=warning, related=(plan.path, *(cost.path for cost in costs))
        )

"""Raises the limits of one tenant: the edits of `allot request`, each as an admin would write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from allotment.capacity.units import physical_gpus
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.stock import Stock
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.reading import suggest_name
from allotment.declared.values import format_size
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations
from allotment.edits.field_assignments import parse_declaration_name, set_fields
from allotment.edits.option_values import OptionParser
from allotment.edits.plan_edits import list_gpu_models
from allotment.edits.stock_edits import NewStock, add_stock
from allotment.problems import OperationRefused, pluralize, quote_value
from allotment.rules.availability import AvailableOffers, GPUOffer, TenantAllowance
from allotment.rules.limits import sharing_mode
from allotment.rules.quota import merge_quotas

MAX_REASON = 2000  # characters
MAX_UNITS = 100_000
_GPU_QUOTA = re.compile(r"gpus\.([^=]+)=")
_GPU_COUNT = re.compile(r"gpus=([0-9]+)")  # without a model
_COUNTS = ("instances", "storages", "snapshots")  # the fields of a quota that count resources


class SpecRequest(NamedTuple):
    """A number of units of a GPUSpec. An empty cluster stands for the only cluster with a stock of the GPUSpec."""

    gpu_spec: str
    cluster: str
    units: str


def check_reason(text: str) -> str:
    """Return a reason in one line. Raises OperationRefused if it is empty or too long."""
    parser = OptionParser()
    parser.check_texts({"reason": text})
    reason = " ".join(text.split())
    if not 0 < len(reason) <= MAX_REASON:
        raise OperationRefused(
            f"--reason has {len(reason)} characters: write a sentence of 1 to {MAX_REASON} for the approver"
        )
    return reason


def request_quota(declarations: Declarations, tenant: str, assignments: Sequence[str], reason: str) -> ChangeSet:
    """Return the change that sets fields of a tenant's own quota, such as `gpus.nvidia-l4=12`.

    Raises OperationRefused if there is no assignment, or if a value is lower than the current quota.
    """
    target = parse_declaration_name(f"Tenant/{tenant}")
    declarations.find(Tenant, target.scope, tenant)
    before, models = _list_limits(declarations, tenant), list_gpu_models(declarations)
    if not assignments:
        listed = ", ".join(f"{field}={text}" for field, (_, text) in before.items())
        values = f"; the quota of {tenant} is {listed}" if listed else ""
        raise OperationRefused(f"no field is set: write FIELD=VALUE{values}")
    for count in (match[1] for match in map(_GPU_COUNT.fullmatch, assignments) if match is not None):
        fields = [field for field in before if field.startswith("gpus.")] or [f"gpus.{name}" for name in sorted(models)]
        raise OperationRefused(
            f"gpus={count} names no model: write {' or '.join(f'{field}={count}' for field in fields) or 'gpus.MODEL'}"
        )
    change = set_fields(declarations, target, [f"quota.{text}" for text in assignments])
    for model in (match[1] for match in map(_GPU_QUOTA.match, assignments) if match is not None):
        if model not in models:
            raise OperationRefused(
                f"no node pool and no GPUSpec has the model {quote_value(model)}{suggest_name(model, models)}"
            )
    changed = declarations._replace(read=lambda path: change.files.get(path) or declarations.read(path))
    after = _list_limits(changed, tenant)
    for field, (limit, limit_text) in before.items():
        new_limit, new_text = after.get(field, (limit, limit_text))
        if new_limit < limit:
            raise OperationRefused(
                f"quota.{field} of {tenant} is {limit_text}, and {new_text} is less: a request only raises a quota, and"
                f" `allot set Tenant/{tenant} quota.{field}={new_text}` lowers it"
            )
    return change._replace(title=f"Set the quota of {tenant} to {', '.join(assignments)}", reason=reason)


def _list_limits(declarations: Declarations, tenant: str) -> dict[str, tuple[int, str]]:
    """Return the limits of a tenant and their texts, by field; empty if the tenant or its plan can't be read."""
    try:
        spec = declarations.find(Tenant, Scope("tenant", tenant), tenant).model.spec
        plan = declarations.find(Plan, PLATFORM, spec.plan)
    except OperationRefused:
        return {}  # the plan of the change reports the problem
    limits = merge_quotas(plan.model.spec.quota, spec.quota)
    return {
        **{f"gpus.{model}": (count, str(count)) for model, count in limits.gpus.items()},
        **{field: (getattr(limits, field), str(getattr(limits, field))) for field in _COUNTS},
        "storage": (limits.storage, format_size(limits.storage)),
    }


def request_spec(
    declarations: Declarations, offers: AvailableOffers, allowance: TenantAllowance, request: SpecRequest, reason: str
) -> ChangeSet:
    """Return the change with which a tenant can hold more units of a GPUSpec.

    It raises the tenant's quota, reserves units for the tenant, or both. Raises OperationRefused if the tenant can hold the units
    already, or if neither the quota nor the stocks prevent it.
    """
    declarations.find(GPUSpec, PLATFORM, request.gpu_spec)
    parser = OptionParser()
    count = parser.parse_count("--count", request.units, MAX_UNITS)
    parser.raise_problems()
    offer = _choose_offer(declarations, offers, request)
    changes = [
        *_raise_quota(declarations, allowance, offer, count),
        *_reserve_units(declarations, allowance.name, offer, count),
    ]
    barriers = "; ".join(barrier.message for barrier in offer.barriers)
    what = f"{pluralize(count, 'more unit')} of {request.gpu_spec} in {offer.cluster}"
    if not changes:
        more = f"{barriers}: ask the platform team" if barriers else "`allot instance create` declares an instance"
        raise OperationRefused(f"no quota and no stock prevents {what} for {allowance.name}: {more}")
    title = f"Allow {allowance.name} {what}"
    notes = (f"Until the merge: {barriers}.",) if barriers else ()
    return merge_change_sets(changes, title)._replace(title=title, notes=notes, reason=reason)


def _choose_offer(declarations: Declarations, offers: AvailableOffers, request: SpecRequest) -> GPUOffer:
    by_cluster = {offer.cluster: offer for offer in offers.gpu_offers if offer.spec.model.name == request.gpu_spec}
    if not by_cluster:
        raise OperationRefused(f"no cluster has a stock of {request.gpu_spec}: `allot stock add` declares a stock")
    if request.cluster:
        parser = OptionParser()
        parser.check_name(
            "--cluster", request.cluster, by_cluster, f"no stock of {request.gpu_spec} is in a cluster named"
        )
        parser.raise_problems()
        return by_cluster[request.cluster]
    if len(by_cluster) > 1:
        raise OperationRefused(f"add --cluster: {', '.join(sorted(by_cluster))}")
    return next(iter(by_cluster.values()))


def _raise_quota(
    declarations: Declarations, allowance: TenantAllowance, offer: GPUOffer, count: int
) -> list[ChangeSet]:
    """Return the change of the tenant's own quota; none if the quota is large enough. Raises OperationRefused for its plan."""
    plan, limits, spec = allowance.plan, allowance.limits, offer.spec.model.spec
    if plan is None or limits is None:
        raise OperationRefused(f"the plan of {allowance.name} can't be read: `allot validate` shows the reason")
    mode, allowed = sharing_mode(spec), plan.model.spec.allow.sharing
    if mode not in allowed:
        raise OperationRefused(
            f"plan {plan.model.name} doesn't allow {mode}, only {', '.join(allowed)}, and no tenant has its own modes: ask for another"
            f" plan by `allot set Tenant/{allowance.name} plan=PLAN --pr`"
        )
    needed = ceil(allowance.usage.gpus.get(spec.gpu.model, 0) + physical_gpus(spec) * count)
    if needed <= limits.gpus.get(spec.gpu.model, 0):
        return []
    return [request_quota(declarations, allowance.name, [f"gpus.{spec.gpu.model}={needed}"], "")]


def _reserve_units(declarations: Declarations, tenant: str, offer: GPUOffer, count: int) -> list[ChangeSet]:
    """Return the change that reserves the missing units: in a stock of the tenant, or in a new stock; none if enough are free."""
    missing = count - offer.free_units - offer.reserved_for(tenant).free_units
    if missing <= 0:
        return []
    scope, gpu_spec = Scope("cluster", offer.cluster), offer.spec.model.name
    for name in declarations.list_names(Stock, scope):
        spec = declarations.find(Stock, scope, name).model.spec
        if (spec.gpu_spec, spec.tenant) == (gpu_spec, tenant):
            target = parse_declaration_name(f"Stock/{offer.cluster}/{name}")
            return [set_fields(declarations, target, [f"count={spec.count + missing}"])]
    stock = NewStock(
        cluster=offer.cluster, name=f"{gpu_spec}-{tenant}", gpu_spec=gpu_spec, count=str(missing), tenant=tenant
    )
    return [add_stock(declarations, stock)]

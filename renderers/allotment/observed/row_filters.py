"""Filters the rows of lists, and refuses filters with unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from allotment.capacity.offers import Offers
from allotment.declared.instance_selection import (
    InstanceSelector,
    LabelRequirement,
    check_label_names,
    select_instances,
    select_labelled,
)
from allotment.declared.reading import suggest_name
from allotment.observed.offer_rows import SpecRowOutput, StockOfferOutput
from allotment.observed.quantity import parse_quantity
from allotment.observed.resource_rows import InstanceRowOutput, StorageRowOutput
from allotment.observed.tenant_rows import TenantRowOutput
from allotment.problems import OperationRefused, quote_value


class RowFilter(NamedTuple):
    """The conditions on a row. An empty condition, None or 0 selects all; a row must satisfy every condition.

    `specs` are GPUSpecs or StorageSpecs, and `models` are GPU models. `min_memory` is in bytes per GPU or slice.
    `max_price` limits the cost per hour. `states` are declared or displayed states. `nodes` are names of nodes.
    """

    tenants: Collection[str] = ()
    clusters: Collection[str] = ()
    specs: Collection[str] = ()
    models: Collection[str] = ()
    min_memory: int = 0
    max_price: Decimal | None = None
    states: Collection[str] = ()
    nodes: Collection[str] = ()
    labels: Sequence[LabelRequirement] = ()


def check_known_names(kind: str, names: Iterable[str], valid_names: Collection[str]) -> None:
    """Raise OperationRefused if a name is not known. The error suggests similar names, or lists the known names."""
    for name in names:
        if name not in valid_names:
            raise OperationRefused(f"no {kind} is named {quote_value(name)}{suggest_name(name, valid_names)}")


def check_offer_names(conditions: RowFilter, offers: Offers, clusters: Collection[str]) -> None:
    """Raise OperationRefused if a cluster, a GPUSpec or a GPU model of the conditions is unknown."""
    check_known_names("cluster", conditions.clusters, clusters)
    check_known_names("GPUSpec", conditions.specs, offers.gpu_specs)
    check_known_names("GPU model", conditions.models, set(offers.models_by_spec.values()))


def filter_instances(
    rows: Sequence[InstanceRowOutput], conditions: RowFilter, offers: Offers
) -> list[InstanceRowOutput]:
    """Return the instances that satisfy the conditions. Raises OperationRefused if no row has a label of them."""
    check_label_names(conditions.labels, rows)
    selector = InstanceSelector(
        tenants=conditions.tenants,
        clusters=conditions.clusters,
        gpu_specs=conditions.specs,
        gpu_models=conditions.models,
        labels=conditions.labels,
    )
    return [
        row
        for row in select_instances(rows, selector, offers.models_by_spec)
        if parse_quantity(row.gpu_memory) >= conditions.min_memory
        and _is_affordable(row.cost_per_hour, conditions.max_price)
        and (not conditions.states or {row.state, row.reported_state} & set(conditions.states))
        and (not conditions.nodes or not set(conditions.nodes).isdisjoint(row.nodes))
    ]


def filter_storages(rows: Sequence[StorageRowOutput], conditions: RowFilter) -> list[StorageRowOutput]:
    """Return the storages that satisfy the conditions. Raises OperationRefused if no row has a label of them."""
    check_label_names(conditions.labels, rows)
    return [
        row
        for row in select_labelled(rows, conditions.labels)
        if (not conditions.tenants or row.tenant in conditions.tenants)
        and (not conditions.clusters or row.cluster in conditions.clusters)
        and (not conditions.specs or row.storage_spec in conditions.specs)
        and _is_affordable(row.cost_per_hour, conditions.max_price)
        and (not conditions.states or row.reported_state in conditions.states)
    ]


def filter_stocks(
    rows: Sequence[StockOfferOutput], conditions: RowFilter, offers: Offers, free: int
) -> list[StockOfferOutput]:
    """Return the stocks with at least `free` free units that satisfy the conditions.

    Stocks that are reserved for other tenants than those of the conditions are left out.
    """
    return [
        row
        for row in rows
        if row.free >= free
        and (not row.tenant or row.tenant in conditions.tenants)
        and (not conditions.clusters or row.cluster in conditions.clusters)
        and matches_offer(row.gpu_spec, conditions, offers)
    ]


def matches_offer(gpu_spec: str, conditions: RowFilter, offers: Offers) -> bool:
    """Return whether a GPUSpec satisfies the conditions on the name, the model, the memory and the price."""
    offer = offers.gpu_specs.get(gpu_spec)
    return (
        (not conditions.specs or gpu_spec in conditions.specs)
        and (not conditions.models or (offer is not None and offer.model in conditions.models))
        and (not conditions.min_memory or (offer is not None and offer.memory >= conditions.min_memory))
        and _is_affordable(offer.price if offer is not None else None, conditions.max_price)
    )


def filter_specs(rows: Sequence[SpecRowOutput], conditions: RowFilter, offers: Offers) -> list[SpecRowOutput]:
    """Return the GPUSpecs that satisfy the conditions."""
    return [
        row
        for row in rows
        if (not conditions.clusters or row.cluster in conditions.clusters)
        and matches_offer(row.name, conditions, offers)
    ]


def filter_tenants(
    rows: Sequence[TenantRowOutput], conditions: RowFilter, plans: Collection[str]
) -> list[TenantRowOutput]:
    """Return the tenants that satisfy the conditions and have one of `plans`; without plans, any plan.

    Raises OperationRefused if no tenant has a label of the conditions, or one of the plans.
    """
    check_label_names(conditions.labels, rows)
    check_known_names("plan of a tenant", plans, {row.plan for row in rows if row.plan})
    return [
        row
        for row in select_labelled(rows, conditions.labels)
        if (not conditions.tenants or row.name in conditions.tenants)
        and (not conditions.clusters or set(row.clusters) & set(conditions.clusters))
        and (not plans or row.plan in plans)
        and _is_affordable(row.cost_per_hour, conditions.max_price)
    ]


def _is_affordable(cost: Decimal | None, limit: Decimal | None) -> bool:
    """Return whether a cost is known and within a limit; True without a limit."""
    return limit is None or (cost is not None and cost <= limit)

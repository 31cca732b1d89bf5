"""Derives the declared, held, free and ready units of each stock from live placeholders and instances."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from allotment.observed.objects import Deployment, Pod
from allotment.observed.status import Stock


def derive_stocks(
    placeholders: Iterable[Deployment], pods: Iterable[Pod], held_units: Mapping[tuple[str, str], int]
) -> tuple[Stock, ...]:
    """Return all stocks, sorted by name. `held_units` maps a GPUSpec and a tenant to the units that the tenant holds.

    The units that a tenant holds are counted in the tenant's own stocks first, and then in shared stocks, both in the
    order of their names, as in `capacity.units.compute_stock_usage`. The ready units of a stock are its running
    placeholders, because an instance can replace a placeholder at once. A placeholder with a failed device is not
    ready, because the node no longer offers this device.
    """
    ready = Counter(pod.stock for pod in pods if pod.ready and not pod.terminating and not pod.has_unhealthy_device)
    remaining = Counter({key: units for key, units in held_units.items() if units})
    sorted_placeholders = sorted(
        placeholders, key=lambda placeholder: (not placeholder.reserved_for, placeholder.stock)
    )
    shared: dict[str, int] = defaultdict(int)
    used: dict[str, int] = {}
    for placeholder in sorted_placeholders:
        if placeholder.reserved_for:
            key = (placeholder.gpu_spec, placeholder.reserved_for)
            used[placeholder.stock] = min(placeholder.units, remaining[key])
            remaining[key] -= used[placeholder.stock]
    for (spec, _), units in remaining.items():
        shared[spec] += units
    for placeholder in sorted_placeholders:
        if not placeholder.reserved_for:
            used[placeholder.stock] = min(placeholder.units, shared[placeholder.gpu_spec])
            shared[placeholder.gpu_spec] -= used[placeholder.stock]
    return tuple(
        Stock(
            name=placeholder.stock,
            gpu_spec=placeholder.gpu_spec,
            count=placeholder.units,
            held_units=used[placeholder.stock],
            free=placeholder.units - used[placeholder.stock],
            ready=min(ready[placeholder.stock], placeholder.units),
            tenant=placeholder.reserved_for,
            node_pool=placeholder.karpenter_pool,
        )
        for placeholder in sorted(sorted_placeholders, key=lambda placeholder: placeholder.stock)
    )

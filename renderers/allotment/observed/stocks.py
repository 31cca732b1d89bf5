"""Live placeholders and instances → what each stock holds: declared, held, free and ready units."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from allotment.observed.objects import Deployment, Pod
from allotment.observed.status import Stock


def stocks(
    placeholders: Iterable[Deployment], pods: Iterable[Pod], held: Mapping[tuple[str, str], int]
) -> tuple[Stock, ...]:
    """Return every stock, sorted; `held` has the units of each (GPUSpec, tenant).

    A tenant's units lie on its own stocks first, then on shared ones, each in the order of names
    (`accounts.capacity.placeholders`). Ready are placeholders that run, so that an instance takes their place at once:
    none whose device went bad, since the node offers that one to nobody any more.
    """
    ready = Counter(pod.stock for pod in pods if pod.ready and not pod.ending and not pod.unhealthy)
    left = Counter({key: units for key, units in held.items() if units})
    found = sorted(placeholders, key=lambda one: (not one.reserved_for, one.stock))
    shared: dict[str, int] = defaultdict(int)
    used: dict[str, int] = {}
    for one in found:
        if one.reserved_for:
            key = (one.gpu_spec, one.reserved_for)
            used[one.stock] = min(one.units, left[key])
            left[key] -= used[one.stock]
    for (spec, _), units in left.items():
        shared[spec] += units
    for one in found:
        if not one.reserved_for:
            used[one.stock] = min(one.units, shared[one.gpu_spec])
            shared[one.gpu_spec] -= used[one.stock]
    return tuple(
        Stock(
            name=one.stock,
            gpu_spec=one.gpu_spec,
            count=one.units,
            held=used[one.stock],
            free=one.units - used[one.stock],
            ready=min(ready[one.stock], one.units),
            tenant=one.reserved_for,
            node_pool=one.node_pool,
        )
        for one in sorted(found, key=lambda one: one.stock)
    )

"""Stocks and their pools: model, sharing and capacity type agree; a spec for single tenants has pools of one tenant
each."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.accounts.capacity import unit, units_per_node
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.stock import Stock
from allotment.problems import Finding

RULE = "stock-pool"


def check(offers: Offers) -> Iterator[Finding]:
    """Check every stock against its pool."""
    specs = offers.platform.of(GPUSpec)
    for cluster in offers.clusters.values():
        pools = cluster.of(NodePool)
        for stock in cluster.of(Stock).values():
            spec, pool = specs.get(stock.model.spec.gpu_spec), pools.get(stock.model.spec.node_pool)
            if spec is not None and pool is not None:
                yield from _check_agreement(stock, spec, pool)
                yield from _check_tenancy(cluster, stock, spec)


def _sharing_text(sharing: object) -> str:
    time_slicing, mig = getattr(sharing, "time_slicing", None), getattr(sharing, "mig", None)
    if time_slicing is not None:
        return f"timeSlicing with {time_slicing.replicas} replicas"
    if mig is not None:
        return f"mig {getattr(mig, 'profile', None) or getattr(mig, 'config', '')}"
    return "none"


def _same_sharing(spec: GPUSpecSpec, pool: NodePoolSpec) -> bool:
    wanted, given = spec.sharing, pool.sharing
    if wanted is None or given is None:
        return wanted is None and given is None
    if wanted.time_slicing is not None and given.time_slicing is not None:
        return wanted.time_slicing.replicas == given.time_slicing.replicas
    return wanted.mig is not None and given.mig is not None and wanted.mig.profile in given.mig.devices


def _check_agreement(stock: Declared[Stock], spec: Declared[GPUSpec], pool: Declared[NodePool]) -> Iterator[Finding]:
    wanted, given = spec.model.spec, pool.model.spec
    related = (spec.path, pool.path)
    differences = []
    if wanted.gpu.model != given.node.gpu.model:
        differences.append(f"GPU model {wanted.gpu.model} and {given.node.gpu.model}")
    if wanted.capacity_type != given.capacity_type:
        differences.append(f"capacityType {wanted.capacity_type} and {given.capacity_type}")
    if not _same_sharing(wanted, given):
        differences.append(f"sharing {_sharing_text(wanted.sharing)} and {_sharing_text(given.sharing)}")
    for difference in differences:
        message = f"spec {spec.model.name} and pool {pool.model.name} differ: {difference}; name a pool that agrees"
        yield stock.finding("spec.nodePool", message, RULE, related=related)
    if not differences and units_per_node(wanted, given) == 0:
        size = unit(wanted)
        message = f"one unit of {spec.model.name} ({size.amount} {size.resource}, {size.cpu / 1000:g} CPU) is larger than a node of {pool.model.name}"
        yield stock.finding("spec.nodePool", message, RULE, related=related)


def _check_tenancy(cluster: Folder, stock: Declared[Stock], spec: Declared[GPUSpec]) -> Iterator[Finding]:
    if spec.model.spec.tenancy != "Single":
        return
    owner, pool = stock.model.spec.tenant, stock.model.spec.node_pool
    if owner is None:
        message = f"spec {spec.model.name} has tenancy Single, which is held for one tenant: write which"
        yield stock.finding("spec.tenant", message, "tenancy", related=(spec.path,))
    for other in cluster.of(Stock).values():
        if other.model.spec.node_pool == pool and other.model.spec.tenant != owner and owner is not None:
            message = (
                f"pool {pool} would hold tenant {owner} and, by stock {other.model.name}, {other.model.spec.tenant or 'any tenant'}:"
                f" tenancy Single needs the pool for one"
            )
            yield stock.finding("spec.tenant", message, "tenancy", related=(spec.path, other.path))

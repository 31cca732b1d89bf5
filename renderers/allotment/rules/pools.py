"""Stocks and their pools: the GPUSpec and the pool of a stock agree in GPU model, sharing and capacity type.

If the GPUSpec has tenancy Single, the pool serves a single tenant. The node selector of a static pool must not include
all labels of the selector of another static pool. If it did, the same nodes would match both pools. No Karpenter pool
sets the configuration label of NVIDIA's device plugin, because Allotment sets this label.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from allotment.capacity.units import unit_of_spec, units_per_node
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.sharing import (
    MigProfile,
    PoolSharing,
    SpecDra,
    SpecSharing,
    device_plugin_config,
    replicas_of,
)
from allotment.declared.kinds.stock import Stock
from allotment.problems import Finding

RULE = "stock-pool"
NODES_RULE = "pool-nodes"
_CONFIG_LABEL = "nvidia.com/device-plugin.config"


def check(catalog: Catalog) -> Iterator[Finding]:
    """Check every stock against its pool, and the pools against each other."""
    specs = catalog.platform.of_kind(GPUSpec)
    for cluster in catalog.clusters.values():
        pools = cluster.of_kind(NodePool)
        yield from _check_nodes(list(pools.values()))
        for pool in pools.values():
            yield from _check_config(pool)
        for stock in cluster.of_kind(Stock).values():
            spec, its_pool = specs.get(stock.model.spec.gpu_spec), pools.get(stock.model.spec.node_pool)
            if spec is not None and its_pool is not None:
                yield from _check_agreement(stock, spec, its_pool)
                yield from _check_tenancy(cluster, stock, spec)


def _check_nodes(pools: list[DeclarationFile[NodePool]]) -> Iterator[Finding]:
    """Check that the selector of a static pool doesn't match the nodes of another static pool.

    Only the labels in the selectors distinguish nodes with shared GPUs from other nodes.
    """
    static = [(pool, pool.model.spec.static.node_selector) for pool in pools if pool.model.spec.static is not None]
    for (first_pool, own), (other, other_labels) in combinations(static, 2):
        if own.items() <= other_labels.items() or other_labels.items() <= own.items():
            labels = ", ".join(f"{key}={value}" for key, value in sorted({**own, **other_labels}.items()))
            message = f"nodes with {labels} match both pool {first_pool.model.name} and pool {other.model.name}: select the nodes of each pool by a different label"
            yield other.make_finding("spec.static.nodeSelector", message, NODES_RULE, related=(first_pool.path,))


def _check_config(pool: DeclarationFile[NodePool]) -> Iterator[Finding]:
    """Check that a Karpenter pool does not set the configuration label of NVIDIA's device plugin.

    The plugin ignores a node if the label names a configuration that Allotment does not define. A static pool cannot
    set the label, because the labels that select its nodes have no prefix such as `nvidia.com/`.
    """
    spec = pool.model.spec
    for index, requirement in enumerate(spec.karpenter.requirements if spec.karpenter is not None else ()):
        if requirement.key == _CONFIG_LABEL:
            message = (
                f"{_CONFIG_LABEL} is set to {device_plugin_config(spec.sharing)} by spec.sharing: remove the label"
            )
            yield pool.make_finding(f"spec.karpenter.requirements.{index}.key", message, NODES_RULE)


def _sharing_text(sharing: SpecSharing | PoolSharing | None) -> str:
    if sharing is None:
        return "none"
    if (replicas := replicas_of(sharing)) is not None:
        return f"{'mps' if sharing.mps else 'timeSlicing'} with {replicas} replicas"
    if isinstance(sharing.mig, MigProfile):
        return f"mig {sharing.mig.profile}"
    if sharing.mig is not None:
        return f"mig {sharing.mig.config}"
    assert sharing.dra is not None
    parts = sharing.dra.profile if isinstance(sharing.dra, SpecDra) else ", ".join(sorted(sharing.dra.devices or ()))
    return f"dra {sharing.dra.device_class_name}{f' {parts}' if parts else ''}"


def _shares_alike(spec: GPUSpecSpec, pool: NodePoolSpec) -> bool:
    spec_sharing, pool_sharing = spec.sharing, pool.sharing
    if spec_sharing is None or pool_sharing is None:
        return spec_sharing is None and pool_sharing is None
    if spec_sharing.chosen_member != pool_sharing.chosen_member or replicas_of(spec_sharing) != replicas_of(
        pool_sharing
    ):
        return False
    if spec_sharing.mig is not None and pool_sharing.mig is not None:
        return spec_sharing.mig.profile in pool_sharing.mig.devices
    if spec_sharing.dra is not None and pool_sharing.dra is not None:
        # A GPUSpec of whole GPUs has no profile, and a pool of whole GPUs declares no devices.
        return spec_sharing.dra.profile in (pool_sharing.dra.devices or (None,))
    return True


def list_differences(spec: GPUSpecSpec, pool: NodePoolSpec) -> list[str]:
    """Return the differences between a GPUSpec and a pool that exclude a stock; empty if the pool can hold the units."""
    differences = []
    if spec.gpu.model != pool.node.gpu.model:
        differences.append(f"GPU model {spec.gpu.model} and {pool.node.gpu.model}")
    if spec.capacity_type != pool.capacity_type:
        differences.append(f"capacityType {spec.capacity_type} and {pool.capacity_type}")
    if not _shares_alike(spec, pool):
        differences.append(f"sharing {_sharing_text(spec.sharing)} and {_sharing_text(pool.sharing)}")
    return differences


def _check_agreement(
    stock: DeclarationFile[Stock], spec: DeclarationFile[GPUSpec], pool: DeclarationFile[NodePool]
) -> Iterator[Finding]:
    gpu_spec, pool_spec = spec.model.spec, pool.model.spec
    related = (spec.path, pool.path)
    differences = list_differences(gpu_spec, pool_spec)
    for difference in differences:
        message = f"spec {spec.model.name} and pool {pool.model.name} differ: {difference}; name a pool that agrees"
        yield stock.make_finding("spec.nodePool", message, RULE, related=related)
    if not differences and units_per_node(gpu_spec, pool_spec) == 0:
        size = unit_of_spec(gpu_spec)
        message = f"one unit of {spec.model.name} ({size.amount} {size.resource}, {size.cpu / 1000:g} CPU) is larger than a node of {pool.model.name}"
        yield stock.make_finding("spec.nodePool", message, RULE, related=related)


def _check_tenancy(
    cluster: ScopeDeclarations, stock: DeclarationFile[Stock], spec: DeclarationFile[GPUSpec]
) -> Iterator[Finding]:
    if spec.model.spec.tenancy != "Single":
        return
    owner, pool = stock.model.spec.tenant, stock.model.spec.node_pool
    if owner is None:
        message = (
            f"spec {spec.model.name} has tenancy Single, so its units must be reserved for a tenant: write the tenant"
        )
        yield stock.make_finding("spec.tenant", message, "tenancy", related=(spec.path,))
    for other in cluster.of_kind(Stock).values():
        if other.model.spec.node_pool == pool and other.model.spec.tenant != owner and owner is not None:
            message = (
                f"pool {pool} would serve tenant {owner} and, by stock {other.model.name}, {other.model.spec.tenant or 'any tenant'}:"
                " with tenancy Single a pool serves a single tenant"
            )
            yield stock.make_finding("spec.tenant", message, "tenancy", related=(spec.path, other.path))

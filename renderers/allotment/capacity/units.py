"""Computes the size of a unit, the number of units that fit on a node pool, and the units that tenants hold.

A unit is the GPU, CPU, memory and disk that one replica of an instance gets. The formulas are in
docs/decisions/0002-units.md.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations, cached_by_scope
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.sharing import replicas_of
from allotment.declared.kinds.stock import Stock
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.values import GIBI, MEBI

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"  # time-slicing and MPS: the device plugin's name for a shared nvidia.com/gpu
DRA_GPU = "gpu.allotment.dev/gpu"  # extended resources of Allotment's own DeviceClasses
_MIG_MEMORY = re.compile(r"\.([0-9]{1,6})gb")
_DRA_MIG = "gpu.allotment.dev/mig-"
MIG_SLICES = 7  # compute slices of a MIG-capable GPU; a 1g profile has one of them


class Unit(NamedTuple):
    """The resource requests of a unit: `amount` of the extended resource, CPU in millicores, and memory in bytes."""

    resource: str
    amount: int
    cpu: int
    memory: int


def mig_resource(profile: str) -> str:
    """Return the extended resource of a MIG profile: 1g.10gb → nvidia.com/mig-1g.10gb."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def dra_resource(profile: str | None) -> str:
    """Return the extended resource that DRA provides for a MIG profile; for whole GPUs if `profile` is None."""
    return DRA_GPU if profile is None else f"{_DRA_MIG}{profile.replace('+', '.')}"


def unit_of_spec(spec: GPUSpecSpec) -> Unit:
    """Return the requests of a unit of `spec`."""
    resource = GPU
    if spec.sharing is not None:
        if spec.sharing.mig is not None:
            resource = mig_resource(spec.sharing.mig.profile)
        elif spec.sharing.dra is not None:
            resource = dra_resource(spec.sharing.dra.profile)
        else:
            resource = SHARED_GPU
    return Unit(resource, spec.gpu.count, spec.cpu, spec.memory)


def physical_gpus(spec: GPUSpecSpec) -> Fraction:
    """Return the exact number of physical GPUs of one unit: 1/4 for a quarter of a shared GPU, 2/7 for a 2g slice."""
    if (replicas := replicas_of(spec.sharing)) is not None:
        return Fraction(spec.gpu.count, replicas)
    profile = mig_profile(spec)
    return Fraction(spec.gpu.count) if profile is None else Fraction(spec.gpu.count * int(profile[0]), MIG_SLICES)


def mig_profile(spec: GPUSpecSpec) -> str | None:
    """Return the MIG profile of a unit, for the device plugin or for DRA; None if the unit is no MIG slice."""
    if spec.sharing is None:
        return None
    if spec.sharing.mig is not None:
        return spec.sharing.mig.profile
    return spec.sharing.dra.profile if spec.sharing.dra is not None else None


def gpu_memory_limit(spec: GPUSpecSpec) -> int | None:
    """Return the bytes of GPU memory that each process of a unit may use, in whole MiB; None if nothing limits it.

    Only MPS sets a limit: the daemon of the device plugin divides the memory of a GPU by the number of replicas
    (NVIDIA/k8s-device-plugin, cmd/mps-control-daemon/mps/daemon.go). The real limit is somewhat lower than the result,
    because a GPU reports somewhat less memory than `gpu.memory`.
    """
    if spec.sharing is None or spec.sharing.mps is None:
        return None
    return spec.gpu.memory // spec.sharing.mps.replicas // MEBI * MEBI


def memory_per_device(spec: GPUSpecSpec) -> int:
    """Return the bytes of GPU memory that a unit has on each of its GPUs or GPU slices.

    A MIG slice has the memory in the name of its profile, and MPS limits the memory (`gpu_memory_limit`). Without them,
    the memory is that of the physical GPU, also with time-slicing, which doesn't limit the memory.
    """
    if (limit := gpu_memory_limit(spec)) is not None:
        return limit
    profile = mig_profile(spec)
    memory = _MIG_MEMORY.search(profile) if profile is not None else None
    return int(memory[1]) * GIBI if memory is not None else spec.gpu.memory


def node_resources(pool: NodePoolSpec) -> dict[str, int]:
    """Return the extended resources of a node of a pool."""
    gpus, sharing = pool.node.gpu.count, pool.sharing
    if sharing is None:
        return {GPU: gpus}
    if (replicas := replicas_of(sharing)) is not None:
        return {SHARED_GPU: gpus * replicas}
    if sharing.mig is not None:
        return {mig_resource(profile): gpus * count for profile, count in sharing.mig.devices.items()}
    assert sharing.dra is not None
    if sharing.dra.devices is None:
        return {DRA_GPU: gpus}
    return {dra_resource(profile): gpus * count for profile, count in sharing.dra.devices.items()}


def units_per_node(spec: GPUSpecSpec, pool: NodePoolSpec) -> int:
    """Return the number of units of `spec` that fit on an empty node of `pool`, by GPUs (or slices), CPU and memory."""
    unit = unit_of_spec(spec)
    slots = node_resources(pool).get(unit.resource, 0) // unit.amount
    return min(slots, pool.node.cpu // unit.cpu, pool.node.memory // unit.memory)


def placeholder_cpu(pool: NodePoolSpec, spec: GPUSpecSpec, stocked: Iterable[GPUSpecSpec]) -> int:
    """Return the millicores that the placeholder of a unit requests; `stocked` are the specs of the pool's stocks.

    A placeholder is a pause pod that keeps a unit ready for an instance. Without DRA, it requests exactly one unit.

    With DRA, a placeholder requests no device, because Kubernetes 1.36 does not preempt a pod to free a device.
    Instead, it requests so much CPU that the placeholders for all devices of a node fill the node. If all units of the
    pool have the same size, an empty node has room for at most as many placeholders as devices. If the pool mixes MIG
    profiles, an empty node may have room for more placeholders of a profile than devices of this profile.
    """
    if spec.sharing is None or spec.sharing.dra is None:
        return spec.cpu
    each: dict[str, int] = {}  # for each resource, the most CPU per device that any unit requests
    for gpu_spec in [spec, *stocked]:
        unit = unit_of_spec(gpu_spec)
        each[unit.resource] = max(each.get(unit.resource, 0), -(-unit.cpu // unit.amount))
    total_cpu = sum(amount * each.get(resource, 0) for resource, amount in node_resources(pool).items())
    return max(spec.cpu, spec.cpu * pool.node.cpu // total_cpu) if total_cpu else spec.cpu


class Packing(NamedTuple):
    """The number of nodes in use, and the number of units of each stock that don't fit on the nodes."""

    nodes: int
    missing: dict[str, int]


class _NodeGroup(NamedTuple):
    """Nodes with the same load: their number, the free resources of each, and whether they are in use."""

    number: int
    resources: dict[str, int]
    cpu: int
    memory: int
    used: bool

    def free_units(self, unit: Unit) -> int:
        """Return the number of units that fit on each node."""
        slots = self.resources.get(unit.resource, 0) // unit.amount
        return min(slots, self.cpu // unit.cpu, self.memory // unit.memory)

    def with_units(self, unit: Unit, units: int, number: int) -> _NodeGroup:
        """Return `number` of these nodes with `units` more units on each."""
        remaining = self.resources[unit.resource] - units * unit.amount
        resources = {**self.resources, unit.resource: remaining}
        return _NodeGroup(number, resources, self.cpu - units * unit.cpu, self.memory - units * unit.memory, True)


def pack_stocks(
    pool: NodePoolSpec,
    stocks: Iterable[tuple[str, GPUSpecSpec, int]],
    last: Collection[str] = (),
    nodes: int | None = None,
) -> Packing:
    """Pack `stocks` (name, spec, units) on the identical nodes of a pool: first fit, the largest units first.

    The stocks with the names `last` get the room that the others leave. `nodes` is the number of nodes in service; the
    default is all nodes of the pool.

    Units are compared by GPUs, then by memory, then by CPU. Nodes with the same load are in one group, so the computing
    time does not depend on the number of nodes.
    """

    def size(stock: tuple[str, GPUSpecSpec, int]) -> tuple[bool, int, int, int, str]:
        unit = unit_of_spec(stock[1])
        return stock[0] in last, -unit.amount, -unit.memory, -unit.cpu, stock[0]

    number = pool.node_limit if nodes is None else nodes
    groups = [_NodeGroup(number, node_resources(pool), pool.node.cpu, pool.node.memory, False)]
    missing: dict[str, int] = {}
    for name, spec, count in sorted(stocks, key=size):
        groups, remaining = _place_units(groups, unit_of_spec(spec), count)
        if remaining:
            missing[name] = remaining
    return Packing(sum(group.number for group in groups if group.used), missing)


def _place_units(nodes: list[_NodeGroup], unit: Unit, remaining: int) -> tuple[list[_NodeGroup], int]:
    """Place `remaining` units on the first nodes with room. Return the nodes, and the number of units without room."""
    after: list[_NodeGroup] = []
    for some in nodes:
        each, free_nodes = some.free_units(unit), some.number
        if each and remaining:
            filled = min(free_nodes, remaining // each)
            if filled:
                after.append(some.with_units(unit, each, filled))
                free_nodes, remaining = free_nodes - filled, remaining - filled * each
            if free_nodes and remaining:
                after.append(some.with_units(unit, remaining, 1))
                free_nodes, remaining = free_nodes - 1, 0
        if free_nodes:
            after.append(some._replace(number=free_nodes))
    return after, remaining


class UnitClaim(NamedTuple):
    """The units of a GPUSpec that an instance claims in a cluster.

    `rendered` is the number of these units with a pod that may run now.
    """

    cluster: str
    gpu_spec: str
    tenant: str
    instance: str
    units: int
    rendered: int


def is_active(tenant: ScopeDeclarations) -> bool:
    """Return whether a tenant's instances may run: the tenant is neither suspended nor retired."""
    declared = tenant.get_singleton(Tenant)
    return declared is not None and declared.model.spec.lifecycle == "Active"


def holds_units(tenant: ScopeDeclarations, instance: GPUInstance) -> bool:
    """Return whether an instance of a tenant holds units; an instance that waits to start also holds its units."""
    return instance.spec.is_running and is_active(tenant)


def instances_holding_units(tenant: ScopeDeclarations) -> list[DeclarationFile[GPUInstance]]:
    """Return the tenant's instances that hold units."""
    instances = tenant.of_kind(GPUInstance).values()
    return [instance for instance in instances if holds_units(tenant, instance.model)]


def set_cordoned_units(stock: DeclarationFile[Stock], cordoned_units: int = 0) -> DeclarationFile[Stock]:
    """Return a stock with all declared units but `cordoned_units`."""
    spec = stock.model.spec.with_cordoned_units(cordoned_units)
    return stock._replace(model=stock.model.model_copy(update={"spec": spec}))


class SpecStocks(NamedTuple):
    """The stocks of a GPUSpec in a cluster."""

    shared: list[DeclarationFile[Stock]]
    reserved: dict[str, list[DeclarationFile[Stock]]]

    @property
    def all_stocks(self) -> list[DeclarationFile[Stock]]:
        """All stocks, shared stocks first."""
        return self.shared + [stock for owner in sorted(self.reserved) for stock in self.reserved[owner]]

    @property
    def without_cordons(self) -> SpecStocks:
        """The same stocks with all declared units."""
        return SpecStocks(
            [set_cordoned_units(stock) for stock in self.shared],
            {owner: [set_cordoned_units(stock) for stock in stocks] for owner, stocks in self.reserved.items()},
        )

    def reserved_units(self, tenant: str) -> int:
        """Return the units that are reserved for a tenant."""
        return sum(stock.model.spec.count for stock in self.reserved.get(tenant, ()))

    @property
    def shared_units(self) -> int:
        """The units that any tenant may hold."""
        return sum(stock.model.spec.count for stock in self.shared)


@cached_by_scope
def stocks_of_spec(cluster: ScopeDeclarations, gpu_spec: str) -> SpecStocks:
    """Return the stocks of a GPUSpec in a cluster."""
    stocks = SpecStocks([], {})
    for stock in cluster.of_kind(Stock).values():
        if stock.model.spec.gpu_spec == gpu_spec:
            owner = stock.model.spec.tenant
            (stocks.shared if owner is None else stocks.reserved.setdefault(owner, [])).append(stock)
    return stocks


class UnitUsage(NamedTuple):
    """The units of a GPUSpec that each tenant holds in a cluster, and the stocks of this GPUSpec in the cluster."""

    cluster: str
    gpu_spec: str
    stocks: SpecStocks
    held_by_tenant: dict[str, int]

    def shared_use(self, tenant: str) -> int:
        """Return the shared units that a tenant holds: its units beyond its reserved stocks."""
        return max(0, self.held_by_tenant.get(tenant, 0) - self.stocks.reserved_units(tenant))

    @property
    def total_shared_use(self) -> int:
        """The shared units that all tenants hold together.

        If they are more than `stocks.shared_units`, the GPUSpec is oversold.
        """
        # Only the owners of reserved stocks hold units that are not shared. They are few among thousands of tenants.
        reserved_use = sum(
            min(self.held_by_tenant.get(owner, 0), self.stocks.reserved_units(owner)) for owner in self.stocks.reserved
        )
        return sum(self.held_by_tenant.values()) - reserved_use

    @property
    def excess(self) -> int:
        """The number of oversold units; 0 if all units fit the stocks."""
        return max(0, self.total_shared_use - self.stocks.shared_units)


def compute_unit_usage(catalog: Catalog, claims: Iterable[UnitClaim]) -> list[UnitUsage]:
    """Return the usage of each GPUSpec with a claim or a stock in a declared cluster, sorted by cluster and GPUSpec."""
    usage_by_spec: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for claim in claims:
        units = usage_by_spec[(claim.cluster, claim.gpu_spec)]
        units[claim.tenant] = units.get(claim.tenant, 0) + claim.units
    for cluster in catalog.clusters.values():
        for stock in cluster.of_kind(Stock).values():
            usage_by_spec.setdefault((cluster.name, stock.model.spec.gpu_spec), {})
    return [
        UnitUsage(cluster, spec, stocks_of_spec(catalog.clusters[cluster], spec), tenants)
        for (cluster, spec), tenants in sorted(usage_by_spec.items())
        if cluster in catalog.clusters
    ]


class StockUsage(NamedTuple):
    """A stock of a cluster, and the number of its units that tenants hold."""

    cluster: str
    stock: DeclarationFile[Stock]
    held_units: int

    @property
    def free_units(self) -> int:
        """The units that nobody holds."""
        return self.stock.model.spec.count - self.held_units


def compute_stock_usage(catalog: Catalog, claims: Iterable[UnitClaim]) -> list[StockUsage]:
    """Return the held units of each stock, by cluster and name.

    A tenant's units fill its own stocks first, and then the shared stocks.
    """
    uses: list[StockUsage] = []
    for unit_usage in compute_unit_usage(catalog, claims):
        own = [
            (unit_usage.held_by_tenant.get(owner, 0), stocks) for owner, stocks in unit_usage.stocks.reserved.items()
        ]
        for units, stocks in [*own, (unit_usage.total_shared_use, unit_usage.stocks.shared)]:
            remaining = units
            for stock in stocks:
                used = min(remaining, stock.model.spec.count)
                uses.append(StockUsage(unit_usage.cluster, stock, used))
                remaining -= used
    return sorted(uses, key=lambda use: (use.cluster, use.stock.model.name))


def count_placeholders(catalog: Catalog, claims: Iterable[UnitClaim]) -> dict[tuple[str, str], int]:
    """Return the number of placeholders of each stock (cluster, name): its free units, but at most `spec.warm`.

    An instance that waits has no pod, so this number treats its units as free.
    """
    counts: dict[tuple[str, str], int] = {}
    for use in compute_stock_usage(catalog, [claim._replace(units=claim.rendered) for claim in claims]):
        spec = use.stock.model.spec
        counts[use.cluster, use.stock.model.name] = (
            use.free_units if spec.warm is None else min(spec.warm, use.free_units)
        )
    return counts


def pool_stocks(
    platform: ScopeDeclarations, cluster: ScopeDeclarations, pool: str
) -> list[tuple[str, GPUSpecSpec, int]]:
    """Return a pool's stocks in the form that `pack_stocks` takes, without stocks of undeclared GPUSpecs.

    The units are those that the stocks declare, with and without cordons.
    """
    specs: Mapping[str, DeclarationFile[GPUSpec]] = platform.of_kind(GPUSpec)
    return [
        (stock.model.name, specs[stock.model.spec.gpu_spec].model.spec, stock.model.spec.declared_count)
        for stock in cluster.of_kind(Stock).values()
        if stock.model.spec.node_pool == pool and stock.model.spec.gpu_spec in specs
    ]


def pools_for(cluster: ScopeDeclarations, gpu_spec: str, tenant: str) -> list[DeclarationFile[NodePool]]:
    """Return, sorted by name, the pools where a tenant may get units of a GPUSpec, from shared or its own stocks."""
    pools = cluster.of_kind(NodePool)
    stocks = stocks_of_spec(cluster, gpu_spec)
    names = {stock.model.spec.node_pool for stock in [*stocks.shared, *stocks.reserved.get(tenant, ())]}
    return [pools[name] for name in sorted(names) if name in pools]

"""Units of GPU capacity: how large one is, how many a node pool fits, who holds them.

A unit is what one replica of an instance gets. Formulas are those of docs/decisions/0002-units.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations, cached_by_scope
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.sharing import replicas_of
from allotment.declared.kinds.stock import Stock
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.values import MEBI

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"  # time-slicing and MPS: what the device plugin renames a shared nvidia.com/gpu to
DRA_GPU = "gpu.allotment.dev/gpu"  # extended resources of our own DeviceClasses
_DRA_MIG = "gpu.allotment.dev/mig-"
MIG_SLICES = 7  # compute slices of a MIG-capable GPU: NVIDIA's 1g is one of seven


class Unit(NamedTuple):
    """What one unit asks of a node: `amount` of an extended resource, CPU in millicores, memory in bytes."""

    resource: str
    amount: int
    cpu: int
    memory: int


def mig_resource(profile: str) -> str:
    """Return the extended resource of a MIG profile: 1g.10gb → nvidia.com/mig-1g.10gb."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def dra_resource(profile: str | None) -> str:
    """Return the extended resource that DRA's whole GPUs, or its MIG partitions of a profile, are asked for by."""
    return DRA_GPU if profile is None else f"{_DRA_MIG}{profile.replace('+', '.')}"


def unit_of_spec(spec: GPUSpecSpec) -> Unit:
    """Return what a unit of `spec` asks of a node."""
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
    """Return the physical GPUs of one unit, exactly: a quarter of a shared GPU is 1/4, a 2g slice 2/7."""
    if (replicas := replicas_of(spec.sharing)) is not None:
        return Fraction(spec.gpu.count, replicas)
    profile = mig_profile(spec)
    return Fraction(spec.gpu.count) if profile is None else Fraction(spec.gpu.count * int(profile[0]), MIG_SLICES)


def mig_profile(spec: GPUSpecSpec) -> str | None:
    """Return the profile of a unit that is a MIG slice, by whatever way it is handed out."""
    if spec.sharing is None:
        return None
    if spec.sharing.mig is not None:
        return spec.sharing.mig.profile
    return spec.sharing.dra.profile if spec.sharing.dra is not None else None


def gpu_memory_limit(spec: GPUSpecSpec) -> int | None:
    """Return the bytes of a GPU's memory that each process of a unit may take, in whole MiB; None where nothing limits it to
    less than its devices have.

    Only MPS sets a limit: the device plugin's daemon gives every client the GPU's memory, divided by the replicas
    (NVIDIA/k8s-device-plugin, cmd/mps-control-daemon/mps/daemon.go). What the GPU reports is somewhat less than `gpu.memory`.
    """
    if spec.sharing is None or spec.sharing.mps is None:
        return None
    return spec.gpu.memory // spec.sharing.mps.replicas // MEBI * MEBI


def node_resources(pool: NodePoolSpec) -> dict[str, int]:
    """Return the extended resources that one node of a pool has."""
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
    """Return how many units of `spec` an empty node of `pool` takes, by GPUs (or slices), CPU and memory."""
    unit = unit_of_spec(spec)
    slots = node_resources(pool).get(unit.resource, 0) // unit.amount
    return min(slots, pool.node.cpu // unit.cpu, pool.node.memory // unit.memory)


def placeholder_cpu(pool: NodePoolSpec, spec: GPUSpecSpec, stocked: Iterable[GPUSpecSpec]) -> int:
    """Return the millicores that a placeholder of a unit holds; `stocked` are the specs of the pool's stocks.

    A placeholder holds exactly a unit, but under DRA it holds no device: Kubernetes 1.36 preempts no pod for its claim. There
    it takes its part of a node's CPU instead, so that a node that is empty takes no more placeholders than it has devices where
    all units of the pool are alike; where profiles are mixed it may take more of one.
    """
    if spec.sharing is None or spec.sharing.dra is None:
        return spec.cpu
    each: dict[str, int] = {}  # by resource, the most CPU that a stocked unit asks for one device
    for gpu_spec in [spec, *stocked]:
        unit = unit_of_spec(gpu_spec)
        each[unit.resource] = max(each.get(unit.resource, 0), -(-unit.cpu // unit.amount))
    total_cpu = sum(amount * each.get(resource, 0) for resource, amount in node_resources(pool).items())
    return max(spec.cpu, spec.cpu * pool.node.cpu // total_cpu) if total_cpu else spec.cpu


class Packing(NamedTuple):
    """How stocks lie on a pool: nodes in use, and the units of each stock that found no place."""

    nodes: int
    missing: dict[str, int]


class _NodeGroup(NamedTuple):
    """Nodes that are filled alike: how many, what each has left, and whether anything lies on them."""

    number: int
    resources: dict[str, int]
    cpu: int
    memory: int
    used: bool

    def free_units(self, unit: Unit) -> int:
        """Return how many units each still takes."""
        slots = self.resources.get(unit.resource, 0) // unit.amount
        return min(slots, self.cpu // unit.cpu, self.memory // unit.memory)

    def with_units(self, unit: Unit, units: int, number: int) -> _NodeGroup:
        """Return `number` of these nodes with that many units more on each."""
        remaining = self.resources[unit.resource] - units * unit.amount
        resources = {**self.resources, unit.resource: remaining}
        return _NodeGroup(number, resources, self.cpu - units * unit.cpu, self.memory - units * unit.memory, True)


def pack_stocks(pool: NodePoolSpec, stocks: Iterable[tuple[str, GPUSpecSpec, int]]) -> Packing:
    """Return how `stocks` (name, spec, units) lie on the pool's nodes: first fit by decreasing size, every node alike.

    Size is GPUs, then memory, then CPU. Nodes that are filled alike are counted together, so that a pool of a million
    nodes takes no longer than one of three.
    """

    def size(stock: tuple[str, GPUSpecSpec, int]) -> tuple[int, int, int, str]:
        unit = unit_of_spec(stock[1])
        return -unit.amount, -unit.memory, -unit.cpu, stock[0]

    nodes = [_NodeGroup(pool.node_limit, node_resources(pool), pool.node.cpu, pool.node.memory, False)]
    missing: dict[str, int] = {}
    for name, spec, count in sorted(stocks, key=size):
        nodes, remaining = _place_units(nodes, unit_of_spec(spec), count)
        if remaining:
            missing[name] = remaining
    return Packing(sum(some.number for some in nodes if some.used), missing)


def _place_units(nodes: list[_NodeGroup], unit: Unit, remaining: int) -> tuple[list[_NodeGroup], int]:
    """Return the nodes with `remaining` units on the first that take them, and how many found no place."""
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
    """What an instance holds: units of a spec in a cluster; `rendered` of them as pods that may run now."""

    cluster: str
    gpu_spec: str
    tenant: str
    instance: str
    units: int
    rendered: int


def is_active(tenant: ScopeDeclarations) -> bool:
    """Return whether a tenant's instances may run: it is neither suspended nor retired."""
    declared = tenant.get_singleton(Tenant)
    return declared is not None and declared.model.spec.lifecycle == "Active"


def holds_units(tenant: ScopeDeclarations, instance: GPUInstance) -> bool:
    """Return whether an instance of a tenant holds units, also while it waits."""
    return instance.spec.state == "Running" and is_active(tenant)


def instances_holding_units(tenant: ScopeDeclarations) -> list[DeclarationFile[GPUInstance]]:
    """Return the tenant's instances that hold units."""
    return [instance for instance in tenant.of_kind(GPUInstance).values() if holds_units(tenant, instance.model)]


class SpecStocks(NamedTuple):
    """One cluster's stocks of one spec."""

    shared: list[DeclarationFile[Stock]]
    reserved: dict[str, list[DeclarationFile[Stock]]]

    @property
    def all_stocks(self) -> list[DeclarationFile[Stock]]:
        """All of them, shared ones first."""
        return self.shared + [stock for owner in sorted(self.reserved) for stock in self.reserved[owner]]

    def reserved_units(self, tenant: str) -> int:
        """Return the units held for one tenant alone."""
        return sum(stock.model.spec.count for stock in self.reserved.get(tenant, ()))

    @property
    def shared_units(self) -> int:
        """The units that any tenant may hold."""
        return sum(stock.model.spec.count for stock in self.shared)


@cached_by_scope
def stocks_of_spec(cluster: ScopeDeclarations, gpu_spec: str) -> SpecStocks:
    """Return the stocks of a spec in a cluster."""
    stocks = SpecStocks([], {})
    for stock in cluster.of_kind(Stock).values():
        if stock.model.spec.gpu_spec == gpu_spec:
            owner = stock.model.spec.tenant
            (stocks.shared if owner is None else stocks.reserved.setdefault(owner, [])).append(stock)
    return stocks


class UnitUsage(NamedTuple):
    """Who holds units of one spec in one cluster, against its stocks."""

    cluster: str
    gpu_spec: str
    stocks: SpecStocks
    held_by_tenant: dict[str, int]

    def shared_use(self, tenant: str) -> int:
        """Return the shared units that a tenant holds: what goes beyond its own stocks."""
        return max(0, self.held_by_tenant.get(tenant, 0) - self.stocks.reserved_units(tenant))

    @property
    def total_shared_use(self) -> int:
        """Shared units held by all tenants together; more than `stocks.shared_units` is oversold."""
        return sum(self.shared_use(tenant) for tenant in self.held_by_tenant)

    @property
    def excess(self) -> int:
        """How many units are oversold, 0 where all held have their place."""
        return max(0, self.total_shared_use - self.stocks.shared_units)


def compute_unit_usage(offers: Catalog, claims: Iterable[UnitClaim]) -> list[UnitUsage]:
    """Return who holds what, for every cluster and spec that is claimed or stocked, sorted."""
    usage_by_spec: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for claim in claims:
        units = usage_by_spec[(claim.cluster, claim.gpu_spec)]
        units[claim.tenant] = units.get(claim.tenant, 0) + claim.units
    for cluster in offers.clusters.values():
        for stock in cluster.of_kind(Stock).values():
            usage_by_spec.setdefault((cluster.name, stock.model.spec.gpu_spec), {})
    return [
        UnitUsage(cluster, spec, stocks_of_spec(offers.clusters[cluster], spec), tenants)
        for (cluster, spec), tenants in sorted(usage_by_spec.items())
        if cluster in offers.clusters
    ]


class StockUsage(NamedTuple):
    """How many units of a cluster's stock are held."""

    cluster: str
    stock: DeclarationFile[Stock]
    held_units: int

    @property
    def free_units(self) -> int:
        """The units that nobody holds."""
        return self.stock.model.spec.count - self.held_units


def compute_stock_usage(offers: Catalog, claims: Iterable[UnitClaim]) -> list[StockUsage]:
    """Return how many units of each stock are held, by cluster and name.

    A tenant's units lie on its own stocks first, then on shared ones, each in the order of names.
    """
    uses: list[StockUsage] = []
    for unit_usage in compute_unit_usage(offers, claims):
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


def count_placeholders(offers: Catalog, claims: Iterable[UnitClaim]) -> dict[tuple[str, str], int]:
    """Return how many placeholders each stock (cluster, name) keeps: min(warm, count − units rendered)."""
    counts: dict[tuple[str, str], int] = {}
    for use in compute_stock_usage(offers, [claim._replace(units=claim.rendered) for claim in claims]):
        spec = use.stock.model.spec
        counts[use.cluster, use.stock.model.name] = (
            use.free_units if spec.warm is None else min(spec.warm, use.free_units)
        )
    return counts


def pool_stocks(offers: Catalog, cluster: ScopeDeclarations, pool: str) -> list[tuple[str, GPUSpecSpec, int]]:
    """Return a pool's stocks as `pack_stocks` takes them, leaving out those whose spec doesn't exist."""
    specs: Mapping[str, DeclarationFile[GPUSpec]] = offers.platform.of_kind(GPUSpec)
    return [
        (stock.model.name, specs[stock.model.spec.gpu_spec].model.spec, stock.model.spec.count)
        for stock in cluster.of_kind(Stock).values()
        if stock.model.spec.node_pool == pool and stock.model.spec.gpu_spec in specs
    ]


def pools_for(cluster: ScopeDeclarations, gpu_spec: str, tenant: str) -> list[DeclarationFile[NodePool]]:
    """Return the pools on which a tenant's units of a spec may lie: those of its own and of shared stocks, by name."""
    pools = cluster.of_kind(NodePool)
    stocks = stocks_of_spec(cluster, gpu_spec)
    names = {stock.model.spec.node_pool for stock in [*stocks.shared, *stocks.reserved.get(tenant, ())]}
    return [pools[name] for name in sorted(names) if name in pools]

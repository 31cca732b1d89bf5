"""Builds the rows of the lists of clusters, node pools and tariff plans."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.stock import Stock
from allotment.declared.values import format_size
from allotment.output_part import Part


class ClusterRowOutput(Part, frozen=True, kw_only=True):
    """A declared cluster. `pools` and `stocks` are the numbers of its node pools and stocks."""

    name: str
    display_name: str | None
    domain: str
    lifecycle: str
    pools: int
    stocks: int
    storage_specs: tuple[str, ...]


class PoolRowOutput(Part, frozen=True, kw_only=True):
    """A declared node pool. `nodes` is the number of its static nodes, or the most nodes that Karpenter buys.

    `gpus` is the number of GPUs of a node.
    """

    cluster: str
    name: str
    gpu_model: str
    gpus: int
    nodes: int
    source: Literal["Static", "Karpenter"]
    capacity_type: str


class TariffRowOutput(Part, frozen=True, kw_only=True):
    """A tariff plan. `gpus` is the quota of each GPU model. `budget` is per month; it is null without a limit."""

    name: str
    lifecycle: str
    gpus: dict[str, int]
    instances: int
    storages: int
    storage: str
    budget: Decimal | None


def list_clusters(catalog: Catalog) -> Iterator[ClusterRowOutput]:
    """Yield a row for each readable cluster."""
    for name, folder in catalog.clusters.items():
        if (declared := folder.get_singleton(Cluster)) is not None:
            spec, pools, stocks = declared.model.spec, len(folder.of_kind(NodePool)), len(folder.of_kind(Stock))
            specs = tuple(entry.storage_spec for entry in spec.storages)
            yield ClusterRowOutput(
                name=name,
                display_name=spec.display_name,
                domain=spec.domain,
                lifecycle=spec.lifecycle,
                pools=pools,
                stocks=stocks,
                storage_specs=specs,
            )


def list_pools(catalog: Catalog) -> Iterator[PoolRowOutput]:
    """Yield a row for each node pool."""
    for cluster, folder in catalog.clusters.items():
        for name, declared in folder.of_kind(NodePool).items():
            spec, gpu = declared.model.spec, declared.model.spec.node.gpu
            source: Literal["Static", "Karpenter"] = "Static" if spec.static is not None else "Karpenter"
            yield PoolRowOutput(
                cluster=cluster,
                name=name,
                gpu_model=gpu.model,
                gpus=gpu.count,
                nodes=spec.node_limit,
                source=source,
                capacity_type=spec.capacity_type,
            )


def list_tariffs(catalog: Catalog) -> Iterator[TariffRowOutput]:
    """Yield a row for each tariff plan."""
    for name, declared in catalog.platform.of_kind(Plan).items():
        spec = declared.model.spec
        yield TariffRowOutput(
            name=name,
            lifecycle=spec.lifecycle,
            gpus=spec.quota.gpus,
            instances=spec.quota.instances,
            storages=spec.quota.storages,
            storage=format_size(spec.quota.storage),
            budget=spec.budget.per_month if spec.budget is not None else None,
        )

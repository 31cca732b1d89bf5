"""Render a Stock as a Deployment of placeholder pods: each pod holds a free unit until an instance preempts the pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.capacity.units import pool_stocks, unit_of_spec
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.stock import Stock
from allotment.manifests import names, pods
from allotment.manifests.yaml_text import without_empty


def render(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    stock: DeclarationFile[Stock],
    placeholders: Mapping[tuple[str, str], int],
) -> list[dict[str, Any]]:
    """Return the Deployment of a stock's placeholders; `placeholders` has the number of pods by cluster and stock."""
    spec = catalog.platform.of_kind(GPUSpec)[stock.model.spec.gpu_spec].model.spec
    pool = cluster.of_kind(NodePool)[stock.model.spec.node_pool].model
    labels = names.labels(stock=stock.model.name)
    container = {
        "name": "placeholder",
        "image": names.PAUSE_IMAGE,
        "resources": pods.placeholder_resources(
            pool.spec, spec, lambda: list_stocked_specs(catalog, cluster, pool.name)
        ),
        "securityContext": pods.CONTAINER_SECURITY,
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": stock.model.name,
                "namespace": names.STOCK_NAMESPACE,
                "labels": {**labels, names.GPU_SPEC: stock.model.spec.gpu_spec},
                "annotations": without_empty(
                    {
                        names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION,
                        names.BLOB: stock.blob,
                        names.UNITS: str(stock.model.spec.count),
                        names.RESERVED_FOR: stock.model.spec.tenant,
                        names.POOL: stock.model.spec.node_pool,
                    }
                ),
            },
            "spec": {
                "replicas": placeholders.get((cluster.name, stock.model.name), 0),
                "revisionHistoryLimit": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": {names.STOCK: stock.model.name}},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": pods.build_pod_spec(
                        names.stock_priority(rank_unit_size(catalog, cluster, stock)),
                        [container],
                        [],
                        terminationGracePeriodSeconds=0,
                        affinity={"nodeAffinity": pods.require_pools([pool])},
                        tolerations=[pods.GPU_TOLERATION],
                    ),
                },
            },
        }
    ]


def list_stocked_specs(catalog: Catalog, cluster: ScopeDeclarations, pool: str) -> list[GPUSpecSpec]:
    """Return the specs of the GPUSpecs that a node pool stocks."""
    return [spec for _, spec, _ in pool_stocks(catalog.platform, cluster, pool)]


def rank_unit_size(catalog: Catalog, cluster: ScopeDeclarations, stock: DeclarationFile[Stock]) -> int:
    """Return the rank of a stock's unit if all units of the pool are ordered by size; the smallest unit has rank 1.

    Placeholders of a higher rank have a higher priority. Therefore a small instance preempts a small placeholder, and a
    large placeholder may preempt smaller placeholders.
    """
    specs = catalog.platform.of_kind(GPUSpec)

    def size(candidate: DeclarationFile[Stock]) -> tuple[int, int, int]:
        unit = unit_of_spec(specs[candidate.model.spec.gpu_spec].model.spec)
        return unit.amount, unit.memory, unit.cpu

    pool = stock.model.spec.node_pool
    sizes = {
        size(candidate)
        for candidate in cluster.of_kind(Stock).values()
        if candidate.model.spec.node_pool == pool and candidate.model.spec.gpu_spec in specs
    }
    return sorted(sizes).index(size(stock)) + 1

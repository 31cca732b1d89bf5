"""Defines the columns of the lists of clusters, node pools, nodes and tariff plans."""

from __future__ import annotations

import datetime

from allotment.observed.catalog_rows import ClusterRowOutput, PoolRowOutput, TariffRowOutput
from allotment.observed.node_rows import NodeRowOutput
from allotment.observed.quantity import parse_quantity
from allotment.reports.list_columns import age_key
from allotment.reports.list_table import ListColumn
from allotment.reports.status_tables import format_age

CLUSTER_COLUMNS: list[ListColumn[ClusterRowOutput]] = [
    ListColumn("cluster", lambda row: row.name),
    ListColumn("title", lambda row: row.display_name or "-"),
    ListColumn("domain", lambda row: row.domain),
    ListColumn("pools", lambda row: str(row.pools), lambda row: row.pools),
    ListColumn("stocks", lambda row: str(row.stocks), lambda row: row.stocks),
    ListColumn("storages", lambda row: ",".join(row.storage_specs) or "-", wide=True),
    ListColumn("lifecycle", lambda row: row.lifecycle),
]
POOL_COLUMNS: list[ListColumn[PoolRowOutput]] = [
    ListColumn("pool", lambda row: row.name),
    ListColumn("cluster", lambda row: row.cluster),
    ListColumn("model", lambda row: row.gpu_model),
    ListColumn("gpus", lambda row: str(row.gpus), lambda row: row.gpus, title="GPUS PER NODE"),
    ListColumn("nodes", lambda row: str(row.nodes), lambda row: row.nodes),
    ListColumn("source", lambda row: row.source),
    ListColumn("capacity", lambda row: row.capacity_type),
]
TARIFF_COLUMNS: list[ListColumn[TariffRowOutput]] = [
    ListColumn("tariff", lambda row: row.name),
    ListColumn("gpus", lambda row: ",".join(f"{model}={count}" for model, count in row.gpus.items()) or "-"),
    ListColumn("instances", lambda row: str(row.instances), lambda row: row.instances),
    ListColumn("storages", lambda row: str(row.storages), lambda row: row.storages),
    ListColumn("storage", lambda row: row.storage, lambda row: parse_quantity(row.storage)),
    ListColumn("budget", lambda row: "-" if row.budget is None else f"{row.budget:f}", lambda row: row.budget),
    ListColumn("lifecycle", lambda row: row.lifecycle),
]


def node_columns(now: datetime.datetime) -> list[ListColumn[NodeRowOutput]]:
    """Return the columns of a list of nodes."""
    return [
        ListColumn("node", lambda row: row.name),
        ListColumn("cluster", lambda row: row.cluster),
        ListColumn("pool", lambda row: row.pool),
        ListColumn("age", lambda row: format_age(row.since, now) or "-", lambda row: age_key(row.since, now)),
        ListColumn("instances", lambda row: str(len(row.instances)), lambda row: len(row.instances)),
        ListColumn("cordon", lambda row: "; ".join(row.cordons) or "-"),
        ListColumn("names", lambda row: ",".join(row.instances) or "-", wide=True),
    ]

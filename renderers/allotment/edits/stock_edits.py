"""Adds stocks to clusters, and removes them: the edits of `allot stock`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allotment.capacity.units import units_per_node
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.stock import Stock
from allotment.declared.layout import PLATFORM, Scope
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations, split_cluster_name
from allotment.edits.input_rows import Columns, InputFile
from allotment.edits.new_declaration import build_declaration, check_declaration, parse_number
from allotment.edits.option_tables import STOCK_OPTIONS
from allotment.edits.row_changes import build_row_changes
from allotment.manifests.yaml_text import without_empty
from allotment.problems import OperationRefused, pluralize, quote_value
from allotment.rules.pools import list_differences

COLUMNS = Columns(("name", *(row.name for row in STOCK_OPTIONS)), ("name", "spec", "count"))
_COLUMNS_BY_FIELD = {row.field: row.name for row in STOCK_OPTIONS}


@dataclass(frozen=True, kw_only=True)
class NewStock:
    """A stock to add. Without a node pool, the only pool of the cluster that fits the GPUSpec has its units."""

    cluster: str
    name: str
    gpu_spec: str
    count: str
    tenant: str = ""
    node_pool: str = ""
    warm: str = ""


def add_stock(declarations: Declarations, stock: NewStock) -> ChangeSet:
    """Return the change that declares a stock.

    Raises OperationRefused if the stock exists, if a field is invalid, or if a name is not declared.
    """
    scope = Scope("cluster", stock.cluster)
    path = declarations.create_path(Stock, scope, stock.name)
    declarations.find(GPUSpec, PLATFORM, stock.gpu_spec)
    if stock.tenant:
        declarations.check_scope(Scope("tenant", stock.tenant))
    fields = {
        "gpuSpec": stock.gpu_spec,
        "nodePool": _choose_pool(declarations, stock),
        "count": parse_number(stock.count),
        "warm": parse_number(stock.warm),
        "tenant": stock.tenant,
    }
    data = check_declaration(path, build_declaration(path, without_empty(fields)))
    name = f"{stock.cluster}/{stock.name}"
    return ChangeSet(f"Add stock {name}", {path: data}, (f"Stock {name}",))


def add_stocks(declarations: Declarations, file: InputFile) -> ChangeSet:
    """Return the change that declares the stocks of a file.

    Raises OperationRefused with the problems of all rows, each with its line.
    """
    return build_row_changes(
        file, lambda row: add_stock(declarations, _read_row(row.values)), _COLUMNS_BY_FIELD, ("Add", "stock")
    )


def remove_stocks(declarations: Declarations, names: Sequence[tuple[str, str]]) -> ChangeSet:
    """Return the change that removes stocks, given as cluster and name.

    Raises OperationRefused if a stock is not declared.
    """
    changes = []
    for cluster, name in dict.fromkeys(names):
        declared = declarations.find(Stock, Scope("cluster", cluster), name)
        title = f"Remove stock {cluster}/{name}"
        changes.append(ChangeSet(title, {declared.path: None}, (f"Stock {cluster}/{name}",)))
    return merge_change_sets(changes, f"Remove {pluralize(len(changes), 'stock')}")


def _read_row(values: Mapping[str, str]) -> NewStock:
    cluster, name = split_cluster_name(values["name"])
    return NewStock(
        cluster=cluster,
        name=name,
        gpu_spec=values["spec"],
        count=values["count"],
        tenant=values.get("tenant", ""),
        node_pool=values.get("node-pool", ""),
        warm=values.get("warm", ""),
    )


def _choose_pool(declarations: Declarations, stock: NewStock) -> str:
    """Return the pool of a stock: the named pool, or the only pool that fits. Raises OperationRefused."""
    scope = Scope("cluster", stock.cluster)
    spec = declarations.find(GPUSpec, PLATFORM, stock.gpu_spec).model.spec
    names = declarations.list_names(NodePool, scope)
    pools = {name: declarations.find(NodePool, scope, name).model.spec for name in names}
    if stock.node_pool:
        declarations.find(NodePool, scope, stock.node_pool)  # raises if the pool is not declared
    fitting = [name for name, pool in pools.items() if not list_differences(spec, pool) and units_per_node(spec, pool)]
    listed = ", ".join(fitting) or "none"
    if stock.node_pool and stock.node_pool not in fitting:
        why = "; ".join(list_differences(spec, pools[stock.node_pool])) or "a unit is larger than its nodes"
        raise OperationRefused(
            f"node pool {quote_value(stock.node_pool)} can't have units of {stock.gpu_spec}: {why};"
            f" pools of {stock.cluster} that can: {listed}"
        )
    if not stock.node_pool and len(fitting) != 1:
        fix = "name one of them" if fitting else f"`allot pool add {stock.cluster}/NAME` declares a NodePool"
        raise OperationRefused(f"node pools of {stock.cluster} for units of {stock.gpu_spec}: {listed}: {fix}")
    return stock.node_pool or fitting[0]

"""`allot node list`: lists the recorded nodes of the node pools, with the instances on them."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.completers import complete_node_pools
from allotment.cli.list_options import (
    CLUSTER_FILTER,
    add_options,
    current_time,
    list_output_options,
    open_listing,
    print_rows,
    print_troubles,
    read_listing,
)
from allotment.cli.status_options import clone_options, open_clone


@click.command("list")
@add_options(CLUSTER_FILTER)
@click.option(
    "--pool", "pools", multiple=True, metavar="NAME", shell_complete=complete_node_pools, help="Only of this node pool."
)
@list_output_options
@clone_options
def command(
    *,
    clusters: tuple[str, ...],
    pools: tuple[str, ...],
    sort_by: str | None,
    style: str,
    repo: Path | None,
    url: str | None,
) -> None:
    """List nodes: their node pool, their age in it, and the number of instances with a pod on the node.

    The command reads the reports of the clusters. A cluster without a report has no rows, and its line on standard error says
    so. `-o wide` names the instances.

    \b
    Examples:
      allot node list
      allot node list --cluster eu-1 --pool l4-ts4 -o wide
      allot node list --sort-by instances -o json
    """
    from allotment.observed.row_filters import check_known_names
    from allotment.reports.catalog_columns import node_columns
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.node_list import NodeListOutput

    listing = read_listing(open_listing(open_clone(repo, url)))
    check_known_names("cluster", clusters, listing.clusters)
    check_known_names("node pool", pools, {*listing.pools, *(row.pool for row in listing.nodes)})
    chosen = [row for row in listing.nodes if row.cluster in (clusters or [row.cluster])]
    columns = node_columns(current_time())
    rows = sort_rows([row for row in chosen if row.pool in (pools or [row.pool])], columns, sort_by)
    print_troubles(listing)
    print_rows(rows, columns, style, NodeListOutput(nodes=tuple(rows)), lambda row: row.name)

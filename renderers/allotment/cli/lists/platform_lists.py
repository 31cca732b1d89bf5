"""`allot cluster list`, `allot pool list` and `allot tariff list`: the declared parts of the platform."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.list_options import (
    CLUSTER_FILTER,
    MODEL_FILTER,
    add_options,
    list_output_options,
    open_merged_source,
    print_rows,
)
from allotment.cli.options import choose_day, repository_option

if TYPE_CHECKING:
    from allotment.declared.inventory import Catalog


def _read_catalog(repo: Path | None) -> Catalog:
    from allotment.services.check.catalog_check import check_catalog

    source = open_merged_source(repo)
    return check_catalog(source, choose_day(source, None)).catalog


@click.command("list")
@list_output_options
@repository_option
def clusters(*, sort_by: str | None, style: str, repo: Path | None) -> None:
    """List clusters: their domain, and their numbers of node pools and stocks. The command reads the merged declarations.

    \b
    Examples:
      allot cluster list
      allot cluster list -o wide
    """
    from allotment.observed.catalog_rows import list_clusters
    from allotment.reports.catalog_columns import CLUSTER_COLUMNS
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.cluster_list import ClusterListOutput

    rows = sort_rows(list_clusters(_read_catalog(repo)), CLUSTER_COLUMNS, sort_by)
    print_rows(rows, CLUSTER_COLUMNS, style, ClusterListOutput(clusters=tuple(rows)), lambda row: row.name)


@click.command("list")
@add_options(CLUSTER_FILTER, MODEL_FILTER)
@list_output_options
@repository_option
def pools(
    *, clusters: tuple[str, ...], models: tuple[str, ...], sort_by: str | None, style: str, repo: Path | None
) -> None:
    """List node pools: the GPUs of a node, and the number of nodes. The command reads the merged declarations.

    NODES is the number of static nodes, or the most nodes that Karpenter buys.

    \b
    Examples:
      allot pool list
      allot pool list --cluster us-1 --gpu nvidia-l4
      allot pool list --sort-by -nodes -o json
    """
    from allotment.observed.catalog_rows import list_pools
    from allotment.observed.row_filters import check_known_names
    from allotment.reports.catalog_columns import POOL_COLUMNS
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.pool_list import PoolListOutput

    catalog = _read_catalog(repo)
    every = list(list_pools(catalog))
    check_known_names("cluster", clusters, catalog.clusters)
    check_known_names("GPU model", models, {row.gpu_model for row in every})
    chosen = [row for row in every if row.cluster in (clusters or [row.cluster])]
    chosen = [row for row in chosen if row.gpu_model in (models or [row.gpu_model])]
    rows = sort_rows(chosen, POOL_COLUMNS, sort_by)
    print_rows(rows, POOL_COLUMNS, style, PoolListOutput(pools=tuple(rows)), lambda row: f"{row.cluster}/{row.name}")


@click.command("list")
@list_output_options
@repository_option
def tariffs(*, sort_by: str | None, style: str, repo: Path | None) -> None:
    """List tariff plans: their quota, and their budget of a month. The command reads the merged declarations.

    \b
    Examples:
      allot tariff list
      allot tariff list --sort-by budget -o json
    """
    from allotment.observed.catalog_rows import list_tariffs
    from allotment.reports.catalog_columns import TARIFF_COLUMNS
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.tariff_list import TariffListOutput

    rows = sort_rows(list_tariffs(_read_catalog(repo)), TARIFF_COLUMNS, sort_by)
    print_rows(rows, TARIFF_COLUMNS, style, TariffListOutput(tariffs=tuple(rows)), lambda row: row.name)

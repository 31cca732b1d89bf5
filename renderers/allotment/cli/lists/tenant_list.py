"""`allot tenant list`: lists tenants with their resources and costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from allotment.cli.list_options import (
    CLUSTER_FILTER,
    LABEL_FILTER,
    PRICE_FILTER,
    TENANT_FILTER,
    add_options,
    build_filter,
    list_output_options,
    open_listing,
    print_rows,
    read_listing,
)
from allotment.cli.status_options import clone_options, open_clone


@click.command("list")
@add_options(
    TENANT_FILTER,
    CLUSTER_FILTER,
    click.option("--plan", "plans", multiple=True, metavar="NAME", help="Only tenants with this plan."),
    PRICE_FILTER,
    LABEL_FILTER,
)
@list_output_options
@clone_options
def command(
    *, plans: tuple[str, ...], sort_by: str | None, style: str, repo: Path | None, url: str | None, **filters: Any
) -> None:
    """List tenants: the plan, the lifecycle, the instances and their units, and the cost per hour.

    The command reads the merged declarations. UNITS are the units that the running instances hold. The cost includes
    instances, storages and snapshots at today's prices; a dash means that a price is unknown.

    \b
    Examples:
      allot tenant list
      allot tenant list --sort-by -cost
      allot tenant list --plan team --cluster eu-1 -o name
    """
    from allotment.observed.row_filters import check_known_names, filter_tenants
    from allotment.observed.tenant_rows import build_tenant_rows
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.tenant_list import TenantListOutput
    from allotment.reports.tenant_columns import tenant_columns

    conditions = build_filter(**filters)
    listing = read_listing(open_listing(open_clone(repo, url)))
    check_known_names("tenant", conditions.tenants, listing.tenants)
    check_known_names("cluster", conditions.clusters, listing.clusters)
    columns = tenant_columns(listing.currency)
    rows = filter_tenants(build_tenant_rows(listing.tenants, listing.offers), conditions, plans)
    rows = sort_rows(rows, columns, sort_by)
    output = TenantListOutput(currency=listing.currency, tenants=tuple(rows))
    print_rows(rows, columns, style, output, lambda row: row.name)

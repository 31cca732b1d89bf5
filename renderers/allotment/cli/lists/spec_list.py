"""`allot spec list`: lists GPUSpecs with their units and prices in each cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from allotment.cli.list_options import (
    CLUSTER_FILTER,
    MEMORY_FILTER,
    MODEL_FILTER,
    SPEC_FILTER,
    UNIT_PRICE_FILTER,
    add_options,
    build_filter,
    list_output_options,
    open_listing,
    print_rows,
    print_stale_notices,
    read_listing,
)
from allotment.cli.status_options import clone_options, open_clone


@click.command("list")
@add_options(CLUSTER_FILTER, SPEC_FILTER, MODEL_FILTER, MEMORY_FILTER, UNIT_PRICE_FILTER)
@list_output_options
@clone_options
def command(*, sort_by: str | None, style: str, repo: Path | None, url: str | None, **filters: Any) -> None:
    """List GPUSpecs: the GPU, its memory, the units in each cluster, the price of a unit, and the lifecycle.

    A GPUSpec has a row for each cluster with a stock of it. TOTAL, HELD and FREE count the units that any tenant may hold.
    MEMORY is the memory of each GPU or GPU slice of a unit.

    \b
    Examples:
      allot spec list
      allot spec list --min-memory 40Gi --max-price 2.50
      allot spec list --gpu nvidia-l4 --sort-by price -o wide
    """
    from allotment.observed.row_filters import check_offer_names, filter_specs
    from allotment.reports.list_table import sort_rows
    from allotment.reports.offer_columns import spec_columns
    from allotment.reports.outputs.spec_list import SpecListOutput

    conditions = build_filter(**filters)
    listing = read_listing(open_listing(open_clone(repo, url)))
    check_offer_names(conditions, listing.offers, listing.clusters)
    columns = spec_columns(listing.currency)
    rows = sort_rows(filter_specs(listing.specs, conditions, listing.offers), columns, sort_by)
    print_stale_notices(listing)
    output = SpecListOutput(currency=listing.currency, specs=tuple(rows))
    print_rows(rows, columns, style, output, lambda row: row.name)

"""`allot stock search`: finds stocks with free units of a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from allotment.cli.list_options import (
    CLUSTER_FILTER,
    MEMORY_FILTER,
    MODEL_FILTER,
    SPEC_FILTER,
    TENANT_FILTER,
    UNIT_PRICE_FILTER,
    add_options,
    build_filter,
    list_output_options,
    open_listing,
    print_rows,
    print_stale_notices,
    read_listing,
)
from allotment.cli.options import WholeNumber
from allotment.cli.status_options import clone_options, open_clone


@click.command("search")
@add_options(
    TENANT_FILTER,
    CLUSTER_FILTER,
    SPEC_FILTER,
    MODEL_FILTER,
    MEMORY_FILTER,
    UNIT_PRICE_FILTER,
    click.option(
        "--free", type=WholeNumber(), default=1, show_default=True, metavar="N", help="At least N free units."
    ),
)
@list_output_options
@clone_options
def command(*, free: int, sort_by: str | None, style: str, repo: Path | None, url: str | None, **filters: Any) -> None:
    """Find stocks with free units: the GPU, its memory, the units, and the price of a unit.

    Stocks that are reserved for a tenant are left out; --tenant includes those of this tenant. MEMORY is the memory of each
    GPU or GPU slice of a unit. The cheapest stocks come first.

    \b
    Examples:
      allot stock search
      allot stock search --min-memory 40Gi --max-price 2.50 --free 4
      allot stock search --gpu nvidia-l4 --tenant studio-kite
    """
    from allotment.observed.row_filters import check_known_names, check_offer_names, filter_stocks
    from allotment.reports.list_table import sort_rows
    from allotment.reports.offer_columns import stock_columns
    from allotment.reports.outputs.stock_search import StockSearchOutput

    conditions = build_filter(**filters)
    listing = read_listing(open_listing(open_clone(repo, url)))
    check_offer_names(conditions, listing.offers, listing.clusters)
    check_known_names("tenant", conditions.tenants, listing.tenants)
    columns = stock_columns(listing.currency)
    rows = sort_rows(filter_stocks(listing.stocks, conditions, listing.offers, free), columns, sort_by or "price")
    print_stale_notices(listing)
    output = StockSearchOutput(currency=listing.currency, stocks=tuple(rows))
    print_rows(rows, columns, style, output, lambda row: row.label)

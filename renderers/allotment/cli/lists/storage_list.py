"""`allot storage list`: lists storages with their declared size and reported state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from allotment.cli.list_options import (
    CLUSTER_FILTER,
    LABEL_FILTER,
    PRICE_FILTER,
    STATE_FILTER,
    add_options,
    build_filter,
    current_time,
    list_output_options,
    open_listing,
    print_rows,
    print_troubles,
    read_listing,
    tenant_filter,
)
from allotment.cli.pending_options import PendingOptions, merge_rows, pending_options, pending_storages, read_pending
from allotment.cli.status_options import clone_options, open_clone


@click.command("list")
@add_options(
    tenant_filter,
    CLUSTER_FILTER,
    click.option("--spec", "specs", multiple=True, metavar="NAME", help="Only this StorageSpec."),
    STATE_FILTER,
    PRICE_FILTER,
    LABEL_FILTER,
)
@pending_options
@list_output_options
@clone_options
def command(
    *, pending: PendingOptions, sort_by: str | None, style: str, repo: Path | None, url: str | None, **filters: Any
) -> None:
    """List storages: the declared size, the reported state, the preparation, the instances that mount them, and the cost.

    The command reads the merged declarations and the reports of the clusters, as `allot status` does, and
    `allot status TENANT/NAME` explains a state. STATE names a storage that is marked for deletion: the next merge that removes
    its file deletes its data. The cost per hour is that of the declared size at today's prices.

    With --pending, the list also has the storages of open pull requests, each with the number, the change (add, change or
    remove) and the URL of its pull request, and the cost after the merge. This needs a token of the forge.

    \b
    Examples:
      allot storage list
      allot storage list studio-kite --state preparing
      allot storage list --spec block-ssd --sort-by -size
      allot storage list -o json
      allot storage list --pending
    """
    from allotment.observed.row_filters import check_known_names, filter_storages
    from allotment.reports.list_columns import storage_columns
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.storage_list import StorageListOutput

    conditions = build_filter(**filters)
    reader = open_listing(open_clone(repo, url))
    listing = read_listing(reader)
    check_known_names("cluster", conditions.clusters, listing.clusters)
    check_known_names("StorageSpec", conditions.specs, listing.offers.storage_prices)
    changes = read_pending(pending, reader.refs, listing)
    candidates = merge_rows(listing.storages, pending_storages(changes, listing))
    check_known_names("tenant", conditions.tenants, {*listing.tenants, *(row.tenant for row in candidates)})
    columns = storage_columns(current_time(), listing.currency, pending=pending.is_requested)
    rows = sort_rows(filter_storages(candidates, conditions), columns, sort_by)
    print_troubles(listing)
    output = StorageListOutput(currency=listing.currency, storages=tuple(rows))
    print_rows(rows, columns, style, output, lambda row: row.label)

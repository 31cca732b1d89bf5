"""`allot instance list`: lists instances with their declared and reported state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from allotment.cli.list_options import (
    CLUSTER_FILTER,
    LABEL_FILTER,
    MEMORY_FILTER,
    MODEL_FILTER,
    NODE_FILTER,
    PRICE_FILTER,
    SPEC_FILTER,
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
from allotment.cli.pending_options import PendingOptions, merge_rows, pending_instances, pending_options, read_pending
from allotment.cli.status_options import clone_options, open_clone
from allotment.problems import quote_value


@click.command("list")
@add_options(
    tenant_filter,
    CLUSTER_FILTER,
    SPEC_FILTER,
    MODEL_FILTER,
    MEMORY_FILTER,
    STATE_FILTER,
    NODE_FILTER,
    PRICE_FILTER,
    LABEL_FILTER,
)
@pending_options
@list_output_options
@clone_options
def command(
    *, pending: PendingOptions, sort_by: str | None, style: str, repo: Path | None, url: str | None, **filters: Any
) -> None:
    """List instances: the declared and the reported state, the units, the URL and the cost per hour.

    The command reads the merged declarations and the reports of the clusters, as `allot status` does. DECLARED is the declared
    state, and STATE the state in the cluster; `allot status TENANT/NAME` explains it. UNITS are the units that the instance
    holds. The cost is that of these units at today's prices.

    Filters of different kinds must all match; of a filter that is given twice, one value must match. A filter with an unknown
    name is an error.

    With --pending, the list also has the instances of open pull requests, each with the number, the change (add, change or
    remove) and the URL of its pull request, and the cost after the merge. This needs a token of the forge.

    \b
    Examples:
      allot instance list
      allot instance list studio-kite --state failed --state waiting
      allot instance list --gpu nvidia-l4 --max-price 2.50 --sort-by -cost
      allot instance list -l costCenter=4711 -o name
      allot instance list -o wide --node gpu-17
      allot instance list --pending
    """
    from allotment.declared.reading import suggest_name
    from allotment.observed.row_filters import check_known_names, check_offer_names, filter_instances
    from allotment.reports.list_columns import instance_columns
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.instance_list import InstanceListOutput

    conditions = build_filter(**filters)
    reader = open_listing(open_clone(repo, url))
    listing = read_listing(reader)
    check_offer_names(conditions, listing.offers, listing.clusters)
    changes = read_pending(pending, reader.refs, listing)
    candidates = merge_rows(listing.instances, pending_instances(changes, listing))
    check_known_names("tenant", conditions.tenants, {*listing.tenants, *(row.tenant for row in candidates)})
    columns = instance_columns(current_time(), listing.currency, pending=pending.is_requested)
    rows = sort_rows(filter_instances(candidates, conditions, listing.offers), columns, sort_by)
    print_troubles(listing)
    reported_nodes = {node for row in listing.instances for node in row.nodes}
    for node in sorted(
        set(conditions.nodes) - reported_nodes
    ):  # the name may be right, because an empty node has no rows
        click.echo(f"no reported pod is on node {quote_value(node)}{suggest_name(node, reported_nodes)}", err=True)
    output = InstanceListOutput(currency=listing.currency, instances=tuple(rows))
    print_rows(rows, columns, style, output, lambda row: row.label)

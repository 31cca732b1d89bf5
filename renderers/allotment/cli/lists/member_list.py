"""`allot member list`: lists the users and groups of tenants."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.list_options import (
    add_options,
    list_output_options,
    open_listing,
    print_rows,
    read_listing,
    tenant_filter,
)
from allotment.cli.status_options import clone_options, open_clone


@click.command("list")
@add_options(
    tenant_filter,
    click.option(
        "--role",
        "roles",
        multiple=True,
        type=click.Choice(["Admin", "Member", "Viewer"], case_sensitive=False),
        help="Only members with this role.",
    ),
)
@list_output_options
@clone_options
def command(
    *,
    tenants: tuple[str, ...],
    roles: tuple[str, ...],
    sort_by: str | None,
    style: str,
    repo: Path | None,
    url: str | None,
) -> None:
    """List the users and groups of tenants: the role, the login at the forge, and the number of SSH keys.

    The command reads the merged declarations. A group is a group of the identity provider.

    \b
    Examples:
      allot member list solo-ada
      allot member list --role admin -o name
      allot member list --sort-by -ssh-keys
    """
    from allotment.observed.row_filters import check_known_names
    from allotment.observed.tenant_rows import build_member_rows
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.member_list import MemberListOutput
    from allotment.reports.tenant_columns import member_columns

    listing = read_listing(open_listing(open_clone(repo, url)))
    check_known_names("tenant", tenants, listing.tenants)
    selected = [facts for name, facts in listing.tenants.items() if not tenants or name in tenants]
    columns = member_columns()
    rows = [row for row in build_member_rows(selected) if not roles or row.role in roles]
    rows = sort_rows(rows, columns, sort_by)
    output = MemberListOutput(members=tuple(rows))
    print_rows(rows, columns, style, output, lambda row: row.label)

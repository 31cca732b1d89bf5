"""`allot portal`: builds the pages of the portal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completers import complete_tenants
from allotment.cli.crash import report_tenant_bugs
from allotment.cli.options import create_cache_opener, output_option, print_note
from allotment.cli.pending_options import PendingOptions, pending_options
from allotment.cli.status_options import clone_options, create_publish_check, open_clone
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import escape_unprintable, pluralize

if TYPE_CHECKING:
    from allotment.branches.declarations_clone import DeclarationsClone
    from allotment.portal.site.open_pull_requests import OpenPullRequests


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Build the portal: a website with the catalog, and with the resources, costs and invoices of each tenant.

    \b
    Examples:
      allot portal build --out site
    """


@command.command("build")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the pages. The command removes all other files in it.",
)
@click.option(
    "--tenant",
    metavar="NAME",
    shell_complete=complete_tenants,
    help="Write the public pages and the pages of this tenant. Default: all tenants.",
)
@pending_options
@output_option()
@clone_options
def build(
    *, out: Path, tenant: str | None, pending: PendingOptions, style: str, repo: Path | None, url: str | None
) -> None:
    """Write the pages of the portal into a folder, which any web server can serve.

    The command reads the merged declarations, the reports of the clusters and the recorded usage, as `allot status` and
    `allot cost` do. The public pages show the catalog with prices and free units. The pages of a tenant show its resources with
    their states, its quota and its costs. They have nothing of other tenants, so with --tenant, the folder can be given to the
    tenant.

    With --pending, the pages of a tenant list its open pull requests with the verdicts of their plans. This needs a token of the
    forge: that of `allot comment`, because only its verdicts count.

    The folder `tenants/TENANT` is for the members of this tenant only: the web server must check this.

    \b
    Examples:
      allot portal build --out site
      allot portal build --out site --tenant solo-ada
      allot portal build --out site --pending
    """
    from allotment.adapters.checkout_paths import check_outside_sources
    from allotment.adapters.git.uncommitted import refuse_tracked_files
    from allotment.adapters.page_folder import PageFolder
    from allotment.cli.list_options import current_time
    from allotment.portal.site.site_builder import SiteBuilder
    from allotment.reports.outputs.portal_build import PortalBuildOutput
    from allotment.services.check.workers import count_cores

    clone = open_clone(repo, url)
    check_outside_sources(clone.root, out)
    refuse_tracked_files(out)
    builder = SiteBuilder(
        clone,
        PageFolder(out),
        tenant=tenant,
        open_facts=create_cache_opener(clone.root, "-facts"),
        processes=count_cores(),
        find_publish_state=create_publish_check(clone.root).find_state,
        pull_requests=_create_pull_request_reader(clone, pending) if pending.is_requested else None,
    )
    result = builder.build(current_time())
    report_tenant_bugs(result.tracebacks)
    if style == "json":
        from allotment.reports.outputs import as_json

        output = PortalBuildOutput(
            folder=str(out),
            commit=result.commit,
            pages=result.pages,
            changed=result.changed,
            removed=result.removed,
            failed_tenants=tuple(sorted(result.tracebacks)),
        )
        click.echo(as_json(output), nl=False)
    else:
        print_note(
            f"{out} has {pluralize(result.pages, 'page')} of commit {result.commit[:12]}: {result.changed} changed,"
            f" {result.removed} removed"
        )
    if result.tracebacks:
        click.get_current_context().exit(3)


def _create_pull_request_reader(clone: DeclarationsClone, pending: PendingOptions) -> OpenPullRequests:
    """Return the reader of the open pull requests. It prints a note for each fault. Raises UsageError without a token."""
    from allotment.adapters import forge
    from allotment.cli.comment_options import read_token
    from allotment.portal.site.open_pull_requests import OpenPullRequests

    token = read_token(pending.token_file)
    return OpenPullRequests(
        clone,
        lambda platform: forge.connect(platform.spec.git.forge, platform.spec.git.url, token, pending.api),
        lambda note: click.echo(escape_unprintable(note, 1000), err=True),
    )

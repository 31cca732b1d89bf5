"""`allot portal`: builds the pages of the portal."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completers import complete_tenants
from allotment.cli.crash import report_tenant_bugs
from allotment.cli.options import create_cache_opener, output_option, print_note
from allotment.cli.pending_options import PendingOptions, pending_options
from allotment.cli.status_options import clone_options, create_publish_check, open_clone
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import AllotmentError, escape_unprintable, pluralize

if TYPE_CHECKING:
    from allotment.branches.declarations_clone import DeclarationsClone
    from allotment.portal.site.open_pull_requests import OpenPullRequests
    from allotment.portal.site.site_builder import SiteBuilder


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Build the portal: a website with the catalog, and with the resources, costs and invoices of each tenant.

    \b
    Examples:
      allot portal serve
      allot portal build --out site
    """


tenant_option = click.option(
    "--tenant",
    metavar="NAME",
    shell_complete=complete_tenants,
    help="Write the public pages and the pages of this tenant. Default: all tenants.",
)


@command.command("build")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the pages. The command removes all other files in it.",
)
@tenant_option
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
    from allotment.cli.list_options import current_time
    from allotment.reports.outputs.portal_build import PortalBuildOutput
    from allotment.services.check.workers import count_cores

    clone = open_clone(repo, url)
    check_outside_sources(clone.root, out)
    refuse_tracked_files(out)
    builder = _create_site_builder(clone, out, tenant, pending, processes=count_cores())
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


@command.command("serve")
@tenant_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8080",
    show_default=True,
    help="The address of the pages. Only programs of this machine may reach it.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=1),
    default=30,
    show_default=True,
    help="The seconds between two builds.",
)
@pending_options
@clone_options
def serve(
    *, tenant: str | None, listen: str, interval: float, pending: PendingOptions, repo: Path | None, url: str | None
) -> None:
    """Build the portal, and serve it to the browsers of this machine until Ctrl-C.

    The command builds all pages into a temporary folder, as `allot portal build` does, and builds them again every --interval
    seconds. Nobody has to log in, so the command listens at this machine only. `allot run --portal` serves the portal to others.

    \b
    Examples:
      allot portal serve
      allot portal serve --tenant solo-ada --listen 127.0.0.1:9000
    """
    from allotment.adapters.temporary_folder import temporary_folder
    from allotment.cli.list_options import current_time
    from allotment.cli.service import is_loopback, serve_pages, stop_on_signals
    from allotment.portal.site.page_gate import PageGate

    if not is_loopback(listen):
        raise click.UsageError(
            f"--listen {listen} is open to other machines, and the pages have no login: use allot run --portal"
        )
    gate, stopped, problem = PageGate(is_local=True), threading.Event(), ""
    with temporary_folder("allot-portal-") as folder:
        builder = _create_site_builder(open_clone(repo, url), folder / "site", tenant, pending, processes=1)
        result = builder.build(current_time())
        report_tenant_bugs(result.tracebacks)
        gate.open()
        with serve_pages(listen, folder / "site", gate) as address, stop_on_signals(stopped.set):
            click.echo(f"http://{address}/ serves {pluralize(result.pages, 'page')} of commit {result.commit[:12]}")
            print_note("Stop with Ctrl-C.")
            while not stopped.wait(interval):
                try:
                    builder.build(current_time())
                    problem = ""
                except AllotmentError as error:  # the pages of the last build are served
                    if str(error) != problem:
                        problem = str(error)
                        click.echo(f"warning: {escape_unprintable(problem, 1000)}", err=True)


def _create_site_builder(
    clone: DeclarationsClone, out: Path, tenant: str | None, pending: PendingOptions, *, processes: int
) -> SiteBuilder:
    """Return the builder of the pages in a folder. Raises UsageError if `pending` lacks a token of the forge."""
    from allotment.adapters.page_folder import PageFolder
    from allotment.portal.site.site_builder import SiteBuilder

    return SiteBuilder(
        clone,
        PageFolder(out),
        tenant=tenant,
        open_facts=create_cache_opener(clone.root, "-facts"),
        processes=processes,
        find_publish_state=create_publish_check(clone.root).find_state,
        pull_requests=_create_pull_request_reader(clone, pending) if pending.is_requested else None,
    )


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

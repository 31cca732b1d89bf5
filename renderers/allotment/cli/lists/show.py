"""`allot instance show` and `allot storage show`: one resource with its declared facts, its cost and its status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completers import create_resource_completer
from allotment.cli.list_options import current_time
from allotment.cli.options import choose_day, output_option
from allotment.cli.status_options import (
    clone_options,
    create_publish_check,
    open_clone,
    print_declared_commit,
    split_resource_name,
)
from allotment.problems import escape_unprintable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from allotment.observed.resource_status import ResourceStatus
    from allotment.reports.outputs.output import Output
    from allotment.services.status_view.publish_check import PublishCheck
    from allotment.services.status_view.status_view import StatusView


def _open_view(label: str, repo: Path | None, url: str | None) -> tuple[StatusView, str, PublishCheck]:
    """Return the view of the tenant in TENANT/NAME, the name, and the check of publishing."""
    from allotment.services.status_view.name_check import check_names
    from allotment.services.status_view.status_view import StatusView

    tenant, name = split_resource_name(label)
    if not (tenant and name):
        raise click.UsageError(f"{escape_unprintable(label)} is not in the format TENANT/NAME, such as solo-ada/webui")
    clone = open_clone(repo, url)
    view = StatusView(clone, tenant)
    check_names(view, tenant, name)
    return view, name, create_publish_check(clone.root)


def _print_details(
    view: StatusView,
    facts: Sequence[tuple[RenderableType, str | None]],
    statuses: list[ResourceStatus],
    style: str,
    build_output: Callable[[], Output],
) -> None:
    """Print the facts, with the URL, and the status of a resource in each of its clusters."""
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.yaml_form import as_yaml
    from allotment.reports.sheets import print_output
    from allotment.reports.status_tables import render_details

    if style != "text":
        click.echo(as_json(build_output()) if style == "json" else as_yaml(build_output()), nl=False)
        return
    print_declared_commit(view, current_time(), tenant=view.tenant)
    for (fact_list, url), status in zip(facts, statuses, strict=True):
        print_output(render_details(status, view.consoles, current_time(), url))
        print_output(fact_list)


@click.command("show")
@click.argument("label", metavar="TENANT/NAME", shell_complete=create_resource_completer("instances"))
@output_option("yaml")
@clone_options
def show_instance(label: str, style: str, repo: Path | None, url: str | None) -> None:
    """Show an instance: its status as `allot status TENANT/NAME` shows it, its declared facts, and its cost per hour.

    \b
    Examples:
      allot instance show solo-ada/webui
      allot instance show solo-ada/webui -o json
    """
    from allotment.reports.outputs.instance_show import InstanceShowOutput
    from allotment.reports.outputs.status import tenant_outputs
    from allotment.reports.resource_facts import instance_facts
    from allotment.services.status_view.resource_details import read_instance

    view, name, check = _open_view(label, repo, url)
    details = read_instance(view, name, choose_day(view.declared_commit.source, None), check)
    facts = [(instance_facts(row, details.currency), row.url) for row in details.rows]
    _print_details(
        view,
        facts,
        details.statuses,
        style,
        lambda: InstanceShowOutput(
            currency=details.currency,
            instances=tuple(details.rows),
            status=tenant_outputs(details.statuses, view.consoles),
        ),
    )


@click.command("show")
@click.argument("label", metavar="TENANT/NAME", shell_complete=create_resource_completer("storages"))
@output_option("yaml")
@clone_options
def show_storage(label: str, style: str, repo: Path | None, url: str | None) -> None:
    """Show a storage: its status as `allot status TENANT/NAME` shows it, its declared facts, and its cost per hour.

    \b
    Examples:
      allot storage show solo-ada/models
      allot storage show solo-ada/models -o json
    """
    from allotment.reports.outputs.status import tenant_outputs
    from allotment.reports.outputs.storage_show import StorageShowOutput
    from allotment.reports.resource_facts import storage_facts
    from allotment.services.status_view.resource_details import read_storage

    view, name, check = _open_view(label, repo, url)
    details = read_storage(view, name, choose_day(view.declared_commit.source, None), check)
    facts = [(storage_facts(row, details.currency), row.url) for row in details.rows]
    _print_details(
        view,
        facts,
        details.statuses,
        style,
        lambda: StorageShowOutput(
            currency=details.currency,
            storages=tuple(details.rows),
            status=tenant_outputs(details.statuses, view.consoles),
        ),
    )

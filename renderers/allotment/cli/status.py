"""`allot status`: what the clusters run, from their status branches."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options import repository, repository_option
from allotment.declared.things import THINGS
from allotment.problems import Refused, printable, quoted

if TYPE_CHECKING:
    from allotment.observed.status import Instance, Snapshot, Storage, TenantStatus
    from allotment.pipeline.report.statuses import Now


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --repo and --from."""
    for option in (
        click.option(
            "--from",
            "url",
            metavar="URL",
            help="The repository of the status branches; spec.git.status of the platform, or origin, if absent.",
        ),
        repository_option,
    ):
        command = option(command)
    return command


def place(repo: Path | None, url: str | None) -> tuple[Any, Any, list[tuple[str, str | None]]]:
    """Return the repository, the remote of the status branches, and the declared clusters with their reporters' keys."""
    from allotment.adapters.folder import FolderSource
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.pipeline.declared import places, reporter_keys

    root = repository(repo)
    source, here = FolderSource(root), Repository(root)
    remote = Remote(here, places(source, "origin", status=url).status, keep=True)
    return here, remote, sorted(reporter_keys(source).items())


@click.command()
@click.argument("what", metavar="[TENANT[/NAME]]", default="")
@click.option("--stocks", is_flag=True, help="Show what the stocks hold instead.")
@click.option("--watch", is_flag=True, help="Look again every few seconds, until interrupted.")
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table", show_default=True)
@place_options
def command(what: str, stocks: bool, watch: bool, style: str, repo: Path | None, url: str | None) -> None:
    """Show what the clusters run: all of it, a tenant's, or one instance, storage or snapshot with everything that
    is known of it.

    It is read from the status branches, and says when they are old.
    """
    from allotment.pipeline.report.statuses import read_now

    if stocks and what:
        raise click.UsageError("--stocks shows those of all clusters: give no tenant")
    tenant, _, name = what.partition("/")
    here, remote, clusters = place(repo, url)
    while True:
        found = read_now(here, remote, clusters, tenant or None)
        if watch:
            click.clear()
        _print(found, tenant, name, stocks, style)
        if not watch:
            break
        time.sleep(5)


def _print(found: Now, tenant: str, name: str, stocks: bool, style: str) -> None:
    from allotment.reports import tables

    now = datetime.datetime.now(datetime.UTC)
    for cluster, words in sorted(found.troubles.items()):
        click.echo(f"{cluster}: {words}", err=True)
    if tenant and not found.tenants:
        raise Refused(f"no cluster reports a tenant {quoted(tenant)}")
    if style == "json":
        click.echo(json.dumps(_json(found, name, stocks, now), indent=2))
    elif stocks:
        tables.show(tables.stocks(found.clusters, now))
    elif name:
        for each, one in _named(found, name):
            tables.show(tables.details(each, one, now))
    else:
        tables.show(tables.overview(found.clusters, found.tenants, now))


def _named(found: Now, name: str) -> list[tuple[TenantStatus, Instance | Storage | Snapshot]]:
    things: list[tuple[TenantStatus, Instance | Storage | Snapshot]] = []
    for tenant in found.tenants:
        everything: tuple[Instance | Storage | Snapshot, ...] = (*tenant.instances, *tenant.storages, *tenant.snapshots)
        things += [(tenant, one) for one in everything if one.name == name]
    if not things:
        owner = printable(found.tenants[0].tenant)
        raise Refused(f"no cluster reports {owner}/{printable(name)}: see `allot status {owner}`")
    return things


def _json(found: Now, name: str, stocks: bool, now: datetime.datetime) -> dict[str, Any]:
    import msgspec

    from allotment.reports.tables import is_stale

    clusters = [{**msgspec.to_builtins(one), "stale": is_stale(one, now)} for one in found.clusters]
    if stocks:
        return {"clusters": clusters}
    if name:
        _named(found, name)
    tenants = [msgspec.to_builtins(one) for one in found.tenants]
    for one in tenants:
        for left in ("transitions", "previous"):
            one.pop(left, None)
        if name:
            for kind in (thing.plural for thing in THINGS.values()):
                one[kind] = [each for each in one.get(kind, ()) if each["name"] == name]
    return {"clusters": clusters, "tenants": tenants}

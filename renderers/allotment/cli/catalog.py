"""`allot catalog`: what is on offer, and what of it a tenant can have now."""

from __future__ import annotations

import datetime
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completing import tenants
from allotment.cli.looking import cluster_option, from_option, near
from allotment.cli.options import day_of, is_quiet, output_option, recalled, repository, source_of, source_options
from allotment.problems import AllotmentError, Refused, counted, quoted

if TYPE_CHECKING:
    from allotment.adapters.source import Source
    from allotment.declared.inventory import Folder
    from allotment.pipeline.check.survey import Survey
    from allotment.reports.catalog import Shown
    from allotment.reports.outputs.catalog import CatalogOutput, SpendingOutput
    from allotment.rules.catalog import Catalog


@click.command()
@click.option(
    "--tenant",
    metavar="NAME",
    shell_complete=tenants,
    help="What that tenant can have now, and of the rest why it can't.",
)
@click.option(
    "--tenants",
    "by_tenant",
    is_flag=True,
    help="Show what each tenant costs a month, its budget, and what is left of that, instead.",
)
@cluster_option
@from_option
@output_option()
@source_options
def command(
    *,
    tenant: str | None,
    by_tenant: bool,
    cluster: str | None,
    url: str | None,
    style: str,
    repo: Path | None,
    commit: str | None,
    as_of: datetime.date | None,
) -> None:
    """Show what is on offer: GPU specs with prices, free units and those that are ready at once, storage specs, apps.

    Free is what the declarations of this folder leave, as `allot validate` counts it. Ready are units on nodes that
    run already, as reporters say; nobody says so where there is a dash. With --tenant one more of each is held
    against its plan, quota, budget and stock; what it can't have names the reason and the file that says so.
    With --tenants a line a tenant forecasts the cost of its declarations for 730 hours at the prices of the day: a forecast,
    not a bill. A resource without a price on that day is left out, and counted in NOTE.

    \b
    Examples:
      allot catalog
      allot catalog --tenant solo-ada --cluster eu-1
      allot catalog --as-of 2027-01-01 -o json
      allot catalog --tenants
    """
    if by_tenant and (tenant or cluster or url):
        raise click.UsageError("--tenants shows what all tenants cost, wherever they are: it takes --as-of alone")
    from allotment.adapters.git.uncommitted import uncommitted_files
    from allotment.declared.kinds.platform import Platform
    from allotment.pipeline.check.survey import survey
    from allotment.reports.catalog import Declarations, Shown, spending_tables
    from allotment.reports.sheets import show
    from allotment.rules.catalog import Asking, catalog
    from allotment.rules.spending import spending

    root = repository(repo)
    source = source_of(root, commit)
    day = day_of(source, as_of)
    repository_check = survey(source, day, recall=recalled(root, "-commit" if commit else ""))
    platform = repository_check.offers.platform.one(Platform)
    if platform is None:
        raise AllotmentError("platform/platform.yaml can't be read: `allot validate` says why")
    folder = _tenant(source, repository_check, tenant) if tenant is not None else None
    if cluster is not None and cluster not in repository_check.offers.clusters:
        raise Refused(f"no cluster is named {quoted(cluster)}{near(cluster, repository_check.offers.clusters)}")
    if repository_check.errors and not is_quiet():
        click.echo(
            f"what is wrong counts for nothing here: {counted(len(repository_check.errors), 'problem')}, see `allot validate`",
            err=True,
        )
    spent = (
        [spending(repository_check.offers, _folder(source, name)) for name in sorted(repository_check.parts)]
        if by_tenant
        else None
    )
    if spent is not None and style != "json":
        declarations = Declarations(
            _commit(root, commit), commit is None, len(uncommitted_files(root)) if commit is None else 0
        )
        show(spending_tables(spent, platform.model.spec.billing.currency, day, declarations))
        return
    parts = [repository_check.parts[name] for name in sorted(repository_check.parts)]
    claims = [claim for part in parts for claim in part.claims]
    held = [storage for part in parts for storage in part.storages]
    offered = catalog(repository_check.offers, claims, held, folder, cluster)
    who = Asking(repository_check.offers, folder) if folder is not None else None
    shown = Shown(_ready(repo, url), day, platform.model.spec.billing.currency, who)
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.catalog import spending_output

        costs = spending_output(spent, day, _commit(root, commit)) if spent is not None else None
        click.echo(as_json(_output(offered, shown, costs)), nl=False)
    else:
        from allotment.reports.catalog import tables

        show(tables(offered, shown))


def _tenant(source: Source, repository_check: Survey, tenant: str) -> Folder:
    """Return a tenant's folder. Raises Refused where there is no such tenant."""
    if tenant not in repository_check.parts:
        raise Refused(f"no tenant is named {quoted(tenant)}{near(tenant, repository_check.parts)}")
    return _folder(source, tenant)


def _folder(source: Source, tenant: str) -> Folder:
    from allotment.declared.layout import Scope
    from allotment.declared.reading import read_folder
    from allotment.pipeline.check.workers import read_scope

    scope = Scope("tenant", tenant)
    return read_folder(scope, read_scope(source, scope).files)[0]


def _commit(root: Path, commit: str | None) -> str:
    """Return the commit of the declarations, or of their work tree; empty where there is none."""
    from allotment.adapters.git.commit_source import CommitSource

    try:
        return CommitSource(root, commit or "HEAD").commit
    except Refused:
        return ""


def _ready(repo: Path | None, url: str | None) -> dict[tuple[str, str], dict[str, int]]:
    """Return the units that are on nodes already, by cluster and GPUSpec, of each tenant; "" stands for all of them."""
    from allotment.cli.looking import place
    from allotment.pipeline.report.statuses import read_now
    from allotment.reports.tables import is_stale

    try:
        here, remote, clusters = place(repo, url)
        if url is None and remote.url == "origin" and here.git.url_of("origin") is None:
            raise Refused("this repository has no remote named origin")
        now = read_now(here, remote, clusters, "")
    except Refused as error:
        if not is_quiet():
            click.echo(f"which units are ready isn't known: {error}", err=True)
        return {}
    ready_units = dict[tuple[str, str], dict[str, int]]()
    moment = datetime.datetime.now(datetime.UTC)
    for cluster in (cluster_status for cluster_status in now.clusters if not is_stale(cluster_status, moment)):
        for stock in cluster.stocks:
            tenant_units = ready_units.setdefault((cluster.cluster, stock.gpu_spec), defaultdict(int))
            tenant_units[stock.tenant] += stock.ready
    return ready_units


def _output(catalog: Catalog, shown: Shown, costs: SpendingOutput | None) -> CatalogOutput:
    from allotment.reports.outputs.catalog import (
        CatalogOutput,
        app_output,
        asking_output,
        gpu_output,
        storage_output,
    )

    return CatalogOutput(
        as_of=shown.day.isoformat(),
        currency=shown.currency,
        tenant=asking_output(shown.who) if shown.who is not None else None,
        gpu_specs=tuple(gpu_output(offer, shown.ready, shown.day, shown.tenant) for offer in catalog.gpus),
        storage_specs=tuple(storage_output(offer, shown.day) for offer in catalog.storages),
        apps=tuple(app_output(offer) for offer in catalog.apps),
        spending=costs,
    )

"""`allot catalog`: shows the catalog, and its availability for a tenant."""

from __future__ import annotations

import datetime
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completers import complete_tenants
from allotment.cli.options import (
    choose_day,
    create_cache_opener,
    find_repository,
    is_quiet,
    open_source,
    output_option,
    source_options,
)
from allotment.cli.status_options import cluster_option, status_url_option
from allotment.problems import AllotmentError, OperationRefused, pluralize, quote_value

if TYPE_CHECKING:
    from allotment.adapters.declaration_source import Source
    from allotment.declared.inventory import ScopeDeclarations
    from allotment.reports.catalog_tables import CatalogView
    from allotment.reports.outputs.catalog import CatalogOutput, SpendingOutput
    from allotment.rules.availability import AvailableOffers
    from allotment.services.check.repository_check import RepositoryCheck


@click.command()
@click.option(
    "--tenant",
    metavar="NAME",
    shell_complete=complete_tenants,
    help="Show the availability for this tenant, with the reason for each resource that it cannot have.",
)
@click.option(
    "--tenants",
    "by_tenant",
    is_flag=True,
    help="Show the monthly cost, the budget and the remaining budget of each tenant instead.",
)
@cluster_option
@status_url_option
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
    """Show the catalog: GPU specs with prices, free units and ready units, storage specs, and apps.

    Free units are those that the declarations of this folder do not claim, as `allot validate` counts them. Ready units are
    on running nodes, as the reporters report; a dash means that no reporter reports the stock. With --tenant, the command
    checks one more of each resource against the tenant's tariff plan, quota, budget and stock. For a resource that the
    tenant cannot have, it names the reason and the file that causes it. With --tenants, it prints a line for each tenant:
    the forecast cost of the declarations for 730 hours at the prices of the day. This is not a bill. Resources without a
    price on that day are left out, and counted in NOTE.

    \b
    Examples:
      allot catalog
      allot catalog --tenant solo-ada --cluster eu-1
      allot catalog --as-of 2027-01-01 -o json
      allot catalog --tenants
    """
    if by_tenant and (tenant or cluster or url):
        raise click.UsageError("--tenants shows the cost of all tenants in all clusters: combine it with --as-of only")
    from allotment.adapters.git.uncommitted import uncommitted_files
    from allotment.declared.kinds.platform import Platform
    from allotment.declared.reading import suggest_name
    from allotment.reports.catalog_tables import CatalogView, DeclarationSource, render_spending
    from allotment.reports.sheets import print_output
    from allotment.rules.availability import TenantAllowance, list_offers
    from allotment.rules.spending import compute_spending
    from allotment.services.check.check_options import CheckOptions
    from allotment.services.check.repository_check import check_repository

    root = find_repository(repo)
    source = open_source(root, commit)
    day = choose_day(source, as_of)
    repository_check = check_repository(
        source, day, CheckOptions(open_cache=create_cache_opener(root, "-commit" if commit else ""))
    )
    platform = repository_check.catalog.platform.get_singleton(Platform)
    if platform is None:
        raise AllotmentError("platform/platform.yaml can't be read: `allot validate` shows the reason")
    folder = _find_tenant(source, repository_check, tenant) if tenant is not None else None
    if cluster is not None and cluster not in repository_check.catalog.clusters:
        raise OperationRefused(
            f"no cluster is named {quote_value(cluster)}{suggest_name(cluster, repository_check.catalog.clusters)}"
        )
    if repository_check.errors and not is_quiet():
        click.echo(
            f"invalid declarations are ignored here: {pluralize(len(repository_check.errors), 'problem')}, see `allot validate`",
            err=True,
        )
    spent = (
        [
            compute_spending(repository_check.catalog, _read_tenant_folder(source, name))
            for name in sorted(repository_check.tally_entries)
        ]
        if by_tenant
        else None
    )
    if spent is not None and style != "json":
        declarations = DeclarationSource(
            _find_commit(root, commit), commit is None, len(uncommitted_files(root)) if commit is None else 0
        )
        print_output(render_spending(spent, platform.model.spec.billing.currency, day, declarations))
        return
    parts = [repository_check.tally_entries[name] for name in sorted(repository_check.tally_entries)]
    claims = [claim for part in parts for claim in part.claims]
    storages = [storage for part in parts for storage in part.storages]
    offered = list_offers(repository_check.catalog, claims, storages, folder, cluster)
    who = TenantAllowance(repository_check.catalog, folder) if folder is not None else None
    view = CatalogView(_count_ready_units(repo, url), day, platform.model.spec.billing.currency, who)
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.catalog import spending_output

        costs = spending_output(spent, day, _find_commit(root, commit)) if spent is not None else None
        click.echo(as_json(_build_output(offered, view, costs)), nl=False)
    else:
        from allotment.reports.catalog_tables import render_catalog

        print_output(render_catalog(offered, view))


def _find_tenant(source: Source, repository_check: RepositoryCheck, tenant: str) -> ScopeDeclarations:
    """Return the declarations of a tenant. Raises OperationRefused if there is no such tenant."""
    from allotment.declared.reading import suggest_name

    if tenant not in repository_check.tally_entries:
        raise OperationRefused(
            f"no tenant is named {quote_value(tenant)}{suggest_name(tenant, repository_check.tally_entries)}"
        )
    return _read_tenant_folder(source, tenant)


def _read_tenant_folder(source: Source, tenant: str) -> ScopeDeclarations:
    from allotment.declared.layout import Scope
    from allotment.declared.reading import read_folder
    from allotment.services.check.workers import read_scope

    scope = Scope("tenant", tenant)
    return read_folder(scope, read_scope(source, scope).files)[0]


def _find_commit(root: Path, commit: str | None) -> str:
    """Return the full hash of `commit`, by default of HEAD; empty if there is no such commit."""
    from allotment.adapters.git.commit_source import CommitSource

    try:
        return CommitSource(root, commit or "HEAD").commit
    except OperationRefused:
        return ""


def _count_ready_units(repo: Path | None, url: str | None) -> dict[tuple[str, str], dict[str, int]]:
    """Return the number of ready units (units on running nodes) of each cluster and GPUSpec, by tenant.

    The units of a reserved stock are under the name of its tenant, and the units of a shared stock are under an empty
    name. Clusters without a recent report are left out. If the status branches can't be read, the result is empty.
    """
    from allotment.branches.status_reader import read_reported_status
    from allotment.cli.status_options import open_status_remote

    try:
        repository, remote, clusters = open_status_remote(repo, url)
        now = read_reported_status(repository, remote, clusters, ())
    except OperationRefused as error:
        if not is_quiet():
            click.echo(f"the number of ready units is unknown: {error}", err=True)
        return {}
    ready_units = dict[tuple[str, str], dict[str, int]]()
    moment = datetime.datetime.now(datetime.UTC)
    for cluster in (cluster_status for cluster_status in now.clusters if not cluster_status.is_stale(moment)):
        for stock in cluster.stocks:
            tenant_units = ready_units.setdefault((cluster.cluster, stock.gpu_spec), defaultdict(int))
            tenant_units[stock.tenant] += stock.ready
    return ready_units


def _build_output(catalog: AvailableOffers, view: CatalogView, costs: SpendingOutput | None) -> CatalogOutput:
    from allotment.reports.outputs.catalog import (
        CatalogOutput,
        app_output,
        asking_output,
        gpu_output,
        storage_output,
    )

    return CatalogOutput(
        as_of=view.day.isoformat(),
        currency=view.currency,
        tenant=asking_output(view.allowance) if view.allowance is not None else None,
        gpu_specs=tuple(
            gpu_output(offer, view.ready_units, view.day, view.tenant_name) for offer in catalog.gpu_offers
        ),
        storage_specs=tuple(storage_output(offer, view.day) for offer in catalog.storage_offers),
        apps=tuple(app_output(offer) for offer in catalog.app_offers),
        spending=costs,
    )

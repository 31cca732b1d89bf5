"""Builds the pages of the portal from a clone into a folder."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.adapters.git.history import list_first_parents
from allotment.adapters.git.repository import Repository
from allotment.adapters.page_folder import PageFolder
from allotment.declared.layout import ROOTS
from allotment.declared.reading import suggest_name
from allotment.observed.resource_rows import read_offers
from allotment.observed.resource_status import ResourceStatus
from allotment.portal.change_history import Merge, describe_merge, group_merges
from allotment.portal.page_renderer import Page, list_assets
from allotment.portal.public_pages import build_public_pages
from allotment.portal.site_facts import SiteFacts
from allotment.portal.tenant_pages import build_tenant_pages
from allotment.problems import AllotmentError, OperationRefused, quote_value
from allotment.reports.status_tables import is_stale
from allotment.services.billing.month_forecasts import find_current_month
from allotment.services.billing.usage_reader import UsageReader
from allotment.services.check.catalog_check import check_catalog
from allotment.services.check.check_options import OpenCache
from allotment.services.check.workers import count_cores, run_batches
from allotment.services.platform_settings import read_platform
from allotment.services.portal.invoice_reader import InvoiceReader, read_closed_months
from allotment.services.portal.resource_reader import ResourceInputs
from allotment.services.portal.site_reader import list_reserved, read_site_facts
from allotment.services.portal.tenant_reader import TenantInputs, read_tenant_areas
from allotment.services.reporter.clone import Clone
from allotment.services.status_view.status_view import StatusView
from allotment.services.status_view.tenant_facts_reader import read_tenant_facts

MAX_MERGES = 50  # on the page of a tenant
MAX_MERGES_READ = 2_000


class BuildResult(NamedTuple):
    """The number of pages, of those that changed, and of those that were removed; and the commit of the declarations."""

    pages: int
    changed: int
    removed: int
    commit: str


class _WrittenPages(NamedTuple):
    """The paths of the pages of a tenant, and how many of them changed."""

    paths: tuple[str, ...]
    changed: int


class _TenantPagesTask(NamedTuple):
    """Writes the pages of tenants."""

    site: SiteFacts
    inputs: TenantInputs
    folder: PageFolder
    searched: int

    def load_modules(self) -> None:
        """Load nothing: the imports of this module are enough."""

    def run_batch(self, names: list[str]) -> list[_WrittenPages]:
        """Write the pages of some tenants."""
        return [
            _write_pages(
                self.folder,
                build_tenant_pages(
                    self.site,
                    area,
                    searched=self.searched,
                    has_ledger_trouble=bool(self.inputs.invoices.closed.trouble),
                ),
            )
            for area in read_tenant_areas(self.inputs, names)
        ]


def build_site(
    clone: Clone,
    folder: PageFolder,
    tenant: str | None,
    now: datetime.datetime,
    open_facts: OpenCache | None = None,
) -> BuildResult:
    """Write the public pages, and the pages of one tenant, or of all tenants if `tenant` is None.

    `open_facts` opens the cache of the tenants' facts. Raises OperationRefused if a remote doesn't answer, or if there is no
    such tenant.
    """
    view = StatusView(clone, tenant)
    if tenant is not None and tenant not in view.tenants:
        raise OperationRefused(f"no tenant is named {quote_value(tenant)}{suggest_name(tenant, view.tenants)}")
    source = view.declared_commit.source
    platform = read_platform(source)
    if platform is None:
        raise AllotmentError("platform/platform.yaml can't be read: `allot validate` shows the reason")
    month = find_current_month(platform.spec.billing, now)
    catalog = check_catalog(source, now.astimezone(month.zone).date()).catalog
    facts = read_tenant_facts(source, view.tenants, open_facts)
    site = read_site_facts(view, platform, catalog, facts.values(), now)
    published = view.published_release
    record = published.record.of_source(published.source.commit) if published.source is not None else None
    names = frozenset(view.tenants)
    closed = read_closed_months(clone, view.declared_commit, platform, month.zone)
    merges = read_merges(clone.repository, source.commit)
    inputs = TenantInputs(
        resources=ResourceInputs(
            read_offers(catalog), view.consoles, facts, _group_rows(view.rows), month=month, tenants=names
        ),
        invoices=InvoiceReader(source, catalog, platform, month, closed, names),
        usage=UsageReader.at_commits(clone.repository, view.reporter_keys, view.reported_status.commits),
        repository=clone.repository,
        status_commits=view.reported_status.commits,
        merges=group_merges(merges, MAX_MERGES),
        reserved=list_reserved(catalog, facts.values()),
        retained={each.tenant: each for each in record.tenants} if record is not None else {},
        stale_clusters=frozenset(each.cluster for each in view.reported_status.clusters if is_stale(each, now)),
    )
    chosen = view.tenants if tenant is None else [tenant]
    results = [_write_pages(folder, [*list_assets(), *build_public_pages(site)])]
    results += run_batches(_TenantPagesTask(site, inputs, folder, len(merges)), chosen, count_cores())
    paths = {path for result in results for path in result.paths}
    return BuildResult(
        pages=len(paths),
        changed=sum(result.changed for result in results),
        removed=folder.remove_others(paths),
        commit=source.commit,
    )


def read_merges(repository: Repository, commit: str) -> list[Merge]:
    """Return the newest merges that changed declarations, the newest first."""
    records = list_first_parents(repository, commit, ROOTS, MAX_MERGES_READ)
    return [describe_merge(each.commit, each.time, each.author, each.subject, each.files) for each in records]


def _group_rows(rows: Iterable[ResourceStatus]) -> dict[str, Sequence[ResourceStatus]]:
    """Return the rows of each tenant. A declared resource comes before others of the same name."""
    groups = defaultdict[str, list[ResourceStatus]](list)
    for row in rows:
        groups[row.resource.tenant].append(row)
    return {
        tenant: sorted(group, key=lambda row: (row.resource.name, not row.resource.blob))
        for tenant, group in groups.items()
    }


def _write_pages(folder: PageFolder, pages: Iterable[Page]) -> _WrittenPages:
    paths, changed = [], 0
    for page in pages:
        changed += folder.write(page.path, page.content)
        paths.append(page.path)
    return _WrittenPages(tuple(paths), changed)

"""Builds the pages of the portal from a clone into a folder."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.adapters.page_folder import PageFolder
from allotment.declared.reading import suggest_name
from allotment.observed.resource_rows import read_offers
from allotment.observed.resource_status import ResourceStatus
from allotment.portal.page_renderer import Page, list_assets
from allotment.portal.public_pages import build_public_pages
from allotment.portal.site_facts import SiteFacts
from allotment.portal.tenant_pages import build_tenant_pages
from allotment.problems import AllotmentError, OperationRefused, quote_value
from allotment.reports.status_tables import is_stale
from allotment.services.billing.month_forecasts import find_current_month
from allotment.services.billing.usage_reader import FetchedUsage
from allotment.services.check.catalog_check import check_catalog
from allotment.services.check.check_options import OpenCache
from allotment.services.check.workers import count_cores, run_batches
from allotment.services.platform_settings import read_platform, resolve_branch_urls
from allotment.services.portal.site_reader import read_site_facts
from allotment.services.portal.tenant_reader import TenantInputs, read_tenant_areas
from allotment.services.reporter.clone import ORIGIN, Clone
from allotment.services.status_view.status_view import StatusView
from allotment.services.status_view.tenant_facts_reader import read_tenant_facts


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

    def load_modules(self) -> None:
        """Load nothing: the imports of this module are enough."""

    def run_batch(self, names: list[str]) -> list[_WrittenPages]:
        """Write the pages of some tenants."""
        return [
            _write_pages(self.folder, build_tenant_pages(self.site, area))
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
    inputs = TenantInputs(
        source=source,
        catalog=catalog,
        billing=platform.spec.billing,
        offers=read_offers(catalog),
        consoles=view.consoles,
        facts=facts,
        statuses=_group_rows(view.rows),
        retained={each.tenant: each for each in record.tenants} if record is not None else {},
        stale_clusters=frozenset(each.cluster for each in view.reported_status.clusters if is_stale(each, now)),
        month=month,
        usage=FetchedUsage(
            clone.repository, view.reporter_keys, is_at_origin=resolve_branch_urls(source, ORIGIN).status == ORIGIN
        ),
        tenants=frozenset(view.tenants),
    )
    names = view.tenants if tenant is None else [tenant]
    results = [_write_pages(folder, [*list_assets(), *build_public_pages(site)])]
    results += run_batches(_TenantPagesTask(site, inputs, folder), names, count_cores())
    paths = {path for result in results for path in result.paths}
    return BuildResult(
        pages=len(paths),
        changed=sum(result.changed for result in results),
        removed=folder.remove_others(paths),
        commit=source.commit,
    )


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

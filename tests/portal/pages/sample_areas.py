"""The facts of the provider and the platform pages of the sample portal, read as a build of the portal reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tests.portal.pages.sample_site import NOW
from tests.support.published import Place

from allotment.billing.batch_totals import BatchSummary, summarize_batch
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.platform_settings import read_platform
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.platform import Platform
from allotment.declared.tenant_facts import TenantFacts
from allotment.observed.resource_status import ResourceStatus
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.site.site_reader import read_site_facts
from allotment.services.billing.bill_reader import compute_bill
from allotment.services.billing.month_forecasts import CurrentMonth, find_current_month
from allotment.services.billing.usage_reader import UsageReader
from allotment.services.check.catalog_check import check_catalog
from allotment.services.status_view.status_view import StatusView
from allotment.services.status_view.tenant_facts_reader import read_tenant_facts


class Sample(NamedTuple):
    """The inputs of the pages that a build of the portal reads."""

    view: StatusView
    platform: Platform
    catalog: Catalog
    facts: dict[str, TenantFacts]
    site: SiteFacts
    month: CurrentMonth
    usage: UsageReader

    def summarize(self, batches: Sequence[Sequence[str]]) -> list[BatchSummary]:
        """Return the summaries of batches of tenants."""
        summaries = []
        for names in batches:
            record = self.usage.read(names, self.month.period.start)
            arguments = self.view.declared_commit.source, self.platform.spec.billing, self.month.zone
            bill = compute_bill(*arguments, self.month.name, record, None, adjusted_tenants=names, catalog=self.catalog)
            summaries.append(summarize_batch(record, bill))
        return summaries

    def group_statuses(self) -> dict[str, list[ResourceStatus]]:
        """Return the resources of each tenant."""
        groups: dict[str, list[ResourceStatus]] = defaultdict(list)
        for row in self.view.rows:
            groups[row.resource.tenant].append(row)
        return dict(groups)


def read_sample(place: Place) -> Sample:
    """Return the inputs of the pages from a clone."""
    clone = DeclarationsClone(place.root)
    view = StatusView(clone)
    source = view.declared_commit.source
    platform = read_platform(source)
    assert platform is not None
    month = find_current_month(platform.spec.billing, NOW)
    catalog = check_catalog(source, NOW.astimezone(month.zone).date()).catalog
    facts = dict(read_tenant_facts(source, view.tenants, None))
    return Sample(
        view=view,
        platform=platform,
        catalog=catalog,
        facts=facts,
        site=read_site_facts(view, platform, catalog, facts.values(), NOW),
        month=month,
        usage=UsageReader.at_commits(clone.repository, view.reporter_keys, view.reported_status.commits),
    )

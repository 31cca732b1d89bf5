"""Writes the pages of the platform and of the provider."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.page_folder import PageFolder
from allotment.billing.batch_totals import BatchSummary, summarize_batch
from allotment.declared.tenant_facts import TenantFacts
from allotment.observed.publish_state import PublishState
from allotment.observed.resource_status import ResourceStatus
from allotment.portal.pages.page_renderer import Page
from allotment.portal.pages.platform_area import BudgetUse
from allotment.portal.pages.platform_pages import build_platform_pages
from allotment.portal.pages.provider_pages import build_provider_pages
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.site.platform_reader import PlatformInputs, list_findings, read_platform_area
from allotment.portal.site.provider_reader import build_provider_area, read_capacities
from allotment.portal.site.site_inputs import SiteInputs
from allotment.services.billing.bill_reader import compute_bill
from allotment.services.billing.usage_reader import UsageReader
from allotment.services.status_view.repository_facts import count_unpublished, describe_branches


class WrittenPages(NamedTuple):
    """The paths of some pages, and how many of them changed."""

    paths: frozenset[str]
    changed: int


def write_pages(folder: PageFolder, pages: Iterable[Page]) -> WrittenPages:
    """Write pages, and return their paths."""
    paths, changed = [], 0
    for page in pages:
        changed += folder.write(page.path, page.content)
        paths.append(page.path)
    return WrittenPages(frozenset(paths), changed)


class AreaWriter:
    """Writes the pages about all tenants and clusters at one time."""

    def __init__(self, folder: PageFolder, inputs: SiteInputs, site: SiteFacts) -> None:
        self._folder, self._inputs, self._site = folder, inputs, site
        self._repository = inputs.view.clone.repository
        self._capacities = read_capacities(self._repository, inputs.view.reported_status.commits)

    def write_platform(
        self,
        facts: Mapping[str, TenantFacts],
        statuses: Mapping[str, Sequence[ResourceStatus]],
        budgets: Mapping[str, BudgetUse],
        state: PublishState,
        now: datetime.datetime,
    ) -> WrittenPages:
        """Write the pages of the platform. The facts, statuses and budgets are those of all tenants."""
        inputs = self._inputs
        unpublished = count_unpublished(row for rows in statuses.values() for row in rows)
        branches = describe_branches(inputs.view, state, unpublished, now)
        area = read_platform_area(
            PlatformInputs(
                catalog=inputs.catalog_check.catalog,
                clusters=self._site.clusters,
                facts=facts,
                statuses=statuses,
                reports=inputs.view.reported_status.clusters,
                capacities=self._capacities,
                record=inputs.record,
                merges=inputs.merges,
                budgets=budgets,
                findings=list_findings(branches, inputs.platform.spec.publisher is not None),
            ),
            inputs.summarize_publish(state),
        )
        return write_pages(self._folder, build_platform_pages(self._site, area))

    def write_provider(self, summaries: Sequence[BatchSummary]) -> WrittenPages:
        """Write the pages of the provider from the use and the income of all declared tenants, and of tenants that are gone."""
        inputs, view, month = self._inputs, self._inputs.view, self._inputs.month
        reader = UsageReader.at_commits(self._repository, view.reporter_keys, view.reported_status.commits)
        record = reader.read(inputs.list_undeclared_tenants(), month.period.start)
        bill = compute_bill(
            view.declared_commit.source,
            inputs.platform.spec.billing,
            month.zone,
            month.name,
            record,
            None,
            catalog=inputs.catalog_check.catalog,
        )
        batches = [*summaries, summarize_batch(record, bill)]
        area = build_provider_area(batches, record, self._site.clusters, self._capacities, month)
        return write_pages(self._folder, build_provider_pages(self._site, area))

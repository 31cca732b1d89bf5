"""Writes the pages of batches of tenants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.adapters.page_folder import PageFolder
from allotment.billing.batch_totals import BatchSummary, summarize_batch
from allotment.portal.pages.platform_area import BudgetUse
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_pages import build_tenant_pages
from allotment.portal.site.area_writer import WrittenPages, write_pages
from allotment.portal.site.platform_reader import describe_budget
from allotment.portal.site.tenant_reader import TenantBatch, TenantInputs, list_tenant_areas, read_tenant_batches
from allotment.services.check.tenant_error import build_rejection


class TenantResult(NamedTuple):
    """The pages of a tenant, and the facts that other pages need.

    `is_settled` says that all resources are as declared, so that the pages don't depend on the rendered branches. The first
    tenant of a batch has the `summary` of the batch. `traceback` is that of the failure if Allotment failed on this tenant.
    """

    pages: WrittenPages
    is_settled: bool
    budget: BudgetUse
    summary: BatchSummary | None
    traceback: str = ""

    @classmethod
    def of_failure(cls, traceback: str) -> TenantResult:
        """Return the result of a tenant on which Allotment failed. It has no pages."""
        return cls(
            WrittenPages(frozenset(), 0),
            is_settled=False,
            budget=BudgetUse(None, None),
            summary=None,
            traceback=traceback,
        )


class TenantWriter(NamedTuple):
    """Writes the pages of tenants."""

    site: SiteFacts
    inputs: TenantInputs
    folder: PageFolder

    def load_modules(self) -> None:
        """Load nothing: the imports of this module are enough."""

    def run_batch(self, names: list[str]) -> list[TenantResult]:
        """Write the pages of some tenants. A bug that one tenant causes leaves out only this tenant.

        Raises OperationRefused if the pages can't be written.
        """
        try:
            return self._write(names)
        except Exception as error:
            traceback = build_rejection(error).traceback  # raises the faults that concern all tenants
            if len(names) == 1:
                return [TenantResult.of_failure(traceback)]
            return [result for name in names for result in self.run_batch([name])]

    def _write(self, names: list[str]) -> list[TenantResult]:
        results: dict[str, TenantResult] = {}
        for batch in read_tenant_batches(self.inputs, names):
            results |= self._write_batch(batch)
        return [results[name] for name in names]

    def _write_batch(self, batch: TenantBatch) -> Iterator[tuple[str, TenantResult]]:
        """Write the pages of the tenants of a batch, and yield each with its result."""
        summary: BatchSummary | None = summarize_batch(batch.record, batch.open_bills[0])
        has_trouble = bool(self.inputs.invoices.closed.trouble)
        for area in list_tenant_areas(self.inputs, batch):
            pages = build_tenant_pages(self.site, area, has_ledger_trouble=has_trouble)
            statuses = self.inputs.resources.statuses.get(area.name, ())
            is_settled = all(status.is_as_declared and status.resource.blob for status in statuses)
            written = write_pages(self.folder, pages)
            yield area.name, TenantResult(written, is_settled, describe_budget(area.month), summary)
            summary = None

"""Reads the invoices of tenants: the current month, the month before, and the closed months of the ledger."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource
from allotment.billing.late_changes import MergedTerms, find_late_changes, select_billed
from allotment.billing.ledger_bill import read_bill
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import month_period, previous_month
from allotment.billing.recorded_use import UsageRecord
from allotment.branches.declarations_clone import DeclarationsClone, DeclaredCommit
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.platform import Platform
from allotment.portal.pages.inert_text import hide_tenants
from allotment.portal.pages.tenant_area import InvoiceView
from allotment.problems import OperationRefused
from allotment.reports.invoice_pages import describe_bill, describe_unpriced_line
from allotment.reports.record_notes import list_price_doubts
from allotment.services.billing.bill_reader import compute_bill
from allotment.services.billing.billing_source import BillingSource
from allotment.services.billing.closed_bill import fetch_ledger
from allotment.services.billing.ledger_branch import LedgerBranch
from allotment.services.billing.ledger_check import require_sound_ledger
from allotment.services.billing.month_forecasts import CurrentMonth

MAX_CLOSED_MONTHS = 24


class ClosedMonths(NamedTuple):
    """The ledger and its newest closed months, the newest first. `trouble` says why the ledger is not shown."""

    ledger: LedgerBranch
    months: tuple[str, ...]
    trouble: str = ""


def read_closed_months(
    clone: DeclarationsClone, declared: DeclaredCommit, platform: Platform, zone: datetime.tzinfo
) -> ClosedMonths:
    """Return the closed months. Raises OperationRefused if origin doesn't answer."""
    source = BillingSource(clone, declared, platform, zone)
    ledger = fetch_ledger(source)
    try:
        require_sound_ledger(source, ledger)
    except OperationRefused as error:
        return ClosedMonths(ledger, (), str(error))
    return ClosedMonths(ledger, tuple(ledger.months[: -MAX_CLOSED_MONTHS - 1 : -1]))


class InvoiceReader(NamedTuple):
    """Reads invoices.

    `source` has the prices of open months, and `terms` are the merges in these months. `tenants` are the names that no other
    tenant's page shows. `declared` has the time of the first commit that declares each cluster.
    """

    source: CommitSource
    catalog: Catalog
    platform: Platform
    month: CurrentMonth
    closed: ClosedMonths
    tenants: Collection[str]
    terms: Sequence[MergedTerms]
    declared: Mapping[str, int]

    @property
    def open_months(self) -> list[str]:
        """The current month, and the month before if it is not closed; the newest first."""
        before = previous_month(self.month.name)
        return [self.month.name, *([] if before in self.closed.ledger.closings else [before])]

    @property
    def record_start(self) -> int:
        """The time since when the record of the open months is needed, in seconds since 1970."""
        return month_period(self.open_months[-1], self.month.zone).start

    def compute_open_bills(self, record: UsageRecord, names: Collection[str]) -> list[MonthlyBill]:
        """Return the bill of each open month with an invoice for each of some tenants, the newest month first."""
        arguments = self.source, self.platform.spec.billing, self.month.zone
        record = record._replace(stocks=tuple(stock for stock in record.stocks if stock.tenant in names))
        bills = [
            compute_bill(
                *arguments, month, record, None, adjusted_tenants=names, catalog=self.catalog, terms=self.terms
            )
            for month in self.open_months
        ]
        return [
            bill._replace(late_changes=select_billed(find_late_changes(self.terms, bill.period), bill.invoices))
            for bill in bills
        ]

    def read(self, open_bills: list[MonthlyBill], names: Collection[str]) -> Mapping[str, list[InvoiceView]]:
        """Return the invoices of some tenants, the newest first. An open month before the current is left out without a use."""
        views: dict[str, list[InvoiceView]] = defaultdict(list)
        ledger = self.closed.ledger
        closed_bills = [
            read_bill(ledger.read_month(month, names), ledger.closings[month]) for month in self.closed.months
        ]
        for bill in (*open_bills, *closed_bills):
            for invoice in bill.invoices:
                if invoice.lines or bill.month == self.month.name or bill.closed_in:
                    texts = describe_bill(bill.of_tenant(invoice.tenant))
                    (described,) = texts["invoices"]
                    if bill.closed_in:
                        described["notes"] = [
                            hide_tenants(note, invoice.tenant, self.tenants) for note in described["notes"]
                        ]
                    else:  # the evidence and the notes about it change with every report
                        texts["evidence"] = []
                        described["notes"] = [
                            *list_price_doubts(bill),
                            *(describe_unpriced_line(line) for line in invoice.unpriced_lines),
                        ]
                        if ledger.months:
                            described["notes"].append("The closing adds adjustments of closed months.")
                    views[invoice.tenant].append(InvoiceView(bill.month, texts))
        return views

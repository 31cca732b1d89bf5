"""Defines the bill of a month: its invoices, and the record and the commits that they come from."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.invoices import Invoice, InvoiceLine, add_adjustments
from allotment.billing.late_changes import LateChange
from allotment.billing.periods import Period
from allotment.billing.recorded_use import ClusterRecord

# The format of the ledger. In format 1, each line was rounded by itself.
ROUNDED_LINES_FORMAT, LEDGER_FORMAT = 1, 2


class MonthlyBill(NamedTuple):
    """The invoices of a month, sorted by tenant. `provider` is the displayed name of the platform. `commit` is the commit of the declarations with prices and budgets.

    `gpus_by_spec` has the physical GPUs of a unit of each GPUSpec. `closed_in` is the commit of the ledger that closed the month; empty for an open month.
    `late_changes` are the changes of its prices that were merged after their day. `has_price_history` is False if the clone lacks merges of the month, so that
    nobody knows them. `future_commit` is a merge with a date after the present, which makes the times of the later merges unknown. `ledger_format` says how the amounts are rounded.
    """

    month: str
    provider: str
    period: Period
    zone: datetime.tzinfo
    currency: str
    bills_unknown: bool
    commit: str
    clusters: tuple[ClusterRecord, ...]
    invoices: tuple[Invoice, ...]
    gpus_by_spec: Mapping[str, Fraction]
    closed_in: str = ""
    late_changes: tuple[LateChange, ...] = ()
    has_price_history: bool = True
    future_commit: str = ""
    ledger_format: int = LEDGER_FORMAT

    def with_adjustments(self, adjustments: Mapping[str, Sequence[InvoiceLine]]) -> MonthlyBill:
        """Return the bill with adjustments of closed months, by tenant. Each tenant must have an invoice."""
        invoices = (add_adjustments(invoice, adjustments.get(invoice.tenant, ())) for invoice in self.invoices)
        return self._replace(invoices=tuple(invoices))

    def of_tenant(self, tenant: str | None) -> MonthlyBill:
        """Return the bill with the invoice of a tenant alone; with None, the same bill."""
        if tenant is None:
            return self
        invoice = next((each for each in self.invoices if each.tenant == tenant), Invoice(tenant, (), None))
        return self._replace(invoices=(invoice,))

    @property
    def total(self) -> Decimal:
        """The sum of the invoices."""
        return sum((invoice.total for invoice in self.invoices), Decimal("0.00"))

    def is_known(self, invoice: Invoice) -> bool:
        """Return whether an invoice has lines, or a cluster has a record that says that there are none."""
        return bool(invoice.lines or self.closed_in or any(record.commit for record in self.clusters))

    @property
    def is_final(self) -> bool:
        """Whether the month is closed, or the record covers its end and each line has a price that was merged before its day.

        A cluster that has never been reported doesn't count, but at least one cluster must have a record.
        """
        if self.closed_in:
            return True
        records = [record for record in self.clusters if record.commit or record.problems]
        has_prices = self.has_price_history and not (
            self.late_changes or self.future_commit or any(invoice.unpriced_lines for invoice in self.invoices)
        )
        return has_prices and bool(records) and all(record.covers_end(self.period) for record in records)

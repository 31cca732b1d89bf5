"""Defines the bill of a month: its invoices, and the record and the commits that they come from."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import NamedTuple

from allotment.billing.invoices import Invoice
from allotment.billing.periods import Period
from allotment.billing.recorded_use import ClusterRecord


class MonthlyBill(NamedTuple):
    """The invoices of a month, sorted by tenant. `commit` is the commit of the declarations with prices and budgets."""

    month: str
    period: Period
    zone: datetime.tzinfo
    currency: str
    bills_unknown: bool
    commit: str
    clusters: tuple[ClusterRecord, ...]
    invoices: tuple[Invoice, ...]

    @property
    def total(self) -> Decimal:
        """The sum of the invoices."""
        return sum((invoice.total for invoice in self.invoices), Decimal("0.00"))

    @property
    def is_final(self) -> bool:
        """Whether the record covers the end of the month, and each line has a price.

        A cluster that has never been reported doesn't count, but at least one cluster must have a record.
        """
        records = [record for record in self.clusters if record.commit or record.problems]
        has_prices = not any(invoice.unpriced_lines for invoice in self.invoices)
        return has_prices and bool(records) and all(record.covers_end(self.period) for record in records)

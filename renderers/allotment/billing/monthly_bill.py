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
        """Whether each cluster was observed until the end of the month, and all of its record can be read."""
        return all(
            not record.problems and record.observed_until is not None and record.observed_until >= self.period.end
            for record in self.clusters
            if record.commit or record.problems
        )

"""The JSON output of `allot month list`."""

from __future__ import annotations

from decimal import Decimal

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class ClosedMonthOutput(Part, frozen=True, kw_only=True):
    """A closed month. `commit` is the commit of the ledger that closed it."""

    month: str
    total: Decimal
    currency: str
    invoice_count: int
    commit: str


class MonthListOutput(Output, frozen=True, kw_only=True, tag="MonthListOutput"):
    """The closed months, sorted."""

    months: tuple[ClosedMonthOutput, ...]

"""The JSON output of `allot stock search`."""

from __future__ import annotations

from allotment.observed.offer_rows import StockOfferOutput
from allotment.reports.outputs.output import Output


class StockSearchOutput(Output, frozen=True, kw_only=True, tag="StockSearchOutput"):
    """The stocks that match, in the requested order, and the currency of their prices."""

    currency: str
    stocks: tuple[StockOfferOutput, ...]

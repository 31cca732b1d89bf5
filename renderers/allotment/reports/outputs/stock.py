"""The JSON output of `allot stock list`."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.status import DeclaredOutput
from allotment.reports.stock_table import StockRowOutput


class ReportedOutput(Part, frozen=True):
    """A cluster, and the time of its last report; the time is null if there is no report.

    `stale` is true if the report is too old. `trouble` describes a fault of the cluster's status branch.
    """

    cluster: str
    observed_at: str | None
    stale: bool
    trouble: str


class StockOutput(Output, frozen=True, kw_only=True, tag="StockOutput"):
    """All stocks, sorted by cluster and name."""

    declared: DeclaredOutput
    clusters: tuple[ReportedOutput, ...]
    stocks: tuple[StockRowOutput, ...]

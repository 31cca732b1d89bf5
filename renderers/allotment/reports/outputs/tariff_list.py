"""The JSON output of `allot tariff list`."""

from __future__ import annotations

from allotment.observed.catalog_rows import TariffRowOutput
from allotment.reports.outputs.output import Output


class TariffListOutput(Output, frozen=True, kw_only=True, tag="TariffListOutput"):
    """The selected tariff plans in the requested order."""

    tariffs: tuple[TariffRowOutput, ...]

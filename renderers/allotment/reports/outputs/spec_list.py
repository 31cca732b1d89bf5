"""The JSON output of `allot spec list`."""

from __future__ import annotations

from allotment.observed.offer_rows import SpecRowOutput
from allotment.reports.outputs.output import Output


class SpecListOutput(Output, frozen=True, kw_only=True, tag="SpecListOutput"):
    """The selected GPUSpecs in the requested order, and the currency of their prices."""

    currency: str
    specs: tuple[SpecRowOutput, ...]

"""The JSON output of `allot tenant list`."""

from __future__ import annotations

from allotment.observed.tenant_rows import TenantRowOutput
from allotment.reports.outputs.output import Output


class TenantListOutput(Output, frozen=True, kw_only=True, tag="TenantListOutput"):
    """The selected tenants in the requested order, and the currency of their costs."""

    currency: str
    tenants: tuple[TenantRowOutput, ...]

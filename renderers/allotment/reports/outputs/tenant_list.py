"""The JSON output of `allot tenant list`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from allotment.declared.values import format_size
from allotment.observed.tenant_rows import TenantRow
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class TenantRowOutput(Part, frozen=True, kw_only=True):
    """A tenant.

    `plan` and `lifecycle` are null if the declaration of the tenant can't be read. `instances` and `storages` are the numbers
    of declared instances and storages, and `units` the units that the `running` instances hold. `members` counts users and
    groups. `costPerHour` is in the currency of the list, and includes instances, storages and snapshots; it is null if a
    price is unknown.
    """

    name: str
    plan: str | None
    lifecycle: str | None
    clusters: tuple[str, ...]
    instances: int
    running: int
    units: int
    storages: int
    storage_size: str
    members: int
    cost_per_hour: Decimal | None
    labels: dict[str, str]


class TenantListOutput(Output, frozen=True, kw_only=True, tag="TenantListOutput"):
    """The selected tenants in the requested order, and the currency of their costs."""

    currency: str
    tenants: tuple[TenantRowOutput, ...]


def tenant_rows_output(rows: Iterable[TenantRow]) -> tuple[TenantRowOutput, ...]:
    """Return the output of tenants."""
    return tuple(output_of(TenantRowOutput, row, storage_size=format_size(row.storage_size)) for row in rows)

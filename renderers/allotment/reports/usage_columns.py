"""Defines the columns of recorded usage: of intervals, and of sums."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from allotment.billing.capacity_totals import CapacityTotal
from allotment.billing.periods import format_moment
from allotment.billing.recorded_use import Use
from allotment.billing.usage_totals import Amounts, Share, Total, to_gib_hours, to_hours
from allotment.declared.tenant_resources import INSTANCE
from allotment.declared.values import GIBI, format_size
from allotment.reports.invoice_texts import KIND_NAMES
from allotment.reports.list_table import ListColumn


def interval_columns(zone: datetime.tzinfo) -> list[ListColumn[Share]]:
    """Return the columns of intervals, with times in a time zone."""
    return [
        ListColumn("tenant", lambda share: share.use.tenant),
        ListColumn("cluster", lambda share: share.use.cluster),
        ListColumn("kind", lambda share: KIND_NAMES.get(share.use.kind, share.use.kind)),
        ListColumn("name", lambda share: share.use.name),
        ListColumn("spec", lambda share: share.use.offer or "-"),
        ListColumn("amount", lambda share: format_amount(share.use)),
        ListColumn("from", lambda share: format_moment(share.start, zone)),
        ListColumn("until", lambda share: format_moment(share.end, zone) + (" (continues)" if share.continues else "")),
        ListColumn("hours", lambda share: format_hours(to_hours(share.certain_end - share.start))),
        ListColumn("unknown", lambda share: _format_unknown(to_hours(share.end - share.certain_end))),
    ]


def total_columns(dimensions: Sequence[str]) -> list[ListColumn[Total]]:
    """Return the columns of sums: a column for each dimension, and the sums in hours and in GiB × hours."""
    return [
        *group_columns(dimensions),
        ListColumn("unit-hours", lambda total: format_hours(to_hours(total.units.certain))),
        ListColumn(
            "storage-gib-hours",
            lambda total: format_hours(to_gib_hours(total.storages.certain)),
            title="STORAGE GiB HOURS",
        ),
        ListColumn(
            "snapshot-gib-hours",
            lambda total: format_hours(to_gib_hours(total.snapshots.certain)),
            title="SNAPSHOT GiB HOURS",
        ),
        ListColumn("unknown", _describe_unknown),
    ]


def capacity_columns() -> list[ListColumn[CapacityTotal]]:
    """Return the columns of the time of stocks, in unit hours, and the sold percentage."""
    return [
        ListColumn("cluster", lambda total: total.cluster),
        ListColumn("spec", lambda total: total.gpu_spec),
        ListColumn("stock", lambda total: format_hours(to_hours(total.stock)), title="STOCK UNIT HOURS"),
        ListColumn("sold", lambda total: format_hours(to_hours(total.sold))),
        ListColumn("reserved", lambda total: format_hours(to_hours(total.reserved))),
        ListColumn("idle", lambda total: format_hours(to_hours(total.idle))),
        ListColumn("oversold", lambda total: format_hours(to_hours(total.oversold)) if total.oversold else "-"),
        ListColumn("sold-percent", _format_sold_percent, title="SOLD %"),
    ]


def _format_sold_percent(total: CapacityTotal) -> str:
    return f"{Decimal(total.sold) * 100 / total.stock:.0f} %" if total.stock else "-"


def format_amount(use: Use) -> str:
    """Return the used amount: 1 unit, or a size."""
    if use.kind == INSTANCE.kind.name:
        return "1 unit"
    size = use.size
    return format_size(size) if size % GIBI == 0 else f"{format_hours(Decimal(size) / GIBI)}Gi"


def format_hours(hours: Decimal) -> str:
    """Return hours with two decimal places, rounded half up."""
    return f"{hours.quantize(Decimal('0.01'), rounding='ROUND_HALF_UP'):f}"


def group_columns(dimensions: Sequence[str]) -> list[ListColumn[Any]]:
    """Return a column for each dimension of rows that begin with their group, which has a value for each dimension."""
    return [ListColumn(name, _value_at(index)) for index, name in enumerate(dimensions)]


def _value_at(index: int) -> Callable[[Any], str]:
    return lambda row: str(row[0][index])


def _format_unknown(hours: Decimal) -> str:
    return format_hours(hours) if hours else "-"


def _describe_unknown(total: Total) -> str:
    """Return the unknown use of a group, such as `2.50 unit hours`; a dash for none."""
    parts: list[tuple[Amounts, Callable[[int], Decimal], str]] = [
        (total.units, to_hours, "unit hours"),
        (total.storages, to_gib_hours, "storage GiB hours"),
        (total.snapshots, to_gib_hours, "snapshot GiB hours"),
    ]
    texts = [f"{format_hours(convert(amounts.unknown))} {unit}" for amounts, convert, unit in parts if amounts.unknown]
    return ", ".join(texts) or "-"

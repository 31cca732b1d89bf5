"""Formats the cells of invoices, which all formats share."""

from __future__ import annotations

import datetime
from decimal import Decimal

from allotment.billing.invoices import Invoice, InvoiceLine, LineKey
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import Period, find_day
from allotment.billing.recorded_use import RESERVED_KIND
from allotment.billing.usage_totals import to_hours
from allotment.capacity.pricing import HOURS_A_MONTH, format_money
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.declared.values import GIBI

KIND_NAMES = {
    INSTANCE.kind.name: "instance",
    STORAGE.kind.name: "storage",
    SNAPSHOT.kind.name: "snapshot",
    RESERVED_KIND: "reserved stock",
}
_HOURLY_KINDS = (INSTANCE.kind.name, RESERVED_KIND)
_DIGITS = Decimal("0.0001")


def quantity(key: LineKey, weighted_seconds: int) -> Decimal:
    """Return a used quantity in the unit of its price: unit hours, or GiB months of 730 hours."""
    hours = to_hours(weighted_seconds)
    return hours if key.kind in _HOURLY_KINDS else hours / GIBI / HOURS_A_MONTH


def quantity_unit(key: LineKey) -> str:
    """Return the unit of a quantity."""
    return "unit hours" if key.kind in _HOURLY_KINDS else "GiB months"


def format_quantity(key: LineKey, weighted_seconds: int) -> str:
    """Return a quantity with four decimal places, rounded half up, and its unit."""
    number = quantity(key, weighted_seconds).quantize(_DIGITS, rounding="ROUND_HALF_UP")
    return f"{number:f} {quantity_unit(key)}"


def format_labels(key: LineKey) -> str:
    """Return the labels as `key=value`, separated by commas; a dash if there are none."""
    return ", ".join(f"{name}={value}" for name, value in sorted(key.labels.items())) or "-"


def format_price(key: LineKey) -> str:
    """Return the price; a dash if the use has no price."""
    return "-" if key.price is None else f"{key.price:f}"


def format_line_amount(line: InvoiceLine) -> str:
    """Return the amount of a line; a dash if the use has no price."""
    return "-" if line.key.price is None else format_money(line.amount)


def format_unknown(invoice: Invoice, currency: str, *, is_billed: bool) -> str:
    """Return the price of the time in which nobody observed the uses, and whether it is billed; empty if there is none."""
    if not invoice.unknown_total:
        return ""
    return f"{format_money(invoice.unknown_total)} {currency} ({'billed' if is_billed else 'not billed'})"


def format_resource(line: InvoiceLine) -> str:
    """Return the kind and the name of a line's resource, and the month that the line adjusts."""
    adjusted = f" (adjusts {line.adjusts})" if line.adjusts else ""
    return f"{KIND_NAMES.get(line.key.kind, line.key.kind)} {line.key.name}{adjusted}"


def format_total(bill: MonthlyBill, invoice: Invoice) -> str:
    """Return the total with its currency; `unknown` without any record of the usage."""
    return f"{format_money(invoice.total)} {bill.currency}" if bill.is_known(invoice) else "unknown"


def format_budget(bill: MonthlyBill, invoice: Invoice, currency: str = "") -> str:
    """Return the budget, and the percentage that the total uses if it is known; a dash if there is no budget."""
    if invoice.budget is None:
        return "-"
    share = f" ({invoice.total * 100 / invoice.budget:.0f} %)" if invoice.budget and bill.is_known(invoice) else ""
    return f"{format_money(invoice.budget)}{f' {currency}' if currency else ''}{share}"


def format_period(period: Period, zone: datetime.tzinfo) -> str:
    """Return the first and the last day of a period, with the time zone."""
    return f"{find_day(period.start, zone)} to {find_day(period.end - 1, zone)}, {zone}"

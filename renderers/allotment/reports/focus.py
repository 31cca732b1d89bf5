"""Writes a bill in the format FOCUS 1.2 (FinOps Open Cost and Usage Specification), as CSV.

Each row is a line of an invoice on a day of the billing time zone. The file has the mandatory columns of FOCUS 1.2, the
columns that tools for FOCUS 1.0 require, and x_IsFinal. Source: https://focus.finops.org/focus-specification/v1-2/
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal

from allotment.billing.daily_costs import LinePart, split_line
from allotment.billing.invoices import Invoice, InvoiceLine
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import format_moment, split_days
from allotment.billing.recorded_use import RESERVED_KIND
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.problems import escape_unprintable
from allotment.reports.invoice_texts import KIND_NAMES, format_resource, quantity

_SERVICES = {  # the category, the subcategory and the name of the service
    INSTANCE.kind.name: ("Compute", "Containers", "GPU instances"),
    STORAGE.kind.name: ("Storage", "Other (Storage)", "Storages"),
    SNAPSHOT.kind.name: ("Storage", "Backup Storage", "Snapshots"),
    RESERVED_KIND: ("Compute", "Other (Compute)", "Reserved GPU units"),
}
_UNITS = {INSTANCE.kind.name: "Unit-Hours", RESERVED_KIND: "Unit-Hours"}
_STORED_UNIT = "GiB-Months"
_EMPTY_COLUMNS = (
    "AvailabilityZone",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "SubAccountId",
    "SubAccountName",
)  # of things that Allotment doesn't have
_DIGITS = Decimal("0.0000000001")


def render_focus(bill: MonthlyBill) -> str:
    """Return the lines of all invoices of a bill by day as CSV (RFC 4180, with \\n). Times are in UTC.

    A line without a price has the cost 0 and no unit price. The sum of BilledCost is the sum of the invoices. Only a closed
    month has an InvoiceId, because the invoices of another month may change.
    """
    starts = split_days(bill.period, bill.zone)
    text = io.StringIO()
    writer = csv.DictWriter(text, sorted(_COLUMNS), lineterminator="\n")
    writer.writeheader()
    for invoice in bill.invoices:
        for line in invoice.lines:
            writer.writerows(_build_row(bill, invoice, line, part) for part in split_line(bill, line, starts))
    return text.getvalue()


def _build_row(bill: MonthlyBill, invoice: Invoice, line: InvoiceLine, part: LinePart) -> dict[str, str]:
    return dict.fromkeys(_EMPTY_COLUMNS, "") | dict(_list_cells(bill, invoice, line, part))


def _list_cells(bill: MonthlyBill, invoice: Invoice, line: InvoiceLine, part: LinePart) -> Iterator[tuple[str, str]]:
    key = line.key
    category, subcategory, service = _SERVICES[key.kind]
    unit = _UNITS.get(key.kind, _STORED_UNIT)
    price = "" if key.price is None else f"{key.price:f}"
    amount, units = f"{part.amount:f}", f"{quantity(key, part.weighted_seconds).quantize(_DIGITS):f}"
    start, end = part.period
    offer = _text(key.offer or "unknown")
    yield from (("BilledCost", amount), ("ContractedCost", amount), ("EffectiveCost", amount), ("ListCost", amount))
    yield from (("ContractedUnitPrice", price), ("ListUnitPrice", price), ("PricingCategory", "Standard"))
    yield from (("PricingQuantity", units), ("PricingUnit", unit), ("ConsumedQuantity", units), ("ConsumedUnit", unit))
    yield from (("BillingAccountId", _text(invoice.tenant)), ("BillingAccountName", _text(invoice.tenant)))
    yield from (("BillingAccountType", "Tenant"), ("BillingCurrency", bill.currency))
    yield "BillingPeriodStart", format_moment(bill.period.start)
    yield "BillingPeriodEnd", format_moment(bill.period.end)
    yield from (("ChargePeriodStart", format_moment(start)), ("ChargePeriodEnd", format_moment(end)))
    yield from (("ChargeCategory", "Usage"), ("ChargeClass", "Correction" if line.adjusts else ""))
    yield "ChargeDescription", _text(f"{format_resource(line)} ({key.offer or 'unknown spec'})")
    yield "ChargeFrequency", "Usage-Based"
    yield "InvoiceId", _text(f"{bill.month}/{invoice.tenant}") if bill.closed_in else ""
    yield from ((column, _text(bill.provider)) for column in ("InvoiceIssuerName", "ProviderName", "PublisherName"))
    yield from (("RegionId", _text(key.cluster)), ("RegionName", _text(key.cluster)))
    yield "ResourceId", _text(f"{key.cluster}/{invoice.tenant}/{KIND_NAMES[key.kind]}/{key.name}")
    yield from (("ResourceName", _text(key.name)), ("ResourceType", KIND_NAMES[key.kind]))
    yield from (("ServiceCategory", category), ("ServiceSubcategory", subcategory), ("ServiceName", service))
    yield from (("SkuId", offer), ("SkuPriceId", f"{offer}@{price}" if price else ""))
    yield from (("Tags", json.dumps(key.labels, sort_keys=True)), ("x_IsFinal", str(bill.is_final).lower()))


def _text(value: str) -> str:
    """Return a text that a spreadsheet doesn't take for a formula."""
    text = escape_unprintable(value, 1000)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


_COLUMNS = (
    *_EMPTY_COLUMNS,
    *(
        "BilledCost",
        "BillingAccountId",
        "BillingAccountName",
        "BillingAccountType",
        "BillingCurrency",
        "BillingPeriodEnd",
    ),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd"),
    *(
        "ChargePeriodStart",
        "ConsumedQuantity",
        "ConsumedUnit",
        "ContractedCost",
        "ContractedUnitPrice",
        "EffectiveCost",
    ),
    *(
        "InvoiceId",
        "InvoiceIssuerName",
        "ListCost",
        "ListUnitPrice",
        "PricingCategory",
        "PricingQuantity",
        "PricingUnit",
    ),
    *("ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType"),
    *("ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuPriceId", "Tags", "x_IsFinal"),
)

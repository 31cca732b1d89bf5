"""The bill of October of a tenant's uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from allotment.billing.invoices import InvoiceLine, compute_invoice
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.recorded_use import Use
from allotment.billing.usage_totals import clip_uses
from tests.support.priced_uses import BERLIN, OCTOBER, PRICES

GPUS: Mapping[str, Fraction] = {"l4-quarter": Fraction(1, 4)}


def bill(*uses: Use, bills_unknown: bool = False, adjustments: Iterable[InvoiceLine] = ()) -> MonthlyBill:
    """Return the bill of October."""
    invoice = compute_invoice("kite", clip_uses(uses, OCTOBER), PRICES, None, bills_unknown=bills_unknown)
    result = MonthlyBill(
        month="2026-10",
        provider="Northlight",
        period=OCTOBER,
        zone=BERLIN,
        currency="EUR",
        bills_unknown=bills_unknown,
        commit="c0ffee",
        clusters=(),
        invoices=(invoice,),
        gpus_by_spec=GPUS,
    )
    return result.with_adjustments({"kite": list(adjustments)})

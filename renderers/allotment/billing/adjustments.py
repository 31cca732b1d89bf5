"""Computes the adjustments of closed months: later knowledge about their usage, as lines of an open month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from allotment.billing.invoices import Invoice, InvoiceLine, LineKey, order_key
from allotment.billing.ledger import ClosedMonth


class _Billed(NamedTuple):
    """The billed weighted seconds and the amount of a line."""

    weighted_seconds: int
    amount: Decimal


_NOTHING = _Billed(0, Decimal("0.00"))


def compute_adjustments(
    closed: ClosedMonth,
    later: Iterable[ClosedMonth],
    invoices: Iterable[Invoice],
    clusters: Collection[str],
    tenant: str | None = None,
) -> dict[str, list[InvoiceLine]]:
    """Return the adjustments of a closed month, by tenant, sorted by line.

    `later` are the months that were closed afterwards, and `invoices` are the invoices of the closed month by the present
    knowledge, of all tenants or of `tenant` alone. Leaves out the lines of clusters other than `clusters`. The amounts in
    the ledger and the adjustments together are the amounts of `invoices`.
    """
    billed = _add_up(_list_billed(closed, later))
    present = _add_up(
        (invoice.tenant, line.key, _Billed(line.weighted_seconds, line.amount))
        for invoice in invoices
        for line in invoice.lines
    )
    adjustments: dict[str, list[InvoiceLine]] = defaultdict(list)
    for owner, key in sorted(billed.keys() | present.keys(), key=lambda pair: (pair[0], order_key(pair[1]))):
        before, after = billed.get((owner, key), _NOTHING), present.get((owner, key), _NOTHING)
        if before.amount != after.amount and key.cluster in clusters and tenant in (None, owner):
            adjustments[owner].append(
                InvoiceLine(
                    number=0,
                    key=key,
                    weighted_seconds=after.weighted_seconds - before.weighted_seconds,
                    unknown_weighted_seconds=0,
                    amount=after.amount - before.amount,
                    unknown_amount=Decimal("0.00"),
                    adjusts=closed.closing.month,
                )
            )
    return dict(adjustments)


def _list_billed(closed: ClosedMonth, later: Iterable[ClosedMonth]) -> Iterator[tuple[str, LineKey, _Billed]]:
    """Yield the lines that bill the usage of a closed month: those of its invoices, and the adjustments in later months."""
    for month in (closed, *later):
        for tenant, invoice in month.invoices.items():
            for line in invoice.lines:
                if (line.adjusts or month.closing.month) == closed.closing.month:
                    yield tenant, line.key, _Billed(line.weighted_seconds, line.amount)


def _add_up(lines: Iterable[tuple[str, LineKey, _Billed]]) -> dict[tuple[str, LineKey], _Billed]:
    sums: dict[tuple[str, LineKey], _Billed] = defaultdict(lambda: _NOTHING)
    for tenant, key, line in lines:
        before = sums[tenant, key]
        sums[tenant, key] = _Billed(before.weighted_seconds + line.weighted_seconds, before.amount + line.amount)
    return dict(sums)

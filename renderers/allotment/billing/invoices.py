"""Computes the invoices of tenants for a period from recorded uses and prices.

An invoice line is the use of a resource with the same offer, labels and price. Its amount is rounded once, half up. The total
is the sum of the lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.prices import PriceList, compute_amount, round_money
from allotment.billing.recorded_use import Use
from allotment.billing.usage_totals import Share


class LineKey(NamedTuple):
    """The identity of an invoice line, which also orders the lines.

    `labels` are the pairs of keys and values. `price` is per unit and hour, or per GiB and month; None if the use has no
    price.
    """

    kind: str
    name: str
    cluster: str
    offer: str
    labels: tuple[tuple[str, str], ...]
    price: Decimal | None


class LinePart(NamedTuple):
    """The part of a use on an invoice line: from `start` until `end`, of which the time from `certain_end` is unknown."""

    use: Use
    start: int
    certain_end: int
    end: int


class InvoiceLine(NamedTuple):
    """A line of an invoice.

    `number` counts from 1. `weighted_seconds` are the billed unit × seconds, or bytes × seconds, and `unknown_seconds` are
    those in which nobody observed the use. `amount` is their price, and `unknown_amount` the price of the unknown use that
    is not billed.
    """

    number: int
    key: LineKey
    weighted_seconds: int
    unknown_seconds: int
    amount: Decimal
    unknown_amount: Decimal
    parts: tuple[LinePart, ...]


class Invoice(NamedTuple):
    """The invoice of a tenant. `budget` is the budget per month of its tariff plan; None if it has none."""

    tenant: str
    lines: tuple[InvoiceLine, ...]
    budget: Decimal | None

    @property
    def total(self) -> Decimal:
        """The sum of the lines."""
        return sum((line.amount for line in self.lines), Decimal("0.00"))

    @property
    def unknown_total(self) -> Decimal:
        """The price of the unknown use that is not billed."""
        return sum((line.unknown_amount for line in self.lines), Decimal("0.00"))

    @property
    def has_unpriced_line(self) -> bool:
        """Whether a line has no price."""
        return any(line.key.price is None for line in self.lines)


def compute_invoice(
    tenant: str, shares: Iterable[Share], prices: PriceList, budget: Decimal | None, *, bills_unknown: bool = False
) -> Invoice:
    """Return the invoice of a tenant. `shares` are its uses within the period.

    With `bills_unknown`, the time in which nobody observed a use is billed too. Each second of a share is on exactly one
    line.
    """
    parts_by_key: dict[LineKey, list[LinePart]] = defaultdict(list)
    for share in shares:
        use = share.use
        labels = tuple(sorted(use.labels.items()))
        for part in prices.split(use, share.start, share.end):
            certain_end = min(max(part.start, share.certain_end), part.end)
            key = LineKey(use.kind, use.name, use.cluster, use.offer, labels, part.amount)
            parts_by_key[key].append(LinePart(use, part.start, certain_end, part.end))
    keys = sorted(parts_by_key, key=lambda key: (*key[:-1], key.price is None, key.price or Decimal(0)))
    lines = [
        _compute_line(number, key, parts_by_key[key], bills_unknown=bills_unknown) for number, key in enumerate(keys, 1)
    ]
    return Invoice(tenant, tuple(lines), budget)


def _compute_line(number: int, key: LineKey, parts: list[LinePart], *, bills_unknown: bool) -> InvoiceLine:
    certain = sum((part.certain_end - part.start) * part.use.weight for part in parts)
    unknown = sum((part.end - part.certain_end) * part.use.weight for part in parts)
    billed = certain + unknown if bills_unknown else certain
    amount = Fraction(0) if key.price is None else compute_amount(key.price, key.kind, billed)
    whole = Fraction(0) if key.price is None else compute_amount(key.price, key.kind, certain + unknown)
    return InvoiceLine(
        number=number,
        key=key,
        weighted_seconds=billed,
        unknown_seconds=unknown,
        amount=round_money(amount),
        unknown_amount=round_money(whole) - round_money(amount),
        parts=tuple(parts),
    )

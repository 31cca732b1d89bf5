"""Computes the invoices of tenants for a period from recorded uses and prices.

An invoice line is the use of a resource with the same offer, labels and price. The amounts of a resource with one offer and
price are rounded together, half up, so that more labels don't change their sum. The total is the sum of the lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from allotment.billing.prices import PriceList, compute_amount, price_key, round_money
from allotment.billing.usage_totals import Share, find_value


class LedgerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of the values in a file of the ledger.

    The names and the order of the fields are the format of the ledger. `allot month verify` compares closed months byte by
    byte, so a changed field breaks all of them.
    """


class LineKey(LedgerRecord, frozen=True):
    """The identity of an invoice line, which also orders the lines: the resource, its offer and labels, and the price.

    `price` is per unit and hour, or per GiB and month; None if the use has no price.
    """

    kind: str
    name: str
    cluster: str
    offer: str = msgspec.field(name="spec")
    labels: dict[str, str]
    price: Decimal | None

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.cluster, self.offer, self.price))  # the labels are a mapping


def order_key(key: LineKey) -> tuple[Any, ...]:
    """Return the value that orders lines. A line without a price comes last."""
    labels = sorted(key.labels.items())
    return key.kind, key.name, key.cluster, key.offer, labels, key.price is None, key.price or Decimal(0)


class BilledLine(LedgerRecord, frozen=True, kw_only=True):
    """A line of an invoice, without the uses.

    `number` counts from 1. `weighted_seconds` are the billed unit × seconds, or bytes × seconds, and `amount` is their price.
    `unknown_weighted_seconds` are those of the time in which nobody observed the use, and `unknown_amount` is their price. It is a part of
    `amount` if the platform bills unknown time.

    If `adjusts` is a month, the line is an adjustment of this closed month: the difference between the present knowledge and
    the amounts that were billed before. It may be negative.
    """

    number: int
    adjusts: str
    key: LineKey
    weighted_seconds: int
    amount: Decimal
    unknown_weighted_seconds: int
    unknown_amount: Decimal


class InvoiceLine(BilledLine, frozen=True, kw_only=True):
    """A line of an invoice with the parts of uses on it. An adjustment and a line from the ledger have no parts."""

    parts: tuple[Share, ...] = ()


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
        """The price of the time in which nobody observed the uses."""
        return sum((line.unknown_amount for line in self.lines), Decimal("0.00"))

    @property
    def unpriced_lines(self) -> list[InvoiceLine]:
        """The lines without a price."""
        return [line for line in self.lines if line.key.price is None]


def compute_invoice(
    tenant: str,
    shares: Iterable[Share],
    prices: PriceList,
    budget: Decimal | None,
    *,
    bills_unknown: bool = False,
    rounds_lines: bool = False,
) -> Invoice:
    """Return the invoice of a tenant. `shares` are its uses within the period.

    With `bills_unknown`, the time in which nobody observed a use is billed too. Each second of a share is on exactly one
    line. With `rounds_lines`, each line is rounded by itself, as in format 1 of the ledger.
    """
    parts_by_key: dict[LineKey, list[Share]] = defaultdict(list)
    for share in shares:
        use = share.use
        for part in prices.split(price_key(use.kind, use.offer), share.start, share.end):
            certain_end = min(max(part.start, share.certain_end), part.end)
            price = None if part.amount is None else part.amount * use.fraction
            key = LineKey(use.kind, use.name, use.cluster, use.offer, dict(use.labels), price)
            parts_by_key[key].append(Share(use, part.start, certain_end, part.end))
    keys = sorted(parts_by_key, key=order_key)
    quantities = {key: _Quantity.of(key, parts_by_key[key]) for key in keys}
    groups: dict[LineKey, list[LineKey]] = defaultdict(list)
    for key in keys:
        groups[key if rounds_lines else msgspec.structs.replace(key, labels={})].append(key)
    amounts: dict[LineKey, _Amounts] = {}
    for group in groups.values():
        amounts.update(zip(group, _round_together([quantities[key] for key in group]), strict=True))
    lines = [
        InvoiceLine(
            number=number,
            adjusts="",
            key=key,
            weighted_seconds=quantities[key].certain + (quantities[key].unknown if bills_unknown else 0),
            unknown_weighted_seconds=quantities[key].unknown,
            amount=amounts[key].certain + (amounts[key].unknown if bills_unknown else 0),
            unknown_amount=amounts[key].unknown,
            parts=tuple(parts_by_key[key]),
        )
        for number, key in enumerate(keys, 1)
    ]
    return Invoice(tenant, tuple(lines), budget)


class _Quantity(NamedTuple):
    """The certain and the unknown weighted seconds of a line, and their exact amounts."""

    certain: int
    unknown: int
    exact_certain: Fraction
    exact_unknown: Fraction

    @staticmethod
    def of(key: LineKey, parts: list[Share]) -> _Quantity:
        certain = sum((part.certain_end - part.start) * part.use.weight for part in parts)
        unknown = sum((part.end - part.certain_end) * part.use.weight for part in parts)
        exact = (
            Fraction(0) if key.price is None else compute_amount(key.price, key.kind, seconds)
            for seconds in (certain, unknown)
        )
        return _Quantity(certain, unknown, *exact)


class _Amounts(NamedTuple):
    """The rounded amounts of the certain and the unknown use of a line."""

    certain: Decimal
    unknown: Decimal


def _round_together(quantities: Sequence[_Quantity]) -> Iterator[_Amounts]:
    """Yield the amounts of lines, so that their sums are the exact sums, rounded half up."""
    certain = sum((each.exact_certain for each in quantities), Fraction(0))
    unknown = sum((each.exact_unknown for each in quantities), Fraction(0))
    certain_total, total = round_money(certain), round_money(certain + unknown)
    certain_amounts = distribute(certain_total, [each.exact_certain for each in quantities])
    unknown_amounts = distribute(total - certain_total, [each.exact_unknown for each in quantities])
    return map(_Amounts, certain_amounts, unknown_amounts)


def distribute(total: Decimal, exact: Sequence[Fraction]) -> list[Decimal]:
    """Return the amounts in whole cents, with the sum `total`, by the method of the largest remainder (Hare and Niemeyer).

    `total` must be the sum of `exact`, rounded up or down. Each amount is rounded up or down. Of equal remainders, the first is rounded up.
    """
    cents = [amount * 100 // 1 for amount in exact]
    left = int(total.scaleb(2)) - sum(cents)
    by_remainder = sorted(range(len(exact)), key=lambda at: cents[at] - exact[at] * 100)
    for at in by_remainder[:left]:
        cents[at] += 1
    return [Decimal(each).scaleb(-2) for each in cents]


def add_adjustments(invoice: Invoice, adjustments: Iterable[InvoiceLine]) -> Invoice:
    """Return an invoice with adjustments of closed months after its lines."""
    first = len(invoice.lines) + 1
    numbered = (msgspec.structs.replace(line, number=number) for number, line in enumerate(adjustments, first))
    return invoice._replace(lines=(*invoice.lines, *numbered))


def sum_lines(invoices: Iterable[Invoice], dimensions: Sequence[str]) -> list[tuple[tuple[str, ...], Decimal]]:
    """Return the sum of the amounts of each group of lines, sorted. A group has a value for each dimension.

    A dimension is tenant, cluster, spec, instance, storage or label:KEY. The sums of all groups are the sum of the invoices.
    """
    find_values = [find_value(name) for name in dimensions]
    sums: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for invoice in invoices:
        for line in invoice.lines:
            sums[tuple(find(invoice.tenant, line.key) for find in find_values)] += line.amount
    return sorted(sums.items())

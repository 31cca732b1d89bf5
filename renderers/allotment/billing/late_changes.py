"""Finds the prices and terms of billing that were merged after the time that they apply to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from allotment.billing.invoices import Invoice
from allotment.billing.periods import Period
from allotment.billing.prices import PriceKey, PriceList, price_key
from allotment.declared.kinds.platform import Billing


class MergedTerms(NamedTuple):
    """The prices and the settings of billing after a merge. `time` is that of the merge, in seconds since 1970.

    `reservations` has the fraction of the price that each stock declares for reserved units without a use, by cluster and stock;
    None if it is unknown.
    """

    commit: str
    time: int
    prices: PriceList
    billing: Billing | None
    reservations: Mapping[tuple[str, str], Decimal | None] = MappingProxyType({})


class LateChange(NamedTuple):
    """A price or a setting that a merge changed for a time before it.

    - `kind` and `offer` name the price, as on a line of an invoice. Both are empty for a setting.
    - `field` is the setting, such as `spec.billing.unknown`; empty for a price.
    - The value was `before` from `start` until `end`, and is `after` now. An empty value is no price.
    - `commit` made the change, and `merged_at` is its time.
    """

    kind: str
    offer: str
    field: str
    start: int
    end: int
    before: str
    after: str
    commit: str
    merged_at: int


def find_late_changes(history: Sequence[MergedTerms], period: Period) -> list[LateChange]:
    """Return the changes of prices and settings that apply to a time of the period before their merge.

    `history` has the merges in their order. The first merge counts as known from the beginning, and the last merge has the
    terms of the bill. The removal of an offer changes no price. An offer has no price to change before its first merge. A price
    that a merge changed too late and a later merge restored is no change.
    """
    if not history:
        return []
    prices = [late for key in history[-1].prices.keys for late in _merge(_find_late_prices(history, key, period))]
    return [*_find_late_settings(history, period), *prices]


def select_billed(changes: Collection[LateChange], invoices: Collection[Invoice]) -> tuple[LateChange, ...]:
    """Return the changes that concern an invoice: all settings, and the prices of uses within their time."""
    late_prices = [change for change in changes if not change.field]
    if not late_prices:
        return tuple(changes)
    billed = {
        change
        for invoice in invoices
        for line in invoice.lines
        for change in late_prices
        if (change.kind, change.offer) == price_key(line.key.kind, line.key.offer)
        and any(part.start < change.end and change.start < part.end for part in line.parts)
    }
    return tuple(change for change in changes if change.field or change in billed)


def _find_late_prices(history: Sequence[MergedTerms], key: PriceKey, period: Period) -> Iterator[LateChange]:
    billed, merged, in_time = history[-1].prices, None, None
    ends = [*(later.time for later in history[1:]), period.end]
    for index, (each, until) in enumerate(zip(history, ends, strict=True)):
        merged = each.prices if key in each.prices.keys else merged
        if in_time is None or each.time <= period.start or _keeps_price(in_time, each, key):
            in_time = merged
        start, end = period.clip(each.time if index else period.start, until)
        for before in merged.split(key, start, end) if merged is not None else ():
            for after in billed.split(key, before.start, before.end):
                is_undone = in_time is not None and in_time.find_amount(key, after.start) == after.amount
                if after.amount is not None and after.amount != before.amount and not is_undone:
                    cause = _find_cause(history, key, after.start)
                    yield LateChange(
                        *key,
                        field="",
                        start=after.start,
                        end=after.end,
                        before="" if before.amount is None else str(before.amount),
                        after=str(after.amount),
                        commit=cause.commit,
                        merged_at=cause.time,
                    )


def _keeps_price(prices: PriceList, merge: MergedTerms, key: PriceKey) -> bool:
    """Return whether a merge leaves the price of an offer as it is at the time of the merge. A price in time starts later."""
    return merge.prices.find_amount(key, merge.time - 1) == prices.find_amount(key, merge.time - 1)


def _find_cause(history: Sequence[MergedTerms], key: PriceKey, moment: int) -> MergedTerms:
    """Return the oldest merge since which the price at a moment is that of the bill."""
    cause = history[-1]
    amount = cause.prices.find_amount(key, moment)
    for each in reversed(history):
        if each.prices.find_amount(key, moment) != amount:
            break
        cause = each
    return cause


def _merge(changes: Iterator[LateChange]) -> list[LateChange]:
    """Return changes without two that continue each other."""
    merged: list[LateChange] = []
    for change in changes:
        if (
            merged
            and merged[-1]._replace(start=change.start, end=change.end) == change
            and merged[-1].end == change.start
        ):
            merged[-1] = merged[-1]._replace(end=change.end)
        else:
            merged.append(change)
    return merged


def _find_late_settings(history: Sequence[MergedTerms], period: Period) -> Iterator[LateChange]:
    at_start = [each for each in history if each.time <= period.start and each.billing] or [
        each for each in history if each.billing
    ][:1]
    if not at_start:
        return
    before, after = _list_settings(at_start[-1].billing), _list_settings(history[-1].billing)
    for field, value in after.items():
        if before[field] != value:
            cause = next(
                each
                for index, each in enumerate(history)
                if each.billing
                and all(_list_settings(later.billing)[field] == value for later in history[index:] if later.billing)
            )
            yield LateChange(
                kind="",
                offer="",
                field=field,
                start=period.start,
                end=period.clip(cause.time, period.end)[0],
                before=before[field],
                after=value,
                commit=cause.commit,
                merged_at=cause.time,
            )


def _list_settings(billing: Billing | None) -> Mapping[str, str]:
    """Return the settings that decide the amounts of a whole month, by their fields."""
    if billing is None:
        return {}
    return {
        "spec.billing.currency": billing.currency,
        "spec.billing.timeZone": billing.time_zone,
        "spec.billing.unknown": billing.unknown,
    }

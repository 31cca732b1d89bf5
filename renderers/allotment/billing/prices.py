"""Finds the price of an offer at each second."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.periods import HOUR_SECONDS, find_midnight, split_interval
from allotment.billing.recorded_use import RESERVED_KIND
from allotment.capacity.pricing import HOURS_A_MONTH
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.declared.values import GIBI

PriceKey = tuple[str, str]  # the kind of the use, and the GPUSpec or the StorageSpec


def price_key(kind: str, offer: str) -> PriceKey:
    """Return the key of the price of a use. Reserved units have the price of a unit."""
    return INSTANCE.kind.name if kind == RESERVED_KIND else kind, offer


class PricePeriod(NamedTuple):
    """A price from `start`, in seconds since 1970, until the next price. `amount` is None before the first price."""

    start: int
    amount: Decimal | None


class PricedPart(NamedTuple):
    """A part of a time with one price. `amount` is None if the offer has no price."""

    start: int
    end: int
    amount: Decimal | None


class PriceList:
    """The prices of a platform's offers: of a unit per hour, and of a GiB per month of 730 hours."""

    def __init__(self, platform: ScopeDeclarations, zone: datetime.tzinfo) -> None:
        self._prices: dict[PriceKey, list[PricePeriod]] = {}
        for name, spec in platform.of_kind(GPUSpec).items():
            prices = {price.start: price.per_hour for price in spec.model.spec.prices}
            self._prices[INSTANCE.kind.name, name] = _build_periods(prices, zone)
        for name, storage_spec in platform.of_kind(StorageSpec).items():
            for kind, monthly in (
                (STORAGE, storage_spec.model.spec.prices),
                (SNAPSHOT, storage_spec.model.spec.snapshot_prices),
            ):
                prices = {price.start: price.per_gib_month for price in monthly}
                self._prices[kind.kind.name, name] = _build_periods(prices, zone)

    @property
    def keys(self) -> Set[PriceKey]:
        """The declared offers."""
        return self._prices.keys()

    def find_amount(self, key: PriceKey, moment: int) -> Decimal | None:
        """Return the price of an offer at a time; None if it has no price."""
        return next((part.amount for part in self.split(key, moment, moment + 1)), None)

    def split(self, key: PriceKey, start: int, end: int) -> Iterator[PricedPart]:
        """Yield the parts of the time between two times in which an offer has one price."""
        periods: Sequence[PricePeriod] = self._prices.get(key, ())
        if not periods:
            if start < end:
                yield PricedPart(start, end, None)
            return
        for index, begin, until in split_interval(start, end, [period.start for period in periods]):
            yield PricedPart(begin, until, periods[index].amount)


def compute_amount(price: Decimal, kind: str, weighted_seconds: int) -> Fraction:
    """Return the exact amount of a use.

    `weighted_seconds` are unit × seconds at a price per hour, or bytes × seconds at a price per GiB and month of 730 hours.
    """
    if kind in (INSTANCE.kind.name, RESERVED_KIND):
        return Fraction(price) * weighted_seconds / HOUR_SECONDS
    return Fraction(price) * weighted_seconds / (GIBI * HOURS_A_MONTH * HOUR_SECONDS)


def round_money(amount: Fraction) -> Decimal:
    """Return an exact amount with two decimal places, rounded half up."""
    cents = (amount * 200 + 1) // 2
    return Decimal(cents).scaleb(-2)


def _build_periods(prices: Mapping[datetime.date, Decimal], zone: datetime.tzinfo) -> list[PricePeriod]:
    """Return the prices by the midnight of their first days. The first period has no price."""
    if not prices:
        return []
    return [PricePeriod(0, None), *(PricePeriod(find_midnight(day, zone), prices[day]) for day in sorted(prices))]

"""Uses of a unit in October and November, and the prices of the sample."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from allotment.billing.periods import month_period, parse_moment
from allotment.billing.prices import PriceList
from allotment.billing.recorded_use import Use
from tests.billing.uses import unit
from tests.support.sample_catalog import OFFERS

BERLIN = ZoneInfo("Europe/Berlin")
PRICES = PriceList(OFFERS.platform, BERLIN)
OCTOBER, NOVEMBER = month_period("2026-10", BERLIN), month_period("2026-11", BERLIN)


def at(text: str) -> int:
    return parse_moment(f"{text}:00Z")


def used(start: str, end: str, **more: Any) -> Use:
    """Return a use of a unit between two times in UTC."""
    values = {"offer": "l4-quarter", "start": at(start), "certain_end": at(end), "end": at(end)}
    return unit(0, 0)._replace(**values | more)

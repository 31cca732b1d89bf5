"""Draws the sold, reserved and idle unit hours of each day as a plot."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction

from allotment.billing.capacity_totals import CapacityTotal
from allotment.billing.periods import HOUR_SECONDS
from allotment.reports.plots import COLORS, HEIGHT, WIDTH, Bar, Plot, Tick, find_top, format_tick, list_ticks

_PART_COLORS = {"sold": COLORS[0], "reserved": COLORS[1], "idle": COLORS[7]}  # from the bottom of a bar


def draw_capacity(days: Sequence[tuple[datetime.date, CapacityTotal]]) -> Plot | None:
    """Return a plot with a bar for each day, which has a part for each use of the stock; None without a stock."""
    if not any(total.stock for _, total in days):
        return None
    top = find_top(max(Fraction(total.stock, HOUR_SECONDS) for _, total in days))
    step = WIDTH / len(days)
    bars = []
    for at, (day, total) in enumerate(days):
        y = float(HEIGHT)
        for name, color in _PART_COLORS.items():
            if seconds := getattr(total, name):
                height = float(Fraction(seconds, HOUR_SECONDS) / top * HEIGHT)
                y -= height
                text = f"{day}: {format_unit_hours(seconds)} unit hours {name}"
                bars.append(Bar(at * step + 1, y, step - 2, height, color, text))
    sums = ", ".join(
        f"{format_unit_hours(sum(getattr(total, name) for _, total in days))} {name}" for name in _PART_COLORS
    )
    return Plot(
        title="Unit hours per day",
        description=f"Unit hours from {days[0][0]} to {days[-1][0]}: {sums}.",
        height=HEIGHT,
        bars=tuple(bars),
        value_ticks=tuple(Tick(HEIGHT - float(value / top * HEIGHT), format_tick(value)) for value in list_ticks(top)),
        name_ticks=tuple(Tick((at + 0.5) * step, str(day.day)) for at, (day, _) in enumerate(days) if at % 5 == 0),
        legend=tuple(_PART_COLORS.items()),
        is_horizontal=False,
    )


def format_unit_hours(seconds: int) -> str:
    """Return unit × seconds as unit hours with one decimal place, rounded half up."""
    tenths = (seconds * 20 + HOUR_SECONDS) // (2 * HOUR_SECONDS)
    return f"{tenths // 10}.{tenths % 10}"


def format_sold_percent(total: CapacityTotal) -> str:
    """Return the percentage of the stock that is sold, rounded down to one decimal place; a dash without a stock."""
    return f"{total.sold * 1000 // total.stock / 10:g} %" if total.stock else "–"

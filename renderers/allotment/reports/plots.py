"""Draws the plots of a bill, of the availability of an instance, and of the use of the stock."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.capacity_totals import CapacityTotal
from allotment.billing.daily_costs import DailyCost, sum_daily_costs, sum_gpu_hours
from allotment.billing.invoices import Invoice
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import HOUR_SECONDS
from allotment.billing.prices import round_money
from allotment.capacity.pricing import format_money
from allotment.observed.availability import DayAvailability
from allotment.reports.template_files import open_templates

# Eight colors that people with a color vision deficiency can tell apart (Okabe and Ito, 2008).
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#777777")
OTHERS = "others"
WIDTH, HEIGHT = 720, 220  # of the area with the bars, in pixels
ROW_HEIGHT = 26  # of a bar of GPU hours
_TICKS = 4
_MAX_NAME = 14  # characters
_PART_COLORS = {"sold": COLORS[0], "reserved": COLORS[1], "idle": COLORS[7]}  # from the bottom of a bar


class Bar(NamedTuple):
    """A rectangle of a plot, in pixels, with its text alternative."""

    x: float
    y: float
    width: float
    height: float
    color: str
    text: str


class Tick(NamedTuple):
    """A labelled position on an axis, in pixels."""

    position: float
    label: str


class Plot(NamedTuple):
    """The geometry of a plot.

    `description` is its text alternative. `value_ticks` label the axis of values, and `name_ticks` the bars. `legend` has the
    name and the color of each part of a bar.
    """

    title: str
    description: str
    height: float
    bars: tuple[Bar, ...]
    value_ticks: tuple[Tick, ...]
    name_ticks: tuple[Tick, ...]
    legend: tuple[tuple[str, str], ...]
    is_horizontal: bool


def draw_plots(bill: MonthlyBill, invoices: Iterable[Invoice]) -> list[Plot]:
    """Return the plots of invoices of a bill. A plot without values is left out."""
    chosen = list(invoices)
    days, hours = sum_daily_costs(bill, chosen), sum_gpu_hours(bill, chosen)
    plots = []
    if any(sum(day.amounts.values()) for day in days):
        plots.append(_draw_days(bill, days))
    if any(amount for _, amount in hours):
        plots.append(_draw_hours(bill, hours))
    return plots


def render_svg(bill: MonthlyBill) -> str:
    """Return the plots of all invoices of a bill below one another as an SVG document. It loads nothing and has no scripts."""
    whose = bill.invoices[0].tenant if len(bill.invoices) == 1 else "all tenants"
    title = f"Bill of {whose} for {bill.month}"
    return open_templates().get_template("plots.svg.j2").render(title=title, plots=draw_plots(bill, bill.invoices))


def draw_availability(days: Sequence[DayAvailability]) -> Plot | None:
    """Return a plot of the percentage of each day in which an instance ran; None if it was never declared to run."""
    declared, running = (sum(getattr(day, name) for day in days) for name in ("declared", "running"))
    if not declared:
        return None
    step = WIDTH / len(days)
    bars = [
        Bar(at * step + 1, HEIGHT - height, step - 2, height, COLORS[2], f"{day.day}: {_format_percent(day)}")
        for at, day in enumerate(days)
        if day.declared and (height := day.running / day.declared * HEIGHT)
    ]
    total = _format_percent(DayAvailability(days[0].day, declared, running))
    return Plot(
        title="Availability per day in %",
        description=f"It ran {total} of the time in which it was declared to run, from {days[0].day} to {days[-1].day}.",
        height=HEIGHT,
        bars=tuple(bars),
        value_ticks=tuple(Tick(HEIGHT - HEIGHT * at / _TICKS, f"{100 * at // _TICKS}") for at in range(_TICKS + 1)),
        name_ticks=tuple(Tick((at + 0.5) * step, f"{day.day:%d}") for at, day in enumerate(days) if at % 5 == 0),
        legend=(),
        is_horizontal=False,
    )


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
        value_ticks=tuple(
            Tick(HEIGHT - float(value / top * HEIGHT), _format_tick(value)) for value in _list_ticks(top)
        ),
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


def _draw_days(bill: MonthlyBill, days: Sequence[DailyCost]) -> Plot:
    """Return a plot with a bar for each day, which has a part for each spec."""
    specs = _rank_specs(days)
    colors = dict(zip(specs, COLORS, strict=False))
    totals = [sum(day.amounts.values(), Fraction()) for day in days]
    top = find_top(max(totals))
    step = WIDTH / len(days)
    bars = []
    for at, day in enumerate(days):
        y = float(HEIGHT)
        for spec, amount in _merge_others(day, specs):
            height = float(amount / top * HEIGHT)
            y -= height
            text = f"{day.day}: {spec} {format_money(round_money(amount))} {bill.currency}"
            bars.append(Bar(at * step + 1, y, step - 2, height, colors[spec], text))
    total = format_money(round_money(sum(totals, Fraction())))
    highest = max(range(len(days)), key=lambda at: totals[at])
    peak = f"{format_money(round_money(totals[highest]))} {bill.currency} on {days[highest].day}"
    return Plot(
        title=f"Cost per day in {bill.currency}",
        description=f"{total} {bill.currency} from {days[0].day} to {days[-1].day}; the highest cost is {peak}.",
        height=HEIGHT,
        bars=tuple(bars),
        value_ticks=tuple(
            Tick(HEIGHT - float(value / top * HEIGHT), _format_tick(value)) for value in _list_ticks(top)
        ),
        name_ticks=tuple(Tick((at + 0.5) * step, str(day.day.day)) for at, day in enumerate(days) if at % 5 == 0),
        legend=tuple((_shorten(spec), colors[spec]) for spec in specs),
        is_horizontal=False,
    )


def _draw_hours(bill: MonthlyBill, hours: Sequence[tuple[str, Fraction]]) -> Plot:
    """Return a plot with a horizontal bar for each GPUSpec."""
    top = find_top(max(amount for _, amount in hours))
    bars, names = [], []
    for at, (spec, amount) in enumerate(hours):
        text = f"{spec}: {_format_hours(amount)} GPU hours"
        bars.append(Bar(0, at * ROW_HEIGHT + 4, float(amount / top * WIDTH), ROW_HEIGHT - 8, COLORS[0], text))
        names.append(Tick((at + 0.5) * ROW_HEIGHT, f"{_shorten(spec)}: {_format_hours(amount)}"))
    total = sum((amount for _, amount in hours), Fraction())
    listed = ", ".join(f"{spec or '-'} {_format_hours(amount)}" for spec, amount in hours)
    return Plot(
        title="GPU hours by spec",
        description=f"{_format_hours(total)} GPU hours in {bill.month}: {listed}. A part of a GPU counts as a fraction.",
        height=len(hours) * ROW_HEIGHT,
        bars=tuple(bars),
        value_ticks=tuple(Tick(float(value / top * WIDTH), _format_tick(value)) for value in _list_ticks(top)),
        name_ticks=tuple(names),
        legend=(),
        is_horizontal=True,
    )


def _rank_specs(days: Iterable[DailyCost]) -> list[str]:
    """Return the specs with a cost, the most expensive first. If there are too many for the colors, the last is OTHERS."""
    sums: dict[str, Fraction] = {}
    for day in days:
        for spec, amount in day.amounts.items():
            sums[spec] = sums.get(spec, Fraction()) + amount
    ranked = sorted((spec for spec in sums if sums[spec]), key=lambda spec: (-sums[spec], spec))
    return ranked if len(ranked) <= len(COLORS) else [*ranked[: len(COLORS) - 1], OTHERS]


def _merge_others(day: DailyCost, specs: Sequence[str]) -> list[tuple[str, Fraction]]:
    """Return the amounts of a day by spec, in the order of `specs`; the specs that it lacks together are OTHERS."""
    merged: dict[str, Fraction] = {}
    for spec, amount in day.amounts.items():
        name = spec if spec in specs else OTHERS
        merged[name] = merged.get(name, Fraction()) + amount
    return [(spec, merged[spec]) for spec in specs if merged.get(spec)]


def _shorten(name: str) -> str:
    """Return a name that fits beside a plot; a dash for an empty name. The text of each bar has the whole name."""
    return "-" if not name else name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def find_top(value: Fraction) -> Fraction:
    """Return the end of an axis: the first of 1, 2 or 5 × a power of 10 that is not below a value."""
    power = Fraction(1)
    while power * 10 < value:
        power *= 10
    while power >= value:
        power /= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value)


def _list_ticks(top: Fraction) -> list[Fraction]:
    """Return the values that an axis labels."""
    return [top * at / _TICKS for at in range(_TICKS + 1)]


def _format_tick(value: Fraction) -> str:
    """Return the label of a value on an axis."""
    return f"{float(value):g}"


def _format_percent(day: DayAvailability) -> str:
    """Return a percentage that is 100 only if it is exact."""
    return f"{day.running * 1000 // day.declared / 10:g} %"


def _format_hours(amount: Fraction) -> str:
    return f"{round_money(amount):f}"

"""The tables of a plan: the same rows for every reader."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.accounts.pricing import HOURS_A_MONTH, money_text
from allotment.changes.plan import Amount, Diff, Plan
from allotment.declared.values import size_text
from allotment.problems import printable

MOST_LINES = 1_500  # of a file that is compared line by line
MOST_WIDTH = 500  # characters of a line
MOST_PARTS = 8


class Table(NamedTuple):
    """A table: its title, its heads and its rows. `figures` are the columns of numbers of ours."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    figures: frozenset[int]
    note: str = ""


def tables(plan: Plan) -> Iterator[Table]:
    """Yield the tables that have rows."""
    for one in (_units(plan), _quota(plan), _costs(plan), _parts(plan), _things(plan)):
        if one.rows:
            yield one


def _units(plan: Plan) -> Table:
    rows = [
        (one.cluster, one.gpu_spec, _step(one.stock_before, one.stock), _step(one.held_before, one.held), str(one.free))
        for one in plan.units
    ]
    return Table("GPU units", ("Cluster", "GPU spec", "Stock", "Held", "Free"), rows, frozenset((2, 3, 4)))


def _quota(plan: Plan) -> Table:
    rows = [
        (
            one.tenant,
            one.what,
            _step(_amount(one, one.before), _amount(one, one.after)),
            "no plan" if one.limit is None else _amount(one, Fraction(one.limit)),
        )
        for one in plan.quota
    ]
    return Table("Quota", ("Tenant", "Of", "Used", "Limit"), rows, frozenset((2, 3)))


def _costs(plan: Plan) -> Table:
    rows = [
        (
            one.tenant,
            _step(money_text(one.before), money_text(one.after)),
            signed(one.after - one.before),
            "no budget" if one.budget is None else money_text(one.budget),
            "" if one.left is None else money_text(one.left),
        )
        for one in plan.costs
    ]
    note = (
        f"A month has {HOURS_A_MONTH} hours; prices are those in force on {plan.day}. Instances count while they are"
        " declared to run."
    )
    heads = ("Tenant", f"{plan.currency} a month", "Difference", "Budget", "Left")
    return Table("Cost", heads, rows, frozenset((1, 2, 3, 4)), note)


def _parts(plan: Plan) -> Table:
    rows = []
    for cost in plan.costs:
        for part in cost.parts[:MOST_PARTS]:
            step = _step(money_text(part.before), money_text(part.after))
            rows.append((cost.tenant, part.what, step, signed(part.after - part.before)))
        if len(cost.parts) > MOST_PARTS:
            rest = sum((one.after - one.before for one in cost.parts[MOST_PARTS:]), Decimal(0))
            rows.append((cost.tenant, f"{len(cost.parts) - MOST_PARTS} more", "", signed(rest)))
    return Table("What makes the difference", ("Tenant", "What", "A month", "Difference"), rows, frozenset((2, 3)))


def _things(plan: Plan) -> Table:
    rows: list[tuple[str, ...]] = [
        (one.tenant, one.cluster, f"{one.kind} {one.name}", one.action, "; ".join(one.why)) for one in plan.things
    ]
    return Table("What changes", ("Tenant", "Cluster", "What", "Change", "Why"), rows, frozenset())


def _step(before: object, after: object) -> str:
    return str(after) if before == after else f"{before} → {after}"


def signed(amount: Decimal) -> str:
    """Return an amount with its sign."""
    text = money_text(amount)
    return text if amount < 0 else f"+{text}"


def _amount(one: Amount, value: Fraction) -> str:
    return size_text(int(value)) if one.is_size else str(value)


def diff_lines(one: Diff) -> list[str]:
    """Return a file's differences as unified lines; of a file too long for that how many lines it had and has."""
    before, after = ([] if data is None else _lines(data) for data in (one.before, one.after))
    if len(before) > MOST_LINES or len(after) > MOST_LINES:
        return [f"  {len(before):,} lines → {len(after):,} lines"]
    was, is_now = ("/dev/null" if data is None else printable(one.path, 400) for data in (one.before, one.after))
    return list(difflib.unified_diff(before, after, was, is_now, lineterm="", n=2))


def _lines(data: bytes) -> list[str]:
    return [
        line if len(line) <= MOST_WIDTH else f"{line[:MOST_WIDTH]}… ({len(line)} characters)"
        for line in data.decode("utf-8", "backslashreplace").replace("\r", "\\r").removesuffix("\n").split("\n")
    ]

"""The tables of a plan: the same rows for every reader."""

from __future__ import annotations

import datetime
import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.accounts.pricing import HOURS_A_MONTH, money_text, signed
from allotment.changes.cold import ColdUnits
from allotment.changes.declared import NEVER_CUT, TOPICS, DeclaredChange
from allotment.changes.files import Diff
from allotment.changes.money import CostChange
from allotment.changes.outside import MOST_OUTSIDE, WORDS
from allotment.changes.plan import NAMED, Amount, Effect, Plan
from allotment.declared.values import decimal_text, size_text
from allotment.problems import counted, printable
from allotment.reports.cold_starts import cold_words

MOST_LINES = 1_500  # of a file that is compared line by line
MOST_WIDTH = 500  # characters of a line
MOST_PARTS = 8
OUTSIDE = "Outside the declarations"
MOST_DAYS = 6  # of one tenant's cost
_EFFECTS: tuple[Effect, ...] = ("restarts", "starts", "stops")
_STYLES = {"added": "good", "removed": "bad", "replaced": "warn", "changed": ""}


class Table(NamedTuple):
    """A table: its title, its heads and its rows. `figures` are the columns of numbers of ours, `totals` its last rows,
    `styles` says how each row is meant (good, bad, warn), `hidden` how many rows there are besides. The last `long` columns
    are sentences."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    figures: frozenset[int]
    note: str = ""
    totals: Sequence[tuple[str, ...]] = ()
    styles: Sequence[str] = ()
    hidden: int = 0
    long: int = 0

    @property
    def short(self) -> int:
        """How many columns hold no sentences."""
        return len(self.heads) - self.long


def tables(plan: Plan) -> Iterator[Table]:
    """Yield the tables that have rows, those that decide first."""
    for table in (
        _costs(plan),
        _declared(plan),
        _things(plan),
        _units(plan),
        _quota(plan),
        _parts(plan),
        _outside(plan),
    ):
        if table.rows:
            yield table


def decisive(plan: Plan) -> Iterator[tuple[str, tuple[DeclaredChange, ...]]]:
    """Yield what no reader may miss of what is declared otherwise, by its title."""
    for topic in NEVER_CUT:
        if declared_changes := plan.of_topics(topic):
            yield topic.capitalize(), declared_changes


def outside(plan: Plan, shown: Callable[[str], str], most: int = MOST_OUTSIDE) -> Iterator[str]:
    """Yield a line for each file outside the declarations that decides something, the first `most` of what they decide, its
    name as it may be `shown`."""
    for decides, named, more in plan.outside.decisive:
        does = f"changes {WORDS[decides]}"
        yield from (f"{does}: {shown(file.path)} {file.written}" for file in named[:most])
        if remaining := more + len(named[most:]):
            yield f"{does}: and {remaining:,} more"


def effects(plan: Plan) -> str:
    """Return how many instances restart, start and stop, or that none restarts; empty where that isn't known."""
    counts = Counter(change.effect for change in plan.things)
    if parts := [f"{effect} {counted(counts[effect], 'instance')}" for effect in _EFFECTS if counts[effect]]:
        return f"The merge {', '.join(parts)}."
    unknown = plan.losses or plan.perhaps_lost or plan.of_topics("capacity", "clusters") or _is_wrong(plan)
    return "No instance restarts." if plan.changes and not unknown else ""


def _is_wrong(plan: Plan) -> bool:
    """Return whether a plan has errors that no approval solves."""
    return bool(frozenset(plan.errors) - frozenset(plan.missing_approvals or ()))


def _outside(plan: Plan) -> Table:
    named, more = plan.outside.others
    rows = [(printable(file.path, 400), file.written) for file in named]
    return Table(f"Other files {OUTSIDE.lower()}", ("File", "Change"), rows, frozenset(), hidden=more)


def _declared(plan: Plan) -> Table:
    shown = plan.of_topics(*(topic for topic in TOPICS if topic not in NEVER_CUT))
    rows = [(change.path, change.words) for change in shown]
    return Table(
        "Declared", ("File", "Change"), rows, frozenset(), hidden=plan.declared_count - len(plan.declared), long=1
    )


def _units(plan: Plan) -> Table:
    rows = [
        (
            units.cluster,
            units.gpu_spec,
            _step(units.stock_before, units.stock),
            _step(units.held_before, units.held),
            str(units.free),
        )
        for units in plan.units
    ]
    styles = ["bad" if units.free < 0 else "" for units in plan.units]
    heads = ("Cluster", "GPU spec", "Stock", "Held", "Free")
    note = "\n".join(map(cold_line, plan.cold))
    return Table("GPU units", heads, rows, frozenset((2, 3, 4)), note, styles=styles)


def cold_line(cold_units: ColdUnits) -> str:
    """Return in words that a node comes before instances start, and how long that took before, as far as it is known."""
    who = f"instance{'' if len(cold_units.instances) == 1 else 's'} {_some(cold_units.instances)}"
    warm = f"no unit of {cold_units.gpu_spec} is kept warm in {cold_units.cluster}"
    if cold_units.warm:
        are = f"{counted(cold_units.warm, 'unit')} of {cold_units.gpu_spec} {'is' if cold_units.warm == 1 else 'are'} kept warm in {cold_units.cluster}"
        warm = f"{are} and {cold_units.units} start"
    rest = " for the rest" if cold_units.warm else ""
    comes = f"a node comes first{rest}" + ("" if cold_units.alone else " where none has room")
    took = (
        "how long that takes isn't known here" if cold_units.time is None else f"it took {cold_words(cold_units.time)}"
    )
    return f"{who}: {warm}: {comes}; {took}"


def _quota(plan: Plan) -> Table:
    rows, styles = [], []
    for amount in plan.quota:
        limit = "no plan"
        if amount.limit is not None:
            limit = _amount(amount, Fraction(amount.limit))
            limit = (
                limit if amount.limit_before is None else _step(_amount(amount, Fraction(amount.limit_before)), limit)
            )
        rows.append(
            (amount.tenant, amount.what, _step(_amount(amount, amount.before), _amount(amount, amount.after)), limit)
        )
        styles.append("bad" if amount.limit is not None and amount.after > amount.limit else "")
    return Table("Quota", ("Tenant", "Of", "Used", "Limit"), rows, frozenset((2, 3)), styles=styles)


def _costs(plan: Plan) -> Table:
    rows, styles = [], []
    for cost in plan.costs:
        for at, cost_day in enumerate(cost.days[:MOST_DAYS]):
            remaining = None if cost.budget is None else cost.budget - cost_day.after
            start = _from(plan, at, cost_day.day)
            difference = signed(cost_day.after - cost_day.before)
            months = _step(money_text(cost_day.before), money_text(cost_day.after))
            rows.append(
                (
                    cost.tenant,
                    start,
                    months,
                    difference,
                    _budget(cost),
                    "" if remaining is None else money_text(remaining),
                )
            )
            styles.append("bad" if remaining is not None and remaining < 0 else "")
        if len(cost.days) > MOST_DAYS:
            rows.append((cost.tenant, f"{counted(len(cost.days) - MOST_DAYS, 'day')} more", "", "", "", ""))
            styles.append("")
    total_label = f"total of {counted(len(plan.costs), 'tenant')}"
    if plan.unpriced:
        total_label += f", without {_some(plan.unpriced)}"
    totals = [
        (total_label, _from(plan, at, cost_day.day), _step(money_text(cost_day.before), money_text(cost_day.after)),
         signed(cost_day.after - cost_day.before), "", "")
        for at, cost_day in enumerate(plan.totals[:MOST_DAYS])
    ]  # fmt: skip
    note = f"A month has {HOURS_A_MONTH} hours; prices are those in force on each day. Instances count while they are declared to run."
    note = "\n".join([note, *_invalid(plan), *_refused(plan)])
    heads = ("Tenant", "From", f"{plan.currency} a month", "Difference", "Budget", "Left")
    return Table(
        title="Cost",
        heads=heads,
        rows=rows,
        figures=frozenset((1, 2, 3, 4, 5)),
        note=note,
        totals=totals,
        styles=styles,
    )


def _from(plan: Plan, at: int, day: datetime.date) -> str:
    return "today" if at == 0 and plan.is_today else f"{day}"


def _some(names: Sequence[str]) -> str:
    """Return the first of some tenants, and how many there are besides."""
    named = ", ".join(printable(name) for name in names[:NAMED])
    return f"{named} and {len(names) - NAMED:,} more" if len(names) > NAMED else named


def _invalid(plan: Plan) -> Iterator[str]:
    """Yield in words whose cost is counted as declared, and won't be."""
    if invalid := [cost.tenant for cost in plan.costs if not cost.is_valid]:
        which = f"{_some(invalid)} {'is' if len(invalid) == 1 else 'are'} invalid"
        yield f"⚠ {which}: the cost is of what is declared, while what is published stays as it is."
    if plan.unpriced:
        yield f"⚠ What {_some(plan.unpriced)} will cost isn't known: what is declared there can't be read, or isn't on offer."


def _refused(plan: Plan) -> Iterator[str]:
    """Yield in words what becomes of those whose budget refuses what they will cost."""
    over = [excess for cost in plan.costs if (excess := cost.excess) and excess.denied and not excess.is_now]
    for excess in over[:NAMED]:
        yield (
            f"⚠ From {excess.day} on {excess.tenant} costs {money_text(excess.amount)} {plan.currency} more than its budget, which"
            " refuses that: it stays as it is published then, and may change nothing, until it declares less or its budget"
            " grows."
        )
    if len(over) > NAMED:
        yield f"⚠ So it is with {len(over) - NAMED:,} more tenants."


def _budget(cost: CostChange) -> str:
    now = "no budget" if cost.budget is None else money_text(cost.budget)
    return now if cost.budget_before is None else _step(money_text(cost.budget_before), now)


def _parts(plan: Plan) -> Table:
    rows = []
    for cost in plan.costs:
        for part in cost.parts[:MOST_PARTS]:
            step = _step(money_text(part.before), money_text(part.after))
            rows.append((cost.tenant, part.what, step, signed(part.after - part.before)))
        if len(cost.parts) > MOST_PARTS:
            rest = sum((cost_part.after - cost_part.before for cost_part in cost.parts[MOST_PARTS:]), Decimal(0))
            rows.append((cost.tenant, f"{len(cost.parts) - MOST_PARTS} more", "", signed(rest)))
    return Table("What makes the difference", ("Tenant", "What", "A month", "Difference"), rows, frozenset((2, 3)))


def _things(plan: Plan) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            change.tenant,
            change.cluster,
            f"{change.kind} {change.name}",
            change.action,
            change.effect or "",
            _why(change.why),
        )
        for change in plan.things
    ]
    styles = [_STYLES[change.action] for change in plan.things]
    heads = ("Tenant", "Cluster", "What", "Change", "Effect", "Why")
    return Table("What changes", heads, rows, frozenset(), styles=styles, long=1)


def _why(reasons: Sequence[str]) -> str:
    """Return reasons in a line, each file named once."""
    texts: list[str] = []
    last = ""
    for reason in reasons:
        path, colon, words = reason.partition(": ")
        texts.append(words if colon and path == last else reason)
        last = path
    return "; ".join(texts)


def files_text(plan: Plan) -> str:
    """Return how many files change, and what is counted."""
    files = plan.files
    kinds = ((files.added, "added"), (files.changed, "changed"), (files.removed, "removed"))
    how = ", ".join(f"{count:,} {word}" for count, word in kinds if count)
    markers = f", {files.markers:,} of them markers that say so of their folder" if files.markers else ""
    beside = f", {counted(plan.outside.total, 'other file')}" if plan.outside.total else ""
    declared = (
        f"{counted(plan.declared_files, 'declared file')}{beside} and {counted(files.total, 'rendered file')} change"
    )
    return f"{declared}{f' ({how}{markers})' if how else ''}."


def _step(before: object, after: object) -> str:
    return str(after) if before == after else f"{before} → {after}"


def _amount(amount: Amount, value: Fraction) -> str:
    return size_text(int(value)) if amount.is_size else decimal_text(value)


def diff_lines(diff: Diff) -> list[str]:
    """Return a file's differences as unified lines; of a file too long for that how many lines it had and has."""
    before, after = ([] if data is None else _lines(data) for data in (diff.before, diff.after))
    if len(before) > MOST_LINES or len(after) > MOST_LINES:
        return [f"  {len(before):,} lines → {len(after):,} lines"]
    was, is_now = ("/dev/null" if data is None else printable(diff.path, 400) for data in (diff.before, diff.after))
    return list(difflib.unified_diff(before, after, was, is_now, lineterm="", n=2))


def _lines(data: bytes) -> list[str]:
    return [
        line if len(line) <= MOST_WIDTH else f"{line[:MOST_WIDTH]}… ({len(line)} characters)"
        for line in data.decode("utf-8", "backslashreplace").replace("\r", "\\r").removesuffix("\n").split("\n")
    ]

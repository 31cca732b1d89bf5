"""A plan on a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from allotment.changes.plan import Diff, Plan
from allotment.reports.markdown import visible
from allotment.reports.plan.rows import Table, diff_lines, tables


def text(plan: Plan, *, diffs: bool) -> str:
    """Return a plan as lines; with `diffs` what changes in every file too."""
    return "\n".join(_lines(plan, diffs)) + "\n"


def _lines(plan: Plan, diffs: bool) -> Iterator[str]:
    yield f"Plan of {plan.head[:12]} merged into {plan.base[:12]}: {plan.verdict}"
    for one in plan.problems:
        yield f"  {one}"
    if plan.standing:
        yield f"  {plan.standing} problem(s) that the base has already are left out; see `allot validate`"
    for words in plan.skipped:
        yield f"  skipped: {words}"
    for title, losses in (("Destroyed", plan.losses), ("Perhaps destroyed", plan.perhaps_lost)):
        if losses:
            yield ""
            yield title
            yield from (f"  {loss.what} {loss.words}" for loss in losses)
    for table in tables(plan):
        yield ""
        yield from _table(table)
    files = plan.changed_files
    yield ""
    yield f"{files:,} rendered file{'' if files == 1 else 's'} change{'s' if files == 1 else ''}. Checksum {plan.checksum or 'none'}"
    if diffs:
        for diff in (*plan.declarations, *plan.objects):
            yield ""
            yield from map(visible, diff_lines(diff))
        if hidden := files - len(plan.objects):
            yield f"and {hidden:,} more files, not shown"
    elif files:
        yield "What changes in each file: --diffs"


def _table(table: Table) -> Iterator[str]:
    widths = [max(len(row[at]) for row in (table.heads, *table.rows)) for at in range(len(table.heads))]
    yield table.title
    for row in (table.heads, *table.rows):
        cells = [
            cell.rjust(width) if at in table.figures else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()
    if table.note:
        yield f"  {table.note}"


def as_json(plan: Plan) -> str:
    """Return a plan as one JSON object; money and fractions are texts."""
    content = {
        "verdict": plan.verdict,
        "allowed": plan.allowed,
        **dataclasses.asdict(plan),
        "problems": [one._asdict() for one in plan.problems],
        "units": [{**dataclasses.asdict(one), "free": one.free} for one in plan.units],
        "costs": [{**dataclasses.asdict(one), "left": one.left} for one in plan.costs],
        "declarations": [_diff(one) for one in plan.declarations],
        "objects": [_diff(one) for one in plan.objects],
    }
    return json.dumps(content, indent=2, default=_plain) + "\n"


def _diff(one: Diff) -> dict[str, Any]:
    return {"path": one.path, "diff": "\n".join(diff_lines(one))}


def _plain(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Fraction):
        return str(value)
    return str(value)

"""A plan on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.changes.plan import Plan
from allotment.problems import counted, printable
from allotment.reports.markdown import visible
from allotment.reports.plan.layout import Line, lines_of, wrapped
from allotment.reports.plan.rows import OUTSIDE, decisive, diff_lines, effects, files_text, outside, tables


def lines(plan: Plan, *, diffs: bool, width: int | None = None) -> Iterator[Line]:
    """Yield a plan line by line, within a terminal's `width` where there is one; with `diffs` what changes in every file
    too, as it is."""
    yield from _within(width, _head(plan))
    for table in tables(plan):
        yield Line("")
        yield from lines_of(table, width)
    yield from _within(width, [Line(""), Line(files_text(plan))])
    if diffs:
        yield from _diffs(plan)
    elif plan.changes:
        yield Line("What changes in each file: --diffs", "dim")
    yield Line(f"Checksum {plan.checksum or 'none'}")


def _within(width: int | None, text_lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines as a terminal of a width takes them."""
    for line in text_lines:
        yield from (Line(text, line.style) for text in wrapped(line.text, width))


def _head(plan: Plan) -> Iterator[Line]:
    """Yield what comes before the tables: the verdict, what is wrong, and what no reader may miss."""
    yield Line(plan.summary, "bad" if plan.errors else "warn" if plan.losses or plan.perhaps_lost else "good")
    yield Line(origin(plan), "dim")
    if words := effects(plan):
        yield Line(words)
    yield from (Line(f"  {problem}", "warn" if problem.warning else "bad") for problem in plan.problems)
    if plan.standing:
        yield Line(f"  left out: {counted(plan.standing, 'problem')} of the base itself; see `allot validate`", "dim")
    yield from (Line(f"  skipped: {words}", "dim") for words in plan.skipped)
    if plan.brake:
        yield from (Line(""), Line("⚠ The brake", "title"), Line(f"  {plan.brake.forecast}", "bad"))
    for title, losses in (("Destroyed", plan.losses), ("Perhaps destroyed", plan.perhaps_lost)):
        if losses:
            yield from (Line(""), Line(f"⚠ {title}", "title"))
            yield from (Line(f"  {visible(loss.what)} {loss.words}", "bad") for loss in losses)
    for title, declared_changes in decisive(plan):
        yield from (Line(""), Line(f"⚠ {title}", "title"))
        yield from (Line(f"  {change.path}: {change.words}", "warn") for change in declared_changes)
    if decided := list(outside(plan, lambda path: printable(path, 400))):
        yield from (Line(""), Line(f"⚠ {OUTSIDE}", "title"))
        yield from (Line(f"  {words}", "warn") for words in decided)


def origin(plan: Plan) -> str:
    """Return what is merged into what, in words."""
    base = f"{plan.base_name} ({plan.base[:12]})" if plan.base_name not in ("", plan.base) else plan.base[:12]
    if plan.work_tree is None:
        return f"Plan of {plan.head[:12]} merged into {base}"
    files = plan.work_tree.uncommitted
    also = f", {counted(files, 'declared file')} not committed" if files else ", no uncommitted declarations"
    return f"Plan of the work tree ({plan.head[:12]}{also}) merged into {base}"


def _diffs(plan: Plan) -> Iterator[Line]:
    styles = {"+": "good", "-": "bad", "@": "dim"}
    for diff in (*plan.declarations, *plan.objects):
        yield Line("")
        for line in diff_lines(diff):
            yield Line(visible(line), styles.get(line[:1], ""))
    if hidden := plan.declared_files - len(plan.declarations):
        yield Line(f"and {hidden:,} more declared files, not shown")
    if hidden := plan.files.of_objects - len(plan.objects):
        yield Line(f"and {hidden:,} more rendered files, not shown")
    yield Line("")

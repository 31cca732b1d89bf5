"""Render a plan on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.diff.change_plan import ChangePlan
from allotment.problems import escape_unprintable, pluralize
from allotment.reports.markdown import escape_invisible
from allotment.reports.plan.layout import Line, table_lines, wrap_text
from allotment.reports.plan.rows import (
    OTHER_FILES_TITLE,
    decisive_changes,
    diff_lines,
    effects_text,
    files_text,
    merge_lines,
    other_file_lines,
    plan_tables,
)


def plan_lines(plan: ChangePlan, *, diffs: bool, width: int | None = None) -> Iterator[Line]:
    """Yield the lines of a plan.

    With `width`, the lines are wrapped to the width of a terminal. With `diffs`, the lines include the diffs in the
    plan, and the numbers of changed files without a diff.
    """
    yield from _fit_lines(width, _head_lines(plan))
    for table in plan_tables(plan):
        yield Line("")
        yield from table_lines(table, width)
    yield from _fit_lines(width, [Line(""), Line(files_text(plan))])
    if diffs:
        yield from _diff_output_lines(plan)
    elif plan.has_changes:
        yield Line("Changes in each file: --diffs", "dim")
    yield Line(f"Checksum {plan.checksum or 'none'}")


def effect_lines(plan: ChangePlan, *, width: int | None = None) -> Iterator[Line]:
    """Yield the effects of a plan: its summary, warnings, notable changes and tables, without commits, files and diffs."""
    yield from _fit_lines(width, [Line(plan.summary, "warn" if plan.destructions else "good")])
    yield from _fit_lines(width, (Line(f"  {problem}", "warn") for problem in plan.problems if problem.warning))
    yield from _fit_lines(width, map(Line, merge_lines(plan, escape_invisible)))
    yield from _fit_lines(width, _notable_lines(plan))
    for table in plan_tables(plan):
        yield Line("")
        yield from table_lines(table, width)


def _fit_lines(width: int | None, text_lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines, wrapped to the width of a terminal; unchanged if `width` is None."""
    for line in text_lines:
        yield from (Line(text, line.style) for text in wrap_text(line.text, width))


def _head_lines(plan: ChangePlan) -> Iterator[Line]:
    """Yield the lines before the tables: the verdict, the problems, and everything that each reader must see."""
    yield Line(
        plan.summary, "bad" if plan.errors else "warn" if plan.destructions or plan.possible_destructions else "good"
    )
    yield Line(origin_text(plan), "dim")
    if words := effects_text(plan):
        yield Line(words)
    yield from map(Line, merge_lines(plan, escape_invisible))
    yield from (Line(f"  {problem}", "warn" if problem.warning else "bad") for problem in plan.problems)
    if plan.preexisting_problems:
        yield Line(
            f"  left out: {pluralize(plan.preexisting_problems, 'problem')} of the base branch; see `allot validate`",
            "dim",
        )
    yield from (Line(f"  not checked: {words}", "dim") for words in plan.skipped_checks)
    yield from _notable_lines(plan)


def _notable_lines(plan: ChangePlan) -> Iterator[Line]:
    """Yield the losses, and the changes that each reader must see, such as those of access and approvals."""
    yield from _loss_lines(plan)
    for title, texts in decisive_changes(plan):
        yield from (Line(""), Line(f"⚠ {title}", "title"))
        yield from (Line(f"  {path}: {text}", "warn") for path, text in texts)
    if decided := list(other_file_lines(plan, lambda path: escape_unprintable(path, 400))):
        yield from (Line(""), Line(f"⚠ {OTHER_FILES_TITLE}", "title"))
        yield from (Line(f"  {words}", "warn") for words in decided)


def _loss_lines(plan: ChangePlan) -> Iterator[Line]:
    """Yield the lines about the brake, and about everything that the merge destroys."""
    if plan.brake_excess:
        yield from (Line(""), Line("⚠ The brake", "title"), Line(f"  {plan.brake_excess.plan_message}", "bad"))
    for title, losses in plan.destruction_groups:
        yield from (Line(""), Line(f"⚠ {title}", "title"))
        yield from (Line(f"  {escape_invisible(loss.subject)} {loss.message}", "bad") for loss in losses)


def origin_text(plan: ChangePlan) -> str:
    """Return a text that names the base of the plan, and the commit or the work tree that is merged into it."""
    base = f"{plan.base_name} ({plan.base[:12]})" if plan.base_name not in ("", plan.base) else plan.base[:12]
    if plan.work_tree is None:
        return f"Plan of {plan.head[:12]} merged into {base}"
    files = plan.work_tree.uncommitted
    also = f", {pluralize(files, 'declared file')} not committed" if files else ", no uncommitted declarations"
    return f"Plan of the work tree ({plan.head[:12]}{also}) merged into {base}"


def _diff_output_lines(plan: ChangePlan) -> Iterator[Line]:
    styles = {"+": "good", "-": "bad", "@": "dim"}
    for diff in (*plan.declaration_diffs, *plan.object_diffs):
        yield Line("")
        for line in diff_lines(diff):
            yield Line(escape_invisible(line), styles.get(line[:1], ""))
    if hidden := plan.files.declared - len(plan.declaration_diffs):
        yield Line(f"and {hidden:,} more declared files, not shown")
    if hidden := plan.files.object_files - len(plan.object_diffs):
        yield Line(f"and {hidden:,} more rendered files, not shown")
    yield Line("")

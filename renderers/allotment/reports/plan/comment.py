"""A plan as one comment on a pull request: within the forge's limit, and inert whatever a tenant writes.

The summary, the missing approvals, what is destroyed, and who gets to do what are always there. Of everything else whole items are left out,
from the end, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from allotment.changes.declared import DeclaredChange
from allotment.changes.files import Diff
from allotment.changes.outside import MOST_OUTSIDE
from allotment.changes.plan import Loss, Plan
from allotment.problems import Problem, counted
from allotment.reports.markdown import code, code_outside_tables, fenced, plain, table
from allotment.reports.plan.rows import OUTSIDE, Table, decisive, diff_lines, effects, files_text, outside, tables
from allotment.reports.plan.text import origin

MARKER = "<!-- allotment:plan -->"
_NOTE = 160  # bytes that are kept for saying what is left out
_MESSAGE = 2_000
_PATH = 400  # characters of a path, or of a field
_APPROVALS = 8_000  # bytes of the approvals that are missing
_SKIPPED = 10  # checks that didn't run
_FEW_OUTSIDE = 3  # files that are named of each thing that they decide, where room is short
_WHOLE = 1 << 20  # characters: what may not be cut isn't


class PlanText(NamedTuple):
    """A comment's text; `whole` is false where what is destroyed, or opened to somebody, doesn't fit: no verdict can stand
    beside that."""

    text: str
    whole: bool


class _Section(NamedTuple):
    """A part of the comment: what stands before and after its items, and what they are called."""

    title: str
    before: str
    items: list[str]
    after: str
    noun: str
    joint: str = "\n"
    hidden: int = 0  # items besides these


def comment(plan: Plan, limit: int) -> PlanText:
    """Return a plan's comment, of at most `limit` bytes."""
    head = "\n\n".join([MARKER, *_head(plan, min(_APPROVALS, limit // 4))])
    tail = f"{files_text(plan)}\n\nChecksum {code(plan.checksum or 'none')}."
    room = limit - _size(head) - _size(tail) - 2 * _NOTE
    dangers = _dangers(plan, _each, _each_change, MOST_OUTSIDE)
    if _size(dangers) > room:
        dangers = _dangers(plan, _alike, _of_file, _FEW_OUTSIDE)
    if _size(dangers) > room:
        return PlanText(f"{head}\n\n{_too_many(plan)}\n\n{tail}\n", False)
    problems = _fitting(_problems(plan), room - _size(dangers))
    parts = [part for part in (head, problems, dangers) if part]
    remaining = limit - _size("\n\n".join([*parts, tail])) - 1
    for section in _sections(plan):
        if part := _fitting(section, remaining - 2):
            parts.append(part)
            remaining -= _size(part) + 2
    return PlanText("\n\n".join([*parts, tail]) + "\n", True)


def _too_many(plan: Plan) -> str:
    count, opened = len(plan.losses) + len(plan.perhaps_lost), sum(len(changes) for _, changes in decisive(plan))
    does = [f"destroys {count:,} things"] if count else []
    does += [f"changes in {counted(opened, 'place')} who may do what"] if opened else []
    return f"It {' and '.join(does)}, more than a comment here can name, so it **can't be merged** like this: split it."


def _size(text: str) -> int:
    return len(text.encode())


def _head(plan: Plan, approvals: int) -> Iterator[str]:
    """Yield what always stands first; of the missing approvals as many as so many bytes hold."""
    sign = "✅" if plan.allowed else "❌"
    yield f"### {sign} This {plan.summary}"
    yield f"{_origin(plan)}."
    if words := effects(plan):
        yield words
    if plan.missing_approvals:
        lines = [_problem(problem) for problem in plan.missing_approvals]
        yield _fitting(_Section("Missing approvals", "#### Missing approvals\n", lines, "", "approval"), approvals)
    elif plan.missing_approvals is not None:
        yield "No approval is missing."
    notes = [f"- skipped: {code(words)}" for words in plan.skipped[:_SKIPPED]]
    if (more := len(plan.skipped) - _SKIPPED) > 0:
        notes.append(f"- skipped: and {more:,} more")
    if plan.standing:
        notes.append(f"- left out: {counted(plan.standing, 'problem')} of the base itself")
    if notes:
        yield "\n".join(notes)


def _origin(plan: Plan) -> str:
    if plan.work_tree is None:
        return f"Plan of {code(plan.head[:12])} merged into {code(plan.base[:12])}"
    return code(origin(plan))


def _problems(plan: Plan) -> _Section:
    approvals = frozenset(plan.missing_approvals or ())
    lines = [_problem(problem) for problem in plan.problems if problem not in approvals]
    return _Section("Problems", "#### Problems\n", lines, "", "problem")


def _problem(problem: Problem) -> str:
    """Return a problem as an item of a list, in which all that a tenant may have written is code."""
    place = code_outside_tables(f"{problem.path[:_PATH]}:{problem.line}:{problem.column}", _PATH + _NOTE)
    warning = "warning: " if problem.warning else ""
    return f"- **{place}** {code_outside_tables(problem.field, _PATH)}: {warning}{code_outside_tables(problem.message, _MESSAGE)} [{code_outside_tables(problem.rule)}]"


def _dangers(
    plan: Plan,
    rows: Callable[[tuple[Loss, ...]], Iterator[str]],
    changes: Callable[[tuple[DeclaredChange, ...]], Iterator[str]],
    most: int,
) -> str:
    """Return whether the brake stops it, everything that is destroyed, or may be, everything that says who may do what, and what files outside the
    declarations decide, the first `most` of each with their names."""
    lost = (("Destroyed", plan.losses), ("Perhaps destroyed", plan.perhaps_lost))
    blocks = [("The brake", iter((f"- {plain(plan.brake.forecast, _WHOLE)}",)))] if plan.brake else []
    blocks += [(title, rows(losses)) for title, losses in lost if losses]
    blocks += [(title, changes(declared_changes)) for title, declared_changes in decisive(plan)]
    if decided := [f"- {words}" for words in outside(plan, code, most)]:
        blocks.append((OUTSIDE, iter(decided)))
    return "\n\n".join(f"#### ⚠️ {title}\n\n" + "\n".join(items) for title, items in blocks)


def _each_change(declared_changes: tuple[DeclaredChange, ...]) -> Iterator[str]:
    return (
        f"- {code_outside_tables(change.path, _MESSAGE)}: {code_outside_tables(change.words, _WHOLE)}"
        for change in declared_changes
    )


def _of_file(declared_changes: tuple[DeclaredChange, ...]) -> Iterator[str]:
    """Yield each file once, with all its changes."""
    by_path: dict[str, list[str]] = {}
    for change in declared_changes:
        by_path.setdefault(change.path, []).append(change.words)
    for path, words in by_path.items():
        yield f"- {code(path, _MESSAGE)}: {code('; '.join(words), _WHOLE)}"


def _each(losses: tuple[Loss, ...]) -> Iterator[str]:
    return (f"- {code(loss.what, _MESSAGE)} {loss.words}" for loss in losses)


def _alike(losses: tuple[Loss, ...]) -> Iterator[str]:
    """Yield what happens, alike said once, with all that it happens to."""
    alike: dict[str, list[str]] = {}
    for loss in losses:
        alike.setdefault(loss.words, []).append(loss.what)
    for words, whats in sorted(alike.items()):
        yield f"- {words}: {', '.join(code(subject, _MESSAGE) for subject in whats)}"


def _sections(plan: Plan) -> Iterator[_Section]:
    for plan_table in tables(plan):
        rows = table(plan_table.heads, [_cells(plan_table, row) for row in plan_table.rows])
        totals = [f"| {' | '.join(f'**{cell}**' if cell else '' for cell in row)} |" for row in plan_table.totals]
        note = "\n".join([*totals, *(f"\n{words}" for words in plan_table.note.splitlines())])
        yield _Section(
            plan_table.title,
            f"#### {plan_table.title}\n\n{rows[0]}\n{rows[1]}",
            rows[2:],
            note,
            "row",
            hidden=plan_table.hidden,
        )
    for title, diffs in (("Declarations", plan.declarations), ("Objects", plan.objects)):
        items = [_diff(diff) for diff in diffs]
        count = plan.files.of_objects if title == "Objects" else plan.declared_files
        if items:
            header = f"<details><summary>{title}: {count:,} file{'' if count == 1 else 's'}</summary>"
            yield _Section(
                title=title,
                before=header,
                items=items,
                after="\n</details>",
                noun="file",
                joint="\n\n",
                hidden=count - len(items),
            )


def _cells(plan_table: Table, row: tuple[str, ...]) -> list[str]:
    return [cell if at in plan_table.figures else code(cell, 400) for at, cell in enumerate(row)]


def _diff(diff: Diff) -> str:
    return f"{code(diff.path)}\n\n{fenced(diff_lines(diff), 'diff')}"


def _fitting(section: _Section, room: int) -> str:
    """Return a section with as many of its items as there is room for, and how many there are besides."""
    if not section.items:
        return ""
    size = _size(section.before) + _size(section.after) + _NOTE
    shown_items: list[str] = []
    for item in section.items:
        size += _size(item) + len(section.joint)
        if size > room:
            break
        shown_items.append(item)
    more = len(section.items) - len(shown_items) + section.hidden
    if not more:
        return section.joint.join([section.before, *shown_items]) + f"\n{section.after}".rstrip("\n")
    words = f"{section.title}: {more:,} {section.noun}{'' if more == 1 else 's'} left out for their size"
    if not shown_items:
        return f"*{words}*" if room > _NOTE else ""
    return section.joint.join([section.before, *shown_items]) + f"\n{section.after}".rstrip("\n") + f"\n\n*{words}*"

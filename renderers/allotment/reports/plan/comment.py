"""Render a plan as one comment on a pull request.

The comment fits the forge's size limit. Text from tenants is displayed literally. The destructions and the changed
permissions are never truncated: if they don't fit, the comment says instead that the plan can't be merged. New Members URLs
share an item, which names the first of them. Other lists, such as the missing approvals, are truncated if they don't fit. The
comment then states the number of omitted items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from allotment.diff.change_plan import ChangePlan, LossOutput
from allotment.diff.declared_change import NEVER_TRUNCATED
from allotment.diff.file_diff import FileDiff
from allotment.diff.other_files import MAX_SHOWN_PER_TOPIC
from allotment.problems import Problem, pluralize
from allotment.reports.markdown import code_block, code_span, code_span_outside_tables, escape_markdown, markdown_table
from allotment.reports.plan.rows import (
    OTHER_FILES_TITLE,
    Table,
    decisive_changes,
    diff_lines,
    effects_text,
    files_text,
    merge_lines,
    other_file_lines,
    plan_tables,
)
from allotment.reports.plan.text import origin_text

MARKER = "<!-- allotment:plan -->"
_NOTE_LENGTH = 160  # bytes for the note on omitted items
_MESSAGE_LENGTH = 2_000
_PATH_LENGTH = 400  # characters of a path or field
_APPROVALS_BYTES = 8_000  # bytes of missing approvals
_MAX_SKIPPED = 10  # the comment names at most this many of the checks that did not run
_MAX_OTHER_FILES = 3  # if space is short, the comment names this many files of each topic
_UNLIMITED = 1 << 20  # characters, for text that must not be truncated


class PlanComment(NamedTuple):
    """The text of a comment.

    If the destructions or the changed permissions do not fit into the text, `is_complete` is false. In this case, the
    plan must not be reported as mergeable.
    """

    text: str
    is_complete: bool


class _Section(NamedTuple):
    """A part of the comment: its items, the text before and after them, and a noun for the items."""

    title: str
    header: str
    items: list[str]
    footer: str
    noun: str
    separator: str = "\n"
    hidden_count: int = 0  # items that are not in `items`


def render_comment(plan: ChangePlan, limit: int) -> PlanComment:
    """Return the comment of a plan, at most `limit` bytes."""
    head = "\n\n".join([MARKER, *_comment_head(plan, min(_APPROVALS_BYTES, limit // 4))])
    tail = f"{files_text(plan)}\n\nChecksum {code_span(plan.checksum or 'none')}."
    room = limit - _byte_length(head) - _byte_length(tail) - 2 * _NOTE_LENGTH
    dangers = _danger_text(plan, _loss_items, _change_items, MAX_SHOWN_PER_TOPIC)
    if _byte_length(dangers) > room:
        dangers = _danger_text(plan, _group_alike_losses, _group_by_file, _MAX_OTHER_FILES)
    if _byte_length(dangers) > room:
        return PlanComment(f"{head}\n\n{_too_many_notice(plan)}\n\n{tail}\n", False)
    problems = _fit_section(_problem_section(plan), room - _byte_length(dangers))
    parts = [part for part in (head, problems, dangers) if part]
    remaining = limit - _byte_length("\n\n".join([*parts, tail])) - 1
    for section in _comment_sections(plan):
        if part := _fit_section(section, remaining - 2):
            parts.append(part)
            remaining -= _byte_length(part) + 2
    return PlanComment("\n\n".join([*parts, tail]) + "\n", True)


def _too_many_notice(plan: ChangePlan) -> str:
    count, opened = (
        len(plan.destructions) + len(plan.possible_destructions),
        len(plan.changes_of_topics(*NEVER_TRUNCATED)),
    )
    does = [f"destroys {count:,} resources"] if count else []
    does += [f"changes permissions in {pluralize(opened, 'place')}"] if opened else []
    return f"It {' and '.join(does)}, more than a comment can list, so it **can't be merged**: split it."


def _byte_length(text: str) -> int:
    return len(text.encode())


def _comment_head(plan: ChangePlan, approvals: int) -> Iterator[str]:
    """Yield the start of the comment, with at most `approvals` bytes of missing approvals."""
    sign = "✅" if plan.is_allowed else "❌"
    yield f"### {sign} This {plan.summary}"
    yield f"{_origin_text(plan)}."
    if words := effects_text(plan):
        yield words
    yield from merge_lines(plan, lambda text: code_span(text, _MESSAGE_LENGTH))
    if plan.missing_approvals:
        lines = [_problem_item(problem) for problem in plan.missing_approvals]
        yield _fit_section(_Section("Missing approvals", "#### Missing approvals\n", lines, "", "approval"), approvals)
    elif plan.missing_approvals is not None:
        yield "No approval is missing."
    notes = [f"- not checked: {code_span(words)}" for words in plan.skipped_checks[:_MAX_SKIPPED]]
    if (more := len(plan.skipped_checks) - _MAX_SKIPPED) > 0:
        notes.append(f"- not checked: {more:,} more")
    if plan.preexisting_problems:
        notes.append(f"- left out: {pluralize(plan.preexisting_problems, 'problem')} of the base branch")
    if notes:
        yield "\n".join(notes)


def _origin_text(plan: ChangePlan) -> str:
    if plan.work_tree is None:
        return f"Plan of {code_span(plan.head[:12])} merged into {code_span(plan.base[:12])}"
    return code_span(origin_text(plan))


def _problem_section(plan: ChangePlan) -> _Section:
    approvals = frozenset(plan.missing_approvals or ())
    lines = [_problem_item(problem) for problem in plan.problems if problem not in approvals]
    return _Section("Problems", "#### Problems\n", lines, "", "problem")


def _problem_item(problem: Problem) -> str:
    """Return a problem as a list item. All text that a tenant may have written is in code spans."""
    place = code_span_outside_tables(
        f"{problem.path[:_PATH_LENGTH]}:{problem.line}:{problem.column}", _PATH_LENGTH + _NOTE_LENGTH
    )
    warning = "warning: " if problem.warning else ""
    return f"- **{place}** {code_span_outside_tables(problem.field, _PATH_LENGTH)}: {warning}{code_span_outside_tables(problem.message, _MESSAGE_LENGTH)} [{code_span_outside_tables(problem.rule)}]"


def _danger_text(
    plan: ChangePlan,
    rows: Callable[[tuple[LossOutput, ...]], Iterator[str]],
    changes: Callable[[Sequence[tuple[str, str]]], Iterator[str]],
    most: int,
) -> str:
    """Return everything that each reader must see, under titles.

    The text includes the brake's refusal, all destructions and possible destructions, and all changed permissions. It
    also includes the changed files outside the declarations that affect a topic, such as CI; of each topic, it names
    the first `most` files. `rows` renders destructions, and `changes` renders changed permissions.
    """
    blocks = (
        [("The brake", iter((f"- {escape_markdown(plan.brake_excess.plan_message, _UNLIMITED)}",)))]
        if plan.brake_excess
        else []
    )
    blocks += [(title, rows(losses)) for title, losses in plan.destruction_groups]
    blocks += [(title, changes(texts)) for title, texts in decisive_changes(plan)]
    if decided := [f"- {words}" for words in other_file_lines(plan, code_span, most)]:
        blocks.append((OTHER_FILES_TITLE, iter(decided)))
    return "\n\n".join(f"#### ⚠️ {title}\n\n" + "\n".join(items) for title, items in blocks)


def _change_items(texts: Sequence[tuple[str, str]]) -> Iterator[str]:
    return (
        f"- {code_span_outside_tables(path, _MESSAGE_LENGTH)}: {code_span_outside_tables(text, _UNLIMITED)}"
        for path, text in texts
    )


def _group_by_file(texts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield one list item for each file, with all its changes."""
    by_path: dict[str, list[str]] = {}
    for path, text in texts:
        by_path.setdefault(path, []).append(text)
    for path, words in by_path.items():
        yield f"- {code_span(path, _MESSAGE_LENGTH)}: {code_span('; '.join(words), _UNLIMITED)}"


def _loss_items(losses: tuple[LossOutput, ...]) -> Iterator[str]:
    return (f"- {code_span(loss.subject, _MESSAGE_LENGTH)} {loss.message}" for loss in losses)


def _group_alike_losses(losses: tuple[LossOutput, ...]) -> Iterator[str]:
    """Yield one list item for each kind of loss, with all resources that lose data or processes in this way."""
    alike: dict[str, list[str]] = {}
    for loss in losses:
        alike.setdefault(loss.message, []).append(loss.subject)
    for words, whats in sorted(alike.items()):
        yield f"- {words}: {', '.join(code_span(subject, _MESSAGE_LENGTH) for subject in whats)}"


def _comment_sections(plan: ChangePlan) -> Iterator[_Section]:
    for plan_table in plan_tables(plan):
        rows = markdown_table(plan_table.heads, [_row_cells(plan_table, row) for row in plan_table.rows])
        totals = [f"| {' | '.join(f'**{cell}**' if cell else '' for cell in row)} |" for row in plan_table.total_rows]
        note = "\n".join([*totals, *(f"\n{words}" for words in plan_table.note.splitlines())])
        yield _Section(
            plan_table.title,
            f"#### {plan_table.title}\n\n{rows[0]}\n{rows[1]}",
            rows[2:],
            note,
            "row",
            hidden_count=plan_table.hidden_rows,
        )
    for title, diffs in (("Declarations", plan.declaration_diffs), ("Objects", plan.object_diffs)):
        items = [_diff_block(diff) for diff in diffs]
        count = plan.files.object_files if title == "Objects" else plan.files.declared
        if items:
            header = f"<details><summary>{title}: {count:,} file{'' if count == 1 else 's'}</summary>"
            yield _Section(
                title=title,
                header=header,
                items=items,
                footer="\n</details>",
                noun="file",
                separator="\n\n",
                hidden_count=count - len(items),
            )


def _row_cells(plan_table: Table, row: tuple[str, ...]) -> list[str]:
    return [cell if at in plan_table.numeric_columns else code_span(cell, 400) for at, cell in enumerate(row)]


def _diff_block(diff: FileDiff) -> str:
    return f"{code_span(diff.path)}\n\n{code_block(diff_lines(diff), 'diff')}"


def _fit_section(section: _Section, room: int) -> str:
    """Return a section with as many items as fit into `room` bytes, and the number of the omitted items."""
    if not section.items:
        return ""
    size = _byte_length(section.header) + _byte_length(section.footer) + _NOTE_LENGTH
    shown_items: list[str] = []
    for item in section.items:
        size += _byte_length(item) + len(section.separator)
        if size > room:
            break
        shown_items.append(item)
    more = len(section.items) - len(shown_items) + section.hidden_count
    if not more:
        return section.separator.join([section.header, *shown_items]) + f"\n{section.footer}".rstrip("\n")
    words = f"{section.title}: {more:,} {section.noun}{'' if more == 1 else 's'} left out for their size"
    if not shown_items:
        return f"*{words}*" if room > _NOTE_LENGTH else ""
    return (
        section.separator.join([section.header, *shown_items]) + f"\n{section.footer}".rstrip("\n") + f"\n\n*{words}*"
    )

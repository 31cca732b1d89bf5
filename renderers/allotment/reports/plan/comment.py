"""A plan as one comment on a pull request: within the forge's limit, and inert whatever a tenant writes.

The verdict and what is destroyed are always there. Of everything else whole items are left out, from the end, and
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from allotment.changes.plan import Diff, Loss, Plan
from allotment.reports.markdown import code, fenced, table, visible
from allotment.reports.plan.rows import Table, diff_lines, tables

MARKER = "<!-- allotment:plan -->"
_NOTE = 160  # bytes that are kept for saying what is left out
_MESSAGE = 2_000


class PlanText(NamedTuple):
    """A comment's text; `whole` is false where what is destroyed doesn't fit, which no verdict can stand beside."""

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


def comment(plan: Plan, limit: int) -> PlanText:
    """Return a plan's comment, of at most `limit` bytes."""
    head = "\n\n".join([MARKER, *_head(plan)])
    losses = _losses(plan, _each)
    room = limit - _size(head) - _NOTE
    if _size(losses) > room:
        losses = _losses(plan, _alike)
    if _size(losses) > room:
        count = len(plan.losses) + len(plan.perhaps_lost)
        words = (
            f"It destroys {count:,} things, more than a comment here can name, so it **can't be merged** like this:"
            " split it."
        )
        return PlanText(f"{head}\n\n{words}\n", False)
    problems = _fitting(_problems(plan), room - _size(losses))
    parts = [part for part in (head, problems, losses) if part]
    left = limit - _size("\n\n".join(parts))
    for section in _sections(plan):
        if part := _fitting(section, left - 2):
            parts.append(part)
            left -= _size(part) + 2
    return PlanText("\n\n".join(parts) + "\n", True)


def _size(text: str) -> int:
    return len(text.encode())


def _head(plan: Plan) -> Iterator[str]:
    sign = "✅" if plan.allowed else "❌"
    yield f"### {sign} This {plan.verdict}"
    yield f"Plan of {code(plan.head[:12])} merged into {code(plan.base[:12])}, checksum {code(plan.checksum or 'none')}."
    notes = [f"- skipped: {code(words)}" for words in plan.skipped[:10]]
    if plan.standing:
        notes.append(f"- {plan.standing:,} problem(s) of the base itself are left out")
    if notes:
        yield "\n".join(notes)


def _problems(plan: Plan) -> _Section:
    lines = [visible(" ".join(str(one)[:_MESSAGE].split("\n"))) for one in plan.problems]
    fence = fenced(lines).split("\n", 1)[0]
    return _Section("Problems", f"{fence}text", lines, fence, "problem")


def _losses(plan: Plan, rows: Callable[[tuple[Loss, ...]], Iterator[str]]) -> str:
    """Return everything that is destroyed, or may be."""
    several = (("Destroyed", plan.losses), ("Perhaps destroyed", plan.perhaps_lost))
    return "\n\n".join(f"#### ⚠️ {title}\n\n" + "\n".join(rows(losses)) for title, losses in several if losses)


def _each(losses: tuple[Loss, ...]) -> Iterator[str]:
    return (f"- {code(loss.what, _MESSAGE)} {loss.words}" for loss in losses)


def _alike(losses: tuple[Loss, ...]) -> Iterator[str]:
    """Yield what happens, alike said once, with all that it happens to."""
    alike: dict[str, list[str]] = {}
    for loss in losses:
        alike.setdefault(loss.words, []).append(loss.what)
    for words, whats in sorted(alike.items()):
        yield f"- {words}: {', '.join(code(one, _MESSAGE) for one in whats)}"


def _sections(plan: Plan) -> Iterator[_Section]:
    for one in tables(plan):
        rows = table(one.heads, [_cells(one, row) for row in one.rows])
        note = f"\n{one.note}" if one.note else ""
        yield _Section(one.title, f"#### {one.title}\n\n{rows[0]}\n{rows[1]}", rows[2:], note, "row")
    for title, diffs in (("Declarations", plan.declarations), ("Objects", plan.objects)):
        items = [_diff(one) for one in diffs]
        count = plan.changed_files if title == "Objects" else len(diffs)
        if items:
            before = f"<details><summary>{title}: {count:,} file{'' if count == 1 else 's'}</summary>"
            yield _Section(title, before, items, "\n</details>", "file", "\n\n")


def _cells(one: Table, row: tuple[str, ...]) -> list[str]:
    return [cell if at in one.figures else code(cell, 400) for at, cell in enumerate(row)]


def _diff(one: Diff) -> str:
    return f"{code(one.path)}\n\n{fenced(diff_lines(one), 'diff')}"


def _fitting(section: _Section, room: int) -> str:
    """Return a section with as many of its items as there is room for, and how many there are besides."""
    if not section.items:
        return ""
    size = _size(section.before) + _size(section.after) + _NOTE
    kept: list[str] = []
    for item in section.items:
        size += _size(item) + len(section.joint)
        if size > room:
            break
        kept.append(item)
    if len(kept) == len(section.items):
        return section.joint.join([section.before, *kept]) + f"\n{section.after}".rstrip("\n")
    more = len(section.items) - len(kept)
    words = f"{section.title}: {more:,} {section.noun}{'' if more == 1 else 's'} left out for their size"
    if not kept:
        return f"*{words}*" if room > _NOTE else ""
    return section.joint.join([section.before, *kept]) + f"\n{section.after}".rstrip("\n") + f"\n\n*{words}*"

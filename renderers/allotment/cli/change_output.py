"""Prints the difference, the plan and the result of a change."""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

import click

from allotment.cli.change_options import ChangeOptions, Confirm, InvalidChange
from allotment.cli.options import is_quiet, print_note
from allotment.edits.change_set import ChangeSet
from allotment.edits.operation_id import name_operation_branch
from allotment.problems import escape_unprintable, pluralize

if TYPE_CHECKING:
    from allotment.reports.outputs.change import ChangeOutcome, ChangeStage
    from allotment.services.changes.change_target import PlannedChange
    from allotment.services.changes.operations import RepeatedChange


class ChangeResult(NamedTuple):
    """The result of a command: the change, the former contents of its files, and how far the change went.

    `repeated_in` is the place of the first use of the operation ID; empty for a first use.
    """

    change_set: ChangeSet
    before: Mapping[str, bytes | None]
    stage: ChangeStage
    branch: str | None = None
    url: str | None = None
    repeated_in: str = ""
    outcome: ChangeOutcome | None = None

    @classmethod
    def of_repeated(
        cls, repeated: RepeatedChange, stage: ChangeStage, operation_id: str = "", url: str | None = None
    ) -> Self:
        """Return the result of an earlier command. `operation_id` names its branch; empty for a change of a folder."""
        branch = name_operation_branch(operation_id) if operation_id else None
        return cls(repeated.change_set, repeated.before, stage, branch, url, repeated.use.place)


def review(planned: PlannedChange, options: ChangeOptions, confirm: Confirm | None) -> bool:
    """Print the difference and the plan of a change. Return whether there is something to apply, after `confirm`."""
    if planned.errors:
        lines = "\n".join(str(problem) for problem in planned.errors)
        raise InvalidChange(f"the change is invalid, so nothing was changed:\n{lines}")
    is_empty = not planned.change_set.files
    is_shown = options.is_dry_run or not (is_quiet() or options.is_reviewed)
    if options.style == "text" and not is_empty and is_shown:
        for line in _diff_lines(planned):
            click.echo(line)
        _print_plan(planned)
    if is_empty or options.is_dry_run:
        print_result(options, ChangeResult(planned.change_set, planned.before, "None"))
        return False
    if confirm is not None:
        confirm()
    return True


def _diff_lines(planned: PlannedChange) -> Iterator[str]:
    """Yield the unified difference of each file, in colour."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for path, after in sorted(planned.change_set.files.items()):
        before = planned.before[path]
        old, new = ("/dev/null" if data is None else path for data in (before, after))
        for line in difflib.unified_diff(_split(before), _split(after), old, new, lineterm=""):
            yield click.style(escape_unprintable(line, 1000), fg=colours.get(line[:1]))


def _split(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()


def _print_plan(planned: PlannedChange) -> None:
    from allotment.cli.plan import STYLES
    from allotment.reports.plan.text import effect_lines

    if planned.plan is None:
        return
    click.echo()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in effect_lines(planned.plan, width=width):
        click.echo(click.style(line.text, **STYLES[line.style]) if line.style else line.text)


def print_result(options: ChangeOptions, result: ChangeResult) -> None:
    """Print the result of the command, and the next step."""
    if options.style == "json":
        _print_json(result)
        return
    for note in result.change_set.notes:
        print_note(note)
    if result.repeated_in:
        where = escape_unprintable(result.repeated_in, 400)
        print_note(f"{result.change_set.title}: an earlier command with this operation ID did this, in {where}")
    else:
        print_note(_describe(result))
    if result.url:
        click.echo(escape_unprintable(result.url, 1000))


def print_moved(paths: list[str]) -> None:
    """Print which new files the command moved from the folder to its branch."""
    if paths:
        print_note(f"The folder no longer has {', '.join(paths)}, so that `git pull` can add them after the merge.")


def _describe(result: ChangeResult) -> str:
    """Return the result in words, with the next step."""
    title, count = result.change_set.title, pluralize(len(result.change_set.files), "file")
    if not result.change_set.files:
        return "nothing changes: the declarations have these values already"
    match result.stage:
        case "None":
            return f"{count} would change; without --dry-run, the command writes them"
        case "Folder":
            return f"{title}: {count} changed. With --commit, the command also commits; with --pr, it opens a pull request."
        case "Commit":
            return f"{title}: {count} committed. Push it to a branch, as with `git push origin HEAD:my-change`, and open a pull request. With --pr, the command does both."
        case "Branch":
            return f"{title}: pushed to {result.branch}. Open a pull request for this branch."
        case "PullRequest":
            return f"{title}: pushed to {result.branch}, with this pull request:"


def _print_json(result: ChangeResult) -> None:
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.change import ChangedFileOutput, ChangeOutput

    files = tuple(
        ChangedFileOutput(
            path=path, action="Removed" if data is None else "Added" if result.before[path] is None else "Changed"
        )
        for path, data in sorted(result.change_set.files.items())
    )
    output = ChangeOutput(
        stage=result.stage,
        title=result.change_set.title,
        files=files,
        resources=result.change_set.resources,
        notes=result.change_set.notes,
        branch=result.branch,
        url=result.url,
        outcome=result.outcome,
    )
    click.echo(as_json(output), nl=False)

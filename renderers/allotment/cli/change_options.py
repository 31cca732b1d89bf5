"""The options and the course of every command that edits declarations: diff, plan, commit, push, pull request."""

from __future__ import annotations

import difflib
import functools
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from allotment.cli.options import (
    choose_day,
    create_cache_opener,
    find_repository,
    output_option,
    print_note,
    repository_option,
)
from allotment.problems import AllotmentError, escape_unprintable, pluralize

if TYPE_CHECKING:
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations
    from allotment.services.changes.branch_change import PushedBranch
    from allotment.services.changes.change_target import PlannedChange

Stage = Literal["None", "Folder", "Commit", "Branch", "PullRequest"]


class ChangeOptions(NamedTuple):
    """How far a command takes its change: to the folder, a commit, or a pushed branch."""

    repo: Path | None
    commits: bool
    pushes: bool
    is_dry_run: bool
    style: str


class InvalidChange(AllotmentError):
    """The declarations would be invalid after the change."""

    exit_code = 2


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a change. The command gets them as its parameter `options`."""

    @functools.wraps(command)
    def run(*, repo: Path | None, commits: bool, pushes: bool, is_dry_run: bool, style: str, **values: Any) -> Any:
        if commits and pushes:
            raise click.UsageError("--commit and --push exclude each other: omit one of them")
        return command(options=ChangeOptions(repo, commits, pushes, is_dry_run, style), **values)

    for option in (
        repository_option,
        output_option(),
        click.option("--dry-run", "is_dry_run", is_flag=True, help="Only print the difference and the plan."),
        click.option(
            "--push",
            "pushes",
            is_flag=True,
            help="Push one commit on top of the target branch, as a new branch of origin. The folder does not change.",
        ),
        click.option(
            "--commit", "commits", is_flag=True, help="Commit the changed files, and no others, on the current branch."
        ),
    ):
        run = option(run)
    return run


def run_change(options: ChangeOptions, build: Callable[[Declarations], ChangeSet]) -> None:
    """Build a change from the declarations, print its difference and its plan, and apply it.

    Raises InvalidChange, and changes nothing, if the change causes an error in the declarations.
    """
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.services.changes.change_target import BranchTarget, FolderTarget

    root = find_repository(options.repo)
    opener = create_cache_opener(root, "-plan")

    def day(source: Any) -> Any:
        return choose_day(source, None)

    if options.pushes:
        branch_target = BranchTarget(root, Remote(Repository(root), "origin", keep=True), day, opener)
        planned = branch_target.plan(build(branch_target.declarations))
        if _show(planned, options):
            pushed = branch_target.push(planned.change_set)
            _print_result(options, planned, "Branch", pushed)
        return
    target = FolderTarget(root, day, opener)
    planned = target.plan(build(target.declarations))
    if _show(planned, options):
        target.write(planned)
        if options.commits:
            target.commit(planned.change_set)
        _print_result(options, planned, "Commit" if options.commits else "Folder")


def _show(planned: PlannedChange, options: ChangeOptions) -> bool:
    """Print the difference and the plan of a change. Return whether there is something to apply."""
    if planned.errors:
        lines = "\n".join(str(problem) for problem in planned.errors)
        raise InvalidChange(f"the change is invalid, so nothing was changed:\n{lines}")
    is_empty = not planned.change_set.files
    if options.style == "text" and not is_empty:
        for line in _diff_lines(planned):
            click.echo(line)
        _print_plan(planned)
    if is_empty or options.is_dry_run:
        _print_result(options, planned, "None")
    return not (is_empty or options.is_dry_run)


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


def _print_result(
    options: ChangeOptions, planned: PlannedChange, stage: Stage, pushed: PushedBranch | None = None
) -> None:
    """Print the result of the command, and the next step."""
    change_set = planned.change_set
    if options.style == "json":
        _print_json(planned, stage, pushed)
        return
    for note in change_set.notes:
        print_note(note)
    count = pluralize(len(change_set.files), "file")
    if not change_set.files:
        print_note("nothing changes: the declarations have these values already")
    elif stage == "None":
        print_note(f"{count} would change; without --dry-run, the command writes them")
    elif stage == "Folder":
        print_note(f"{change_set.title}: {count} changed. Add --commit to commit them, or --push to propose them.")
    elif stage == "Commit":
        print_note(f"{change_set.title}: {count} committed. Run `git push`, and open a pull request.")
    elif pushed is not None:
        print_note(f"{change_set.title}: pushed to {pushed.branch}. Open a pull request for this branch.")


def _print_json(planned: PlannedChange, stage: Stage, pushed: PushedBranch | None) -> None:
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.change import ChangedFileOutput, ChangeOutput

    files = tuple(
        ChangedFileOutput(
            path=path, action="Removed" if data is None else "Added" if planned.before[path] is None else "Changed"
        )
        for path, data in sorted(planned.change_set.files.items())
    )
    output = ChangeOutput(
        stage=stage,
        title=planned.change_set.title,
        files=files,
        resources=planned.change_set.resources,
        notes=planned.change_set.notes,
        branch=pushed.branch if pushed else None,
    )
    click.echo(as_json(output), nl=False)

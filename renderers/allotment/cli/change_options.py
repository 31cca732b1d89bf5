"""Defines the options of every command that edits declarations, and opens the folder or the branch that they name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from allotment.cli.comment_options import forge_api_option
from allotment.cli.options import Period, choose_day, create_cache_opener, find_repository, output_option
from allotment.problems import AllotmentError, quote_value

if TYPE_CHECKING:
    from allotment.adapters.git.remote import Remote
    from allotment.edits.declarations import Declarations
    from allotment.services.changes.change_target import BranchTarget, FolderTarget, PlanCaches

DEFAULT_TIMEOUT = 3600  # seconds
Confirm = Callable[[], object]
CheckFirst = Callable[["Declarations"], object]
"""Raises OperationRefused if the change can't be made now. A repeat of a change that was made does not call it."""


class ChangeOptions(NamedTuple):
    """How far a command takes its change: to the folder, a commit, a pushed branch, or a pull request.

    `url` is the URL of the repository if the command has no folder. `timeout` is in seconds. `is_reviewed` is true if the
    person has seen the difference and the plan already.
    """

    repo: Path | None
    commits: bool
    pushes: bool
    is_dry_run: bool
    style: str
    proposes: bool = False
    uses_fork: bool = False
    waits: bool = False
    timeout: int = DEFAULT_TIMEOUT
    operation_id: str = ""
    url: str | None = None
    forge_api: str | None = None
    is_reviewed: bool = False

    @property
    def changes_folder(self) -> bool:
        """Whether the command changes the folder, and not the target branch at the remote."""
        return not (self.pushes or self.proposes or self.url)


class InvalidChange(AllotmentError):
    """The declarations would be invalid after the change."""

    exit_code = 2


class _FolderOrUrl(click.Path):
    """A folder, or the URL of a repository, such as https://HOST/OWNER/NAME. The value is a Path or a str."""

    name = "folder or URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            from allotment.services.changes.remote_clone import is_repository_url

            if not is_repository_url(value):
                self.fail(f"{value!r} is no URL of a repository: write https://HOST/OWNER/NAME", param, ctx)
            return value
        return super().convert(value, param, ctx)


place_option = click.option(
    "--repo",
    envvar="ALLOT_REPO",
    type=_FolderOrUrl(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY|URL",
    help="The repository, or its URL to work without a folder. Default: $ALLOT_REPO, or the repository of the current"
    " folder.",
)


_DECORATORS: tuple[Callable[..., Any], ...] = (
    place_option,
    output_option(),
    click.option("--dry-run", "is_dry_run", is_flag=True, help="Only print the difference and the plan."),
    forge_api_option,
    click.option(
        "--operation-id",
        metavar="ID",
        envvar="ALLOT_OPERATION_ID",
        default="",
        help="An ID of this change, 8 to 63 characters. The same command with the same ID changes nothing more, and"
        " prints the same answer. Default: $ALLOT_OPERATION_ID.",
    ),
    click.option(
        "--timeout",
        type=Period(),
        default="1h",
        show_default=True,
        help="The maximum time of --wait, such as 1h30m.",
    ),
    click.option(
        "--wait",
        "waits",
        is_flag=True,
        help="With --pr: wait until the pull request is merged and its change has taken effect.",
    ),
    click.option(
        "--fork",
        "uses_fork",
        is_flag=True,
        help="With --pr: push to your fork. --pr also does this if you may not push to the repository.",
    ),
    click.option(
        "--pr",
        "proposes",
        is_flag=True,
        help="Push a branch, and open a pull request, with the forge's token in $ALLOT_FORGE_TOKEN.",
    ),
    click.option(
        "--push",
        "pushes",
        is_flag=True,
        help="Push one commit on top of the target branch, as a new branch of origin. Of the folder, only new"
        " files of an earlier run of this command are removed.",
    ),
    click.option(
        "--commit", "commits", is_flag=True, help="Commit the changed files, and no others, on the current branch."
    ),
)


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a change. The command gets them as its parameter `options`."""

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        _check_texts(values)
        fields = {name: values.pop(name) for name in ChangeOptions._fields if name not in ("url", "is_reviewed")}
        place = fields["repo"]
        fields |= {"repo": None, "url": place} if isinstance(place, str) else {"url": None}
        options = ChangeOptions(**fields)
        _check_options(options)
        return command(options=options, **values)

    for option in _DECORATORS:
        run = option(run)
    return run


def _check_texts(values: dict[str, Any]) -> None:
    """Raise UsageError if an argument or an option has bytes that are not UTF-8: Git and YAML can't store them."""
    for value in values.values():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and not _is_utf8(text):
                raise click.UsageError(f"{quote_value(text)} is not UTF-8: write another text")


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_options(options: ChangeOptions) -> None:
    chosen = [
        name
        for name, is_set in (("--commit", options.commits), ("--push", options.pushes), ("--pr", options.proposes))
        if is_set
    ]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} exclude each other: use only one of them")
    for name, is_set in (("--wait", options.waits), ("--fork", options.uses_fork)):
        if is_set and not options.proposes:
            raise click.UsageError(f"{name} needs --pr")
    if options.url and not (options.pushes or options.proposes or options.is_dry_run):
        raise click.UsageError("--repo URL has no folder to change: add --push or --pr")
    if options.operation_id:
        from allotment.edits.operation_id import check_operation_id

        check_operation_id(options.operation_id)


def _choose_day(source: Any) -> Any:
    return choose_day(source, None)


def _open_caches(root: Path) -> PlanCaches:
    from allotment.services.changes.change_target import PlanCaches

    return PlanCaches(create_cache_opener(root, "-plan"), create_cache_opener(root, "-tree"))


def open_folder_target(options: ChangeOptions) -> FolderTarget:
    from allotment.services.changes.folder_comparison import start_comparison

    root = find_repository(options.repo)
    comparison = start_comparison(root)  # before the import of most modules, which takes as long
    from allotment.services.changes.change_target import FolderTarget

    return FolderTarget(root, _choose_day, _open_caches(root), comparison, options.operation_id)


def find_change_root(options: ChangeOptions) -> Path:
    """Return the folder of the repository, or of its clone if the options name a URL. The clone may not exist yet."""
    if options.url is None:
        return find_repository(options.repo)
    from allotment.services.changes.remote_clone import name_clone_folder

    return name_clone_folder(options.url)


def open_branch_target(options: ChangeOptions) -> BranchTarget:
    """Return the target branch of the repository: at origin of the folder, or at the URL."""
    from allotment.services.changes.change_target import BranchTarget

    root, remote = _open_remote(options)
    return BranchTarget(root, remote, _choose_day, _open_caches(root), options.operation_id)


def _open_remote(options: ChangeOptions) -> tuple[Path, Remote]:
    if options.url is not None:
        from allotment.services.changes.remote_clone import open_remote_clone

        return open_remote_clone(options.url)
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository

    root = find_repository(options.repo)
    return root, Remote(Repository(root), "origin", keep=True)

"""`allot plan`: shows the effects of a change before anybody merges it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options import (
    EXIT_WITH_WARNINGS,
    Day,
    choose_day,
    create_cache_opener,
    find_repository,
    output_option,
    repository_option,
)

if TYPE_CHECKING:
    import datetime

    from allotment.declared.people import Account
    from allotment.diff.change_plan import ChangePlan
    from allotment.services.pull_requests.merge_plan import ReviewContext

# The most bytes of a plan in Markdown. GitHub has the lowest limit of the forges, 65,536 characters.
COMMENT_BYTES = 60_000
STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warn": {"fg": "yellow"},
    "dim": {"dim": True},
}


class ForgeTeam(click.ParamType["tuple[str, frozenset[Account]]"]):
    """A team of the forge with its members, such as @acme/platform=ann,bob."""

    name = "team"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, frozenset[Account]]:
        from allotment.declared.people import parse_account

        team, equals, logins = str(value).partition("=")
        if not equals or not team.startswith("@"):
            self.fail(
                f"{value!r} is not in the format TEAM=MEMBERS: write for example @acme/platform=ann,bob", param, ctx
            )
        return team, frozenset(parse_account(login) for login in logins.split(",") if login)


@click.command()
@click.option(
    "--base",
    metavar="REF",
    help="The commit to merge into. Default: the branch of declarations at origin, as last fetched.",
)
@click.option("--head", metavar="REF", help="The commit to merge. Default: the current folder.")
@output_option("markdown")
@click.option("--diffs", is_flag=True, help="Also show the difference of every file, as the other formats do.")
@click.option(
    "--author",
    metavar="LOGIN",
    help="The author of the change at the forge. The plan then checks permissions and approvals.",
)
@click.option(
    "--pushed-by",
    "pushers",
    multiple=True,
    metavar="LOGIN",
    help="Another person who pushed to the change; may be given again.",
)
@click.option(
    "--approved-by",
    "approvers",
    multiple=True,
    metavar="LOGIN",
    help="A person who approved the change; may be given again.",
)
@click.option(
    "--team",
    "teams",
    multiple=True,
    type=ForgeTeam(),
    metavar="@ORG/TEAM=LOGIN,…",
    help="The members of a team of the forge.",
)
@click.option(
    "--as-of",
    type=Day(),
    help="Use the prices of this day. Default: today in the billing time zone. A new price still begins tomorrow at the"
    " earliest.",
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 4 instead of 0 if the change can be merged and has an effect."
)
@repository_option
def command(
    *,
    base: str | None,
    head: str | None,
    style: str,
    diffs: bool,
    author: str | None,
    pushers: tuple[str, ...],
    approvers: tuple[str, ...],
    teams: tuple[tuple[str, frozenset[Account]], ...],
    as_of: datetime.date | None,
    detailed_exitcode: bool,
    repo: Path | None,
) -> None:
    """Show the effects of merging a change: destroyed data, new access, costs, and each changed resource with its cause.

    Without --head, the change is the current folder on top of the checked-out commit, with uncommitted declarations. The
    command plans the merge result. It writes nothing into the repository and runs no program that the change names.

    Exit status: 0 the change can be merged, 1 it cannot. With --detailed-exitcode: 0 it has no effect, 4 it can be merged and
    has an effect.

    \b
    Examples:
      allot plan                        plan the current folder against the branch of merged declarations
      allot plan --base main --head HEAD --diffs
      allot plan -o markdown            print the comment for a pull request
    """
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.adapters.git.sandbox_repository import open_offline
    from allotment.services.pull_requests.change_plan import plan_change

    if (approvers or teams or pushers) and author is None:
        raise click.UsageError("--pushed-by, --approved-by and --team require --author.")
    root = find_repository(repo)
    base = base or _find_declared_branch(root)
    source = CommitSource(root, base, open_offline(root))
    merge_plan = plan_change(
        root,
        base,
        head,
        choose_day(source, as_of),
        today=choose_day(source, None),
        open_cache=create_cache_opener(root, "-plan"),
        reviewed=None if author is None else _build_review_context(author, pushers, approvers, dict(teams)),
    )
    is_complete = _print_plan(merge_plan, style, diffs=diffs)
    if not (merge_plan.is_allowed and is_complete):
        raise click.exceptions.Exit(1)
    if detailed_exitcode and merge_plan.has_changes:
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)


def _print_plan(merge_plan: ChangePlan, style: str, *, diffs: bool) -> bool:
    """Print a plan. Return False if the required parts of a Markdown comment exceed the size limit of a comment."""
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.plan import plan_output

        click.echo(as_json(plan_output(merge_plan)), nl=False)
    elif style == "markdown":
        from allotment.reports.plan.comment import render_comment

        plan_text = render_comment(merge_plan, COMMENT_BYTES)
        click.echo(plan_text.text, nl=False)
        return plan_text.is_complete
    else:
        from allotment.reports.plan.text import plan_lines

        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in plan_lines(merge_plan, diffs=diffs, width=width):
            click.echo(click.style(line.text, **STYLES[line.style]) if line.style else line.text)
    return True


def _find_declared_branch(root: Path) -> str:
    """Return the ref of the branch of declarations in origin.

    Raises OperationRefused if this clone doesn't have the branch.
    """
    from allotment.adapters.git.repository import NO_COMMIT_TEXT, Repository
    from allotment.adapters.git.sandbox_repository import open_offline
    from allotment.branches.merged_branch import find_fetched_branch
    from allotment.services.pull_requests.change_plan import REMOTES_PREFIX

    # If the declaration of the platform is invalid, the branch may be the default. The plan reports the problem later.
    branch = find_fetched_branch(root, Repository(root))
    name, repository = f"origin/{branch}", open_offline(root)
    bring = f"run `git fetch origin {branch}`, or `git push origin {branch}` if the branch has never been pushed"
    if repository.git.url_of("origin") is None:
        bring = (
            f"this repository has no remote named origin. Run {repository.git.origin_remedy} and fetch or push {branch}"
        )
    otherwise = (
        f"{name} isn't in this clone, but a plan without --base needs it: {bring}, or name a commit with --base, such"
        " as --base HEAD for uncommitted changes"
    )
    full = f"{REMOTES_PREFIX}{name}"  # the full ref, because a local branch may also have the name origin/…
    repository.resolve(full, otherwise if repository.has_commits() else NO_COMMIT_TEXT)
    return full


def _build_review_context(
    author: str, pushers: tuple[str, ...], approvers: tuple[str, ...], teams: dict[str, frozenset[Account]]
) -> ReviewContext:
    from collections import defaultdict

    from allotment.declared.people import parse_account
    from allotment.rules.ownership import Review
    from allotment.services.pull_requests.merge_plan import ReviewContext

    team_accounts: defaultdict[str, frozenset[Account] | None] = defaultdict(lambda: None, teams)
    return ReviewContext(
        Review(parse_account(author), *(frozenset(map(parse_account, logins)) for logins in (pushers, approvers))),
        team_accounts,
    )

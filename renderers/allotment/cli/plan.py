"""`allot plan`: what a change would do, before anybody merges it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options import TO_LOOK_AT, Day, day_of, output_option, recalled, repository, repository_option

if TYPE_CHECKING:
    import datetime

    from allotment.changes.plan import Plan
    from allotment.declared.people import Account
    from allotment.pipeline.pulls.merge_plan import Reviewed

COMMENT_BYTES = 60_000  # of a Markdown plan: GitHub takes the least, 65,536 characters
STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warn": {"fg": "yellow"},
    "dim": {"dim": True},
}


class ForgeTeam(click.ParamType["tuple[str, frozenset[Account]]"]):
    """A team of the forge with its members, @acme/platform=ann,bob."""

    name = "team"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, frozenset[Account]]:
        from allotment.declared.people import account

        team, equals, logins = str(value).partition("=")
        if not equals or not team.startswith("@"):
            self.fail(f"{value!r} is no team with its members: write one such as @acme/platform=ann,bob", param, ctx)
        return team, frozenset(account(login) for login in logins.split(",") if login)


@click.command()
@click.option(
    "--base", metavar="REF", help="The commit that it would be merged into; origin/<spec.git.branch> if absent."
)
@click.option("--head", metavar="REF", help="The commit that would be merged; the folder as it is now if absent.")
@output_option("markdown")
@click.option("--diffs", is_flag=True, help="Show what changes in every file too, as the other formats do.")
@click.option("--author", metavar="LOGIN", help="Whose change it is, as the forge says: checks who may change what.")
@click.option(
    "--pushed-by",
    "pushers",
    multiple=True,
    metavar="LOGIN",
    help="Who pushed to it besides the author; may be given again.",
)
@click.option("--approved-by", "approvers", multiple=True, metavar="LOGIN", help="Who approved it; may be given again.")
@click.option(
    "--team",
    "teams",
    multiple=True,
    type=ForgeTeam(),
    metavar="@ORG/TEAM=LOGIN,…",
    help="Who is in a team of the forge.",
)
@click.option(
    "--as-of",
    type=Day(),
    help="The day whose prices count; today in the billing time zone if absent. A new price begins tomorrow at the"
    " earliest, whatever day that is.",
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="End with 4, not 0, where it can be merged and changes something."
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
    """Say what merging a change would do: what is destroyed, who gets access, what it costs, each thing and why.

    Without --head it is the folder as it is now, uncommitted declarations included, on top of the commit that is checked
    out. It is planned as the merge result. Nothing is written into the repository, and no program that it names is run.

    Exit status: 0 it can be merged, 1 it can't. With --detailed-exitcode 0 nothing would change, 4 it can be merged and
    something would.

    \b
    Examples:
      allot plan                        what this folder would change on the branch that counts
      allot plan --base main --head HEAD --diffs
      allot plan -o markdown            as the comment on a pull request
    """
    from allotment.adapters.git.apart import offline
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.pipeline.pulls.planning import plan

    if (approvers or teams or pushers) and author is None:
        raise click.UsageError("--pushed-by, --approved-by and --team count only together with --author.")
    root = repository(repo)
    base = base or _branch_that_counts(root)
    source = CommitSource(root, base, offline(root))
    merge_plan = plan(
        root,
        base,
        head,
        day_of(source, as_of),
        today=day_of(source, None),
        recall=recalled(root, "-plan"),
        reviewed=None if author is None else _reviewed(author, pushers, approvers, dict(teams)),
    )
    is_complete = _print(merge_plan, style, diffs=diffs)
    if not (merge_plan.allowed and is_complete):
        raise click.exceptions.Exit(1)
    if detailed_exitcode and merge_plan.changes:
        raise click.exceptions.Exit(TO_LOOK_AT)


def _print(merge_plan: Plan, style: str, *, diffs: bool) -> bool:
    """Print a plan; return whether all fitted that must."""
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.plan import plan_output

        click.echo(as_json(plan_output(merge_plan)), nl=False)
    elif style == "markdown":
        from allotment.reports.plan.comment import comment

        plan_text = comment(merge_plan, COMMENT_BYTES)
        click.echo(plan_text.text, nl=False)
        return plan_text.whole
    else:
        from allotment.reports.plan.text import lines

        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in lines(merge_plan, diffs=diffs, width=width):
            click.echo(click.style(line.text, **STYLES[line.style]) if line.style else line.text)
    return True


def _branch_that_counts(root: Path) -> str:
    """Return the branch of the remote that the folder's platform names. Raises Refused where it isn't here."""
    from allotment.adapters.folder import FolderSource
    from allotment.adapters.git.apart import offline
    from allotment.adapters.git.repository import NOTHING_YET
    from allotment.pipeline.declared import branch_of
    from allotment.pipeline.pulls.planning import REMOTES

    branch = branch_of(FolderSource(root))  # the plan says what is wrong with the platform's declaration
    name, here = f"origin/{branch}", offline(root)
    bring = f"run `git fetch origin {branch}`, or where nothing was pushed yet `git push origin {branch}`"
    if here.git.url_of("origin") is None:
        bring = f"this repository has no remote named origin yet. Add one and push {branch}"
    otherwise = (
        f"{name} isn't here, which a plan compares with where --base isn't given: {bring}, or name a commit with --base, such"
        " as --base HEAD for what isn't committed"
    )
    full = f"{REMOTES}{name}"  # a branch of one's own may be named so too
    here.resolve(full, otherwise if here.has_commits() else NOTHING_YET)
    return full


def _reviewed(
    author: str, pushers: tuple[str, ...], approvers: tuple[str, ...], teams: dict[str, frozenset[Account]]
) -> Reviewed:
    from collections import defaultdict

    from allotment.declared.people import account
    from allotment.pipeline.pulls.merge_plan import Reviewed
    from allotment.rules.ownership import Review

    team_accounts: defaultdict[str, frozenset[Account] | None] = defaultdict(lambda: None, teams)
    return Reviewed(
        Review(account(author), *(frozenset(map(account, logins)) for logins in (pushers, approvers))), team_accounts
    )

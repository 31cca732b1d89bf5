"""`allot plan`: what a change would do, before anybody merges it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options import Day, day_of, recalled, repository, repository_option

if TYPE_CHECKING:
    import datetime

    from allotment.declared.people import Account
    from allotment.pipeline.pulls.planning import Reviewed

COMMENT_BYTES = 60_000  # of a Markdown plan: GitHub takes the least, 65,536 characters


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
        return team, frozenset(account(one) for one in logins.split(",") if one)


@click.command()
@click.option("--base", required=True, metavar="REF", help="The commit that it would be merged into.")
@click.option("--head", default="HEAD", show_default=True, metavar="REF", help="The commit that would be merged.")
@click.option("--format", "style", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
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
@click.option("--as-of", type=Day(), help="The day whose prices count; today in the billing time zone if absent.")
@repository_option
def command(
    base: str,
    head: str,
    style: str,
    diffs: bool,
    author: str | None,
    pushers: tuple[str, ...],
    approvers: tuple[str, ...],
    teams: tuple[tuple[str, frozenset[Account]], ...],
    as_of: datetime.date | None,
    repo: Path | None,
) -> None:
    """Say what merging a commit would change: problems, what is destroyed, units, quota, cost, and each object.

    It is planned as the merge result, from Git's objects alone. Exit status 1: it can't be merged.
    """
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.pipeline.pulls.planning import plan

    if (approvers or teams or pushers) and author is None:
        raise click.UsageError("--pushed-by, --approved-by and --team count only together with --author.")
    root = repository(repo)
    day = day_of(CommitSource(root, base), as_of)
    reviewed = None if author is None else _reviewed(author, pushers, approvers, dict(teams))
    found = plan(root, base, head, day, recall=recalled(root, "-plan"), reviewed=reviewed)
    if style == "json":
        from allotment.reports.plan.text import as_json

        click.echo(as_json(found), nl=False)
    elif style == "markdown":
        from allotment.reports.plan.comment import comment

        click.echo(comment(found, COMMENT_BYTES).text, nl=False)
    else:
        from allotment.reports.plan.text import text

        click.echo(text(found, diffs=diffs), nl=False)
    if not found.allowed:
        raise click.exceptions.Exit(1)


def _reviewed(
    author: str, pushers: tuple[str, ...], approvers: tuple[str, ...], teams: dict[str, frozenset[Account]]
) -> Reviewed:
    from collections import defaultdict

    from allotment.declared.people import account
    from allotment.pipeline.pulls.planning import Reviewed
    from allotment.rules.ownership import Review

    known: defaultdict[str, frozenset[Account] | None] = defaultdict(lambda: None, teams)
    return Reviewed(
        Review(account(author), *(frozenset(map(account, several)) for several in (pushers, approvers))), known
    )

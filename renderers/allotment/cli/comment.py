"""`allot comment`: the plan on the pull request, and how far what was merged has come."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from allotment.cli.commenter import forge_options, token_of, work
from allotment.cli.options import repository, repository_option
from allotment.problems import AllotmentError

if TYPE_CHECKING:
    from allotment.pipeline.pulls.commenting import PullWork

T = TypeVar("T")
PATIENCE = 600.0  # seconds that a forge may ask to wait, all together


@click.command()
@click.option("--number", type=click.IntRange(1), help="The pull request that the event names.")
@click.option("--head", metavar="SHA", help="Its head, as the event names it: if it moved on, nothing is said.")
@click.option(
    "--all", "everything", is_flag=True, help="Every open pull request, and every merge that doesn't run yet."
)
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch that counts.")
@click.option(
    "--source", "url", default="origin", show_default=True, metavar="URL", help="The repository of declarations."
)
@click.option("--to", metavar="URL", help="Where it is published to; spec.git.rendered, or the source, if absent.")
@click.option("--status", metavar="URL", help="Where the status branches are; spec.git.status, or the same, if absent.")
@forge_options
@repository_option
def command(
    number: int | None,
    head: str | None,
    everything: bool,
    branch: str,
    url: str,
    to: str | None,
    status: str | None,
    forge_token_file: Path | None,
    forge_api: str | None,
    plan_seconds: float,
    plan_megabytes: float,
    repo: Path | None,
) -> None:
    """Say what pull requests would change, as one comment and the commit status allot/plan on each.

    It is for the trusted side: number and head come from the event, author and approvals from the forge, the rules
    from the base. Nothing of a pull request is checked out or run.

    \b
    Examples:
      allot comment --number 7
      allot comment --all --forge-token-file token
    """
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.pipeline.pulls.apart import PlanBudget

    if (number is None) == (not everything):
        raise click.UsageError("Say which: --number N, or --all.")
    root = repository(repo)
    token = token_of(forge_token_file)
    source = Remote(Repository(root), url, keep=True)
    budget = PlanBudget(plan_seconds, plan_megabytes)
    found = work(root, source, branch, token, forge_api, rendered=to, status=status, budget=budget)
    if number is not None:
        verdict = _patiently(lambda: found.reviews.review(number, head))
        click.echo(f"#{number}: {verdict.words}" if verdict.state else f"#{number}: nothing said: {verdict.words}")
    else:
        _everything(found)


def _everything(found: PullWork) -> None:
    """Say what each commit's plan is and how far each merge is. What goes wrong with one stops no other, and is the
    exit status."""
    from allotment.pipeline.pulls.reviewing import by_head
    from allotment.pipeline.pulls.troubles import Trouble, tried

    requests = _patiently(lambda: list(found.place.forge.open_pull_requests(found.place.branch)))
    groups = by_head(requests)
    troubles: list[Trouble] = []

    def tell(numbers: Iterable[int], trouble: Trouble) -> None:
        troubles.append(trouble)
        click.echo(f"{', '.join(f'#{number}' for number in numbers)}: {trouble.words}", err=True)

    for alike in groups:  # what goes wrong with this the review meets again, and tells
        tried(partial(_patiently, partial(found.reviews.announce, alike)))
    for alike in groups:
        numbers = [one.number for one in alike]
        review = partial(found.reviews.review, numbers[0], None, alike)
        verdict = tried(partial(_patiently, review), (AllotmentError,))
        if isinstance(verdict, Trouble):
            tell(numbers, verdict)
        else:
            click.echo(f"{', '.join(f'#{number}' for number in numbers)}: {verdict.words}")
    followed = _patiently(lambda: found.rollouts.follow(datetime.datetime.now(datetime.UTC)))
    for number, trouble in followed.troubles.items():
        tell([number], trouble)
    click.echo(f"{len(requests)} open, {followed.going} merged and not running yet")
    if troubles:
        raise click.exceptions.Exit(3 if any(one.reason == "bug" for one in troubles) else 2)


def _patiently(ask: Callable[[], T]) -> T:
    """Return what the forge says, after as long as it asks to wait, up to a limit."""
    from allotment.adapters.forge.forge import RateLimited

    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except RateLimited as error:
            if time.monotonic() + error.seconds > end:
                raise
            click.echo(f"{error}: waiting", err=True)
            time.sleep(error.seconds)

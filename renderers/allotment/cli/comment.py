"""`allot comment`: the plan on the pull request, and how far what was merged has come."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from allotment.cli.commenter import forge_options, token_of, work
from allotment.cli.options import output_option, repository, repository_option
from allotment.problems import AllotmentError

if TYPE_CHECKING:
    from allotment.adapters.forge.forge import State
    from allotment.pipeline.pulls.commenting import PullWork
    from allotment.pipeline.pulls.reviewing import Verdict
    from allotment.pipeline.pulls.troubles import Trouble
    from allotment.reports.outputs.comment import SaidOutput

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
@output_option()
@forge_options
@repository_option
def command(
    *,
    number: int | None,
    head: str | None,
    everything: bool,
    branch: str,
    url: str,
    to: str | None,
    status: str | None,
    style: str,
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
    services = work(root, source, branch, token, forge_api, rendered=to, status=status, budget=budget)
    telling = _Telling(in_text=style == "text")
    if number is not None:
        telling.say([number], _patiently(lambda: services.reviews.review(number, head)))
    else:
        _everything(services, telling)
    telling.end()


class _Telling:
    """Tells what was said of which pull requests, as it is said or as one JSON object at the end."""

    def __init__(self, *, in_text: bool) -> None:
        self._in_text = in_text
        self._said: list[SaidOutput] = []
        self._counts: tuple[int | None, int | None] = (None, None)
        self._bugs = self._troubles = 0

    def say(self, numbers: Sequence[int], verdict: Verdict) -> None:
        """Tell how a review ended."""
        self._note(numbers, verdict.state or None, verdict.words, None)
        if self._in_text:
            click.echo(f"{_listed(numbers)}: {verdict.words if verdict.state else f'nothing said: {verdict.words}'}")

    def tell(self, numbers: Sequence[int], trouble: Trouble) -> None:
        """Tell, on standard error too, what kept it from being said."""
        self._note(numbers, None, trouble.words, trouble.reason)
        self._troubles += 1
        self._bugs += trouble.reason == "bug"
        click.echo(f"{_listed(numbers)}: {trouble.words}", err=True)

    def count(self, requests: int, going: int) -> None:
        """Tell how many are open, and how many merges don't run yet."""
        self._counts = requests, going
        if self._in_text:
            click.echo(f"{requests} open, {going} merged and not running yet")

    def end(self) -> None:
        """Print the JSON object, if it is asked for, and exit by what went wrong."""
        from allotment.reports import outputs
        from allotment.reports.outputs.comment import CommentOutput

        if not self._in_text:
            requests, going = self._counts
            click.echo(outputs.as_json(CommentOutput(said=tuple(self._said), open=requests, going=going)), nl=False)
        if self._troubles:
            raise click.exceptions.Exit(3 if self._bugs else 2)

    def _note(
        self,
        numbers: Iterable[int],
        state: State | None,
        words: str,
        trouble: Literal["forge", "refused", "bug"] | None,
    ) -> None:
        from allotment.reports.outputs.comment import SaidOutput

        self._said.append(SaidOutput(tuple(numbers), state, words, trouble))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _everything(services: PullWork, telling: _Telling) -> None:
    """Say what each commit's plan is and how far each merge is. What goes wrong with one stops no other."""
    from allotment.pipeline.pulls.reviewing import by_head
    from allotment.pipeline.pulls.troubles import Trouble, tried

    requests = _patiently(lambda: list(services.place.forge.open_pull_requests(services.place.branch)))
    groups = by_head(requests)
    for alike in groups:  # what goes wrong with this the review meets again, and tells
        tried(partial(_patiently, partial(services.reviews.announce, alike)))
    for alike in groups:
        numbers = [request.number for request in alike]
        review = partial(services.reviews.review, numbers[0], None, alike)
        verdict = tried(partial(_patiently, review), (AllotmentError,))
        if isinstance(verdict, Trouble):
            telling.tell(numbers, verdict)
        else:
            telling.say(numbers, verdict)
    followed = _patiently(lambda: services.rollouts.follow(datetime.datetime.now(datetime.UTC)))
    for number, trouble in followed.troubles.items():
        telling.tell([number], trouble)
    telling.count(len(requests), followed.going)


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

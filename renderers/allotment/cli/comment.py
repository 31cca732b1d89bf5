"""`allot comment`: comments on pull requests with their plans and rollouts."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from allotment.cli.comment_options import branch_option, create_pull_services, forge_options, read_token
from allotment.cli.options import WholeNumber, find_repository, output_option, repository_option
from allotment.problems import AllotmentError

if TYPE_CHECKING:
    from allotment.adapters.forge.forge import StatusState
    from allotment.reports.outputs.comment import SaidOutput
    from allotment.services.pull_requests.comment_loop import PullServices
    from allotment.services.pull_requests.plan_comment import ReviewResult
    from allotment.services.pull_requests.pull_failures import PullFailure

T = TypeVar("T")
MAX_WAIT_SECONDS = 600.0  # the longest total wait if the forge limits the rate of requests


@click.command()
@click.option("--number", type=WholeNumber(1), help="The number of the pull request in the event.")
@click.option(
    "--head", metavar="SHA", help="The head commit in the event. If the head has changed, no comment is written."
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Comment on all open pull requests, and on all merges that are not running yet.",
)
@branch_option
@click.option(
    "--source", "url", default="origin", show_default=True, metavar="URL", help="The repository of declarations."
)
@click.option(
    "--to",
    metavar="URL",
    help="The repository of the rendered branches. Default: spec.git.rendered of the platform, or the source.",
)
@click.option(
    "--status",
    metavar="URL",
    help="The repository of the status branches. Default: spec.git.status of the platform, or the repository of --to.",
)
@output_option()
@forge_options
@repository_option
def command(
    *,
    number: int | None,
    head: str | None,
    everything: bool,
    branch: str | None,
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
    """Comment on pull requests: each gets one comment with its plan, and the commit status allot/plan.

    Run it in a trusted environment: the number and the head come from the event, the author and the approvals from the forge,
    and the rules from the base. The command never checks out or runs content of a pull request.

    \b
    Examples:
      allot comment --number 7
      allot comment --all --forge-token-file token
    """
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.branches.merged_branch import fetch_declared_branch
    from allotment.services.pull_requests.plan_sandbox import PlanBudget

    if (number is None) == (not everything):
        raise click.UsageError("Name the pull request with --number N, or use --all.")
    root = find_repository(repo)
    token = read_token(forge_token_file)
    source = Remote(Repository(root), url, keep=True)
    budget = PlanBudget(plan_seconds, plan_megabytes)
    branch = branch or fetch_declared_branch(root, source).name
    services = create_pull_services(root, source, branch, token, forge_api, rendered=to, status=status, budget=budget)
    telling = _ResultPrinter(in_text=style == "text")
    if number is not None:
        telling.print_result([number], _retry_rate_limited(lambda: services.plan_commenter.review(number, head)))
    else:
        _comment_on_all(services, telling)
    telling.finish()


class _ResultPrinter:
    """Prints the result of each pull request: as text at once, or as JSON in one object at the end."""

    def __init__(self, *, in_text: bool) -> None:
        self._in_text = in_text
        self._results: list[SaidOutput] = []
        self._counts: tuple[int | None, int | None] = (None, None)
        self._bug_count = self._failure_count = 0

    def print_result(self, numbers: Sequence[int], verdict: ReviewResult) -> None:
        """Print the result of a review of some pull requests."""
        self._record_result(numbers, verdict.state or None, verdict.message, None)
        if self._in_text:
            click.echo(
                f"{_format_numbers(numbers)}: {verdict.message if verdict.state else f'no comment: {verdict.message}'}"
            )

    def print_failure(self, numbers: Sequence[int], trouble: PullFailure) -> None:
        """Print the failure of some pull requests to standard error, and record it for the JSON object."""
        self._record_result(numbers, None, trouble.message, trouble.reason)
        self._failure_count += 1
        self._bug_count += trouble.reason == "bug"
        click.echo(f"{_format_numbers(numbers)}: {trouble.message}", err=True)

    def print_counts(self, requests: int, going: int) -> None:
        """Print the number of open pull requests, and the number of merges with resources that do not run yet."""
        self._counts = requests, going
        if self._in_text:
            click.echo(f"{requests} open, {going} merged but not running yet")

    def finish(self) -> None:
        """Print the JSON object, if requested, and exit with the status of the worst failure."""
        from allotment.reports import outputs
        from allotment.reports.outputs.comment import CommentOutput

        if not self._in_text:
            requests, going = self._counts
            click.echo(
                outputs.as_json(CommentOutput(results=tuple(self._results), open=requests, going=going)), nl=False
            )
        if self._failure_count:
            raise click.exceptions.Exit(3 if self._bug_count else 2)

    def _record_result(
        self,
        numbers: Iterable[int],
        state: StatusState | None,
        message: str,
        trouble: Literal["forge", "refused", "bug"] | None,
    ) -> None:
        from allotment.reports.outputs.comment import SaidOutput

        self._results.append(SaidOutput(tuple(numbers), state, message, trouble))


def _format_numbers(numbers: Iterable[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _comment_on_all(services: PullServices, telling: _ResultPrinter) -> None:
    """Comment on all pull requests with their plans and rollouts. If a pull request fails, continue with the others."""
    from allotment.services.pull_requests.plan_comment import group_by_head
    from allotment.services.pull_requests.pull_failures import PullFailure, capture_failure

    requests = _retry_rate_limited(
        lambda: list(services.pull_source.forge.open_pull_requests(services.pull_source.branch))
    )
    groups = group_by_head(requests)
    # This loop ignores failures. The review of the same pull requests in the next loop fails too, and is reported.
    for alike in groups:
        capture_failure(partial(_retry_rate_limited, partial(services.plan_commenter.announce_pending, alike)))
    for alike in groups:
        numbers = [request.number for request in alike]
        review = partial(services.plan_commenter.review, numbers[0], None, alike)
        verdict = capture_failure(partial(_retry_rate_limited, review), (AllotmentError,))
        if isinstance(verdict, PullFailure):
            telling.print_failure(numbers, verdict)
        else:
            telling.print_result(numbers, verdict)
    followed = _retry_rate_limited(
        lambda: services.rollout_commenter.follow_merges(datetime.datetime.now(datetime.UTC))
    )
    for number, trouble in followed.failures.items():
        telling.print_failure([number], trouble)
    telling.print_counts(len(requests), followed.in_progress)


def _retry_rate_limited(ask: Callable[[], T]) -> T:
    """Return the result of `ask`, which sends requests to the forge.

    If the forge limits the rate of requests, wait for as long as it demands, and call `ask` again. Raises RateLimited
    if the total wait would exceed MAX_WAIT_SECONDS.
    """
    from allotment.adapters.forge.forge import RateLimited

    end = time.monotonic() + MAX_WAIT_SECONDS
    while True:
        try:
            return ask()
        except RateLimited as error:
            if time.monotonic() + error.seconds > end:
                raise
            click.echo(f"{error}: waiting", err=True)
            time.sleep(error.seconds)

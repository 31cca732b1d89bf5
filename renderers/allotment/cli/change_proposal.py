"""Opens a pull request for a change: the option --pr of every command that edits declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allotment.cli.change_options import ChangeOptions, CheckFirst, Confirm, open_branch_target
from allotment.cli.change_output import ChangeResult, print_moved, print_result, review
from allotment.cli.comment_options import TOKEN_VARIABLE, read_token
from allotment.cli.status_options import create_publish_check
from allotment.cli.wait_progress import TerminalProgress, end_wait
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.edits.operation_id import BuildChange
    from allotment.services.changes.change_target import BranchTarget
    from allotment.services.changes.proposals import Proposal, Proposer


def run_proposal(
    options: ChangeOptions, build: BuildChange, confirm: Confirm | None, check_first: CheckFirst | None
) -> None:
    """Build a change, print its difference and its plan, and open a pull request for it."""
    from allotment.adapters.forge.forge import Forbidden, InvalidToken, NotFound

    token = read_token(None, has_option=False)
    target = open_branch_target(options)
    proposer = create_proposer(options, target, token.secret)
    try:
        _run(options, proposer, build, confirm, check_first)
    except (Forbidden, InvalidToken, NotFound) as error:
        raise OperationRefused(
            f"{error}: check the permissions of the token in {TOKEN_VARIABLE}, and spec.git.url of the platform,"
            f" {quote_value(proposer.url)}"
        ) from None


def _run(
    options: ChangeOptions,
    proposer: Proposer,
    build: BuildChange,
    confirm: Confirm | None,
    check_first: CheckFirst | None,
) -> None:
    target = proposer.target
    repeated = proposer.find_repeated(build) if options.operation_id else None
    if repeated is not None:
        _finish(options, proposer, proposer.complete(repeated))
        return
    if check_first is not None:
        check_first(target.declarations)
    planned = target.plan(build(target.declarations))
    if review(planned, options, confirm):
        proposal = proposer.propose(planned.change_set, build)
        result = ChangeResult(planned.change_set, planned.before, "PullRequest", proposal.pushed.branch)
        print_moved(target.remove_written_files(planned))
        _finish(options, proposer, proposal, result)


def create_proposer(options: ChangeOptions, target: BranchTarget, secret: str) -> Proposer:
    """Return the proposer for the forge that the Platform of the target branch declares."""
    from allotment.adapters import forge
    from allotment.adapters.forge.forge import Token
    from allotment.branches.platform_settings import read_platform
    from allotment.services.changes.proposals import Proposer

    platform = read_platform(target.source)
    if platform is None:
        raise OperationRefused(f"platform/platform.yaml of branch {target.branch} can't be read: correct it first")
    git, token = platform.spec.git, Token(secret)
    return Proposer(
        target,
        forge.connect(git.forge, git.url, token, options.forge_api),
        token,
        git.url,
        lambda number: forge.head_ref(git.forge, number),
        uses_fork=options.uses_fork,
    )


def _finish(options: ChangeOptions, proposer: Proposer, proposal: Proposal, result: ChangeResult | None = None) -> None:
    """Print the pull request. With --wait, follow it first."""
    from allotment.services.changes.change_wait import ChangeWait

    pull = proposal.pull_request
    url = pull.url if pull else None
    if proposal.repeated is not None:
        result = ChangeResult.of_repeated(proposal.repeated, "PullRequest", options.operation_id, url)
    assert result is not None
    result = result._replace(url=url)
    if not options.waits:
        print_result(options, result)
        if pull is not None and not (pull.is_open or pull.merge_commit):
            click.echo(
                "The pull request is closed: open it again at the forge, or choose a new operation ID.", err=True
            )
        return
    if options.style == "text":
        print_result(options, result)
    publish_check = create_publish_check(proposer.target.base.root)
    waiting = ChangeWait(proposer, publish_check, TerminalProgress(options.style), options.timeout)
    outcome, reason = waiting.wait(pull, result.change_set)
    if options.style == "json":
        print_result(options, result._replace(outcome=outcome))
    end_wait(outcome, reason)

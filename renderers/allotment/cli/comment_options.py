"""Creates the services for pull requests from command-line options, for `allot comment` and `allot run`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.options import FiniteRange
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.adapters.forge.forge import Token
    from allotment.adapters.git.remote import Remote
    from allotment.services.pull_requests.comment_loop import PullServices
    from allotment.services.pull_requests.plan_sandbox import PlanBudget

TOKEN_VARIABLE = "ALLOT_FORGE_TOKEN"  # noqa: S105  # the name of a variable, not a token


def _check_forge_api(context: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    """Raise BadParameter if a URL can't be that of an API."""
    from urllib.parse import urlsplit

    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise click.BadParameter(f"{quote_value(url)} is no URL of an API: write https://HOST/PATH")
    return url


forge_api_option = click.option(
    "--forge-api",
    metavar="URL",
    callback=_check_forge_api,
    envvar="ALLOT_FORGE_API",
    help="The URL of the forge's API. Default: derived from spec.git.url of the platform.",
)


def forge_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --forge-token-file, --forge-api, --plan-seconds and --plan-megabytes."""
    for option in (
        click.option(
            "--plan-megabytes",
            default=1024.0,
            show_default=True,
            type=FiniteRange(64),
            metavar="MB",
            help="The memory limit for the plan of a pull request.",
        ),
        click.option(
            "--plan-seconds",
            default=120.0,
            show_default=True,
            type=FiniteRange(1),
            metavar="SECONDS",
            help="The time limit for the plan of a pull request.",
        ),
        forge_api_option,
        click.option(
            "--forge-token-file",
            type=click.Path(dir_okay=False, exists=True, path_type=Path),
            help=f"A file with the forge's token. Default: the environment variable {TOKEN_VARIABLE}.",
        ),
    ):
        command = option(command)
    return command


branch_option = click.option(
    "--branch",
    metavar="NAME",
    help="The branch of merged declarations. Default: the branch that the default branch of the source names in spec.git.branch.",
)


def read_token(file: Path | None, *, has_option: bool = True) -> Token:
    """Return the forge's token, from a file or the environment.

    `has_option` says whether the command has the option --forge-token-file.
    """
    from allotment.adapters.credential_files import read_credential_file
    from allotment.adapters.forge.forge import Token
    from allotment.adapters.header_values import can_be_in_header

    text = read_credential_file(file, accepts_pipe=True) if file else os.environ.get(TOKEN_VARIABLE, "")
    secret = text.strip()
    if not can_be_in_header(secret) or (file and not secret):
        place = f"The file {file}" if file else f"The environment variable {TOKEN_VARIABLE}"
        reason = "has characters that no token has" if secret else "is empty"
        raise click.UsageError(f"{place} {reason}: write the token alone, as ASCII text.")
    if not secret:
        more = ", or name a file with --forge-token-file" if has_option else ""
        raise click.UsageError(f"The token of the forge is missing: set {TOKEN_VARIABLE}{more}.")
    return Token(secret)


def create_pull_services(
    root: Path,
    source: Remote,
    branch: str,
    token: Token,
    api: str | None,
    *,
    rendered: str | None = None,
    status: str | None = None,
    budget: PlanBudget | None = None,
    cache: Path | None = None,
    processes: int | None = None,
    merges: bool = False,
) -> PullServices:
    """Return the services that comment on the pull requests of a repository, and with `merges` merge those of self service.

    The declaration of the platform in `branch` of `source` names the forge and the repository. `budget` limits the
    time and memory for one plan. `cache` is the folder with the cached checks of the base.

    Raises OperationRefused if the branch, or the declaration of the platform in it, can't be read.
    """
    from allotment.adapters import forge
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.adapters.git.remote import Remote
    from allotment.branches.platform_settings import read_platform
    from allotment.cli.options import choose_day
    from allotment.services.pull_requests.comment_loop import PullServices
    from allotment.services.pull_requests.plan_comment import PlanCommenter, PullRequestSource
    from allotment.services.pull_requests.plan_sandbox import PlanBudget
    from allotment.services.pull_requests.rollout_comment import RolloutCommenter
    from allotment.services.pull_requests.self_service_merge import SelfServiceMerger

    name = f"refs/heads/{branch}"
    tip = source.fetch(name).get(name)
    platform = read_platform(CommitSource(root, tip, source.repository)) if tip else None
    if platform is None:
        raise OperationRefused(f"{source} has no branch {branch} whose platform/platform.yaml can be read")
    git = platform.spec.git
    place = PullRequestSource(
        root,
        source,
        branch,
        forge.connect(git.forge, git.url, token, api),
        lambda number: forge.head_ref(git.forge, number),
    )
    published = rendered or git.rendered
    reported = status or git.status or published
    branches = Remote(source.repository, published, keep=True) if published else source
    statuses = Remote(source.repository, reported, keep=True) if reported else source
    rollouts = RolloutCommenter(place, branches, statuses)
    reviews = PlanCommenter(
        place,
        lambda plan_source: choose_day(plan_source, None),
        budget or PlanBudget(),
        cache,
        processes,
        rendered=branches,
        status=statuses,
        merger=SelfServiceMerger(place.forge, branch) if merges else None,
    )
    return PullServices(place, reviews, rollouts)

"""Creates the parts of `allot run` from its options. The parts are a publisher, a reporter, a commenter, the portal and the cordons."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from allotment.adapters.child_process import ChildProcess
from allotment.adapters.folder_source import write_file
from allotment.adapters.git.clone import Clone
from allotment.adapters.git.remote import Remote
from allotment.branches.platform_settings import BranchUrls, resolve_branch_urls
from allotment.cli.comment_options import TOKEN_VARIABLE, create_pull_services, read_token
from allotment.cli.options import choose_day
from allotment.cli.reporter_options import ClusterAccess, create_reporter
from allotment.problems import OperationRefused

if TYPE_CHECKING:
    from allotment.adapters.declaration_source import Source
    from allotment.adapters.forge.forge import Token
    from allotment.adapters.git.repository import Repository
    from allotment.adapters.log import Log
    from allotment.cli.service import ServiceContext
    from allotment.portal.site.page_gate import PageGate
    from allotment.portal.site.portal_loop import PortalLoop, UpdateReaders
    from allotment.portal.site.site_builder import SiteBuilder
    from allotment.services.cordons.cordon_loop import CordonLoop
    from allotment.services.publish.publish_loop import PublishLoop
    from allotment.services.pull_requests.comment_loop import CommentLoop, PullServices
    from allotment.services.reporter.reporter import Reporter

    RunPart = PublishLoop | Reporter | CommentLoop | PortalLoop | CordonLoop | ChildProcess

_CHILD_PARAMETERS = (
    "source",
    "branch",
    "to",
    "status",
    "data",
    "interval",
    "forge_token_file",
    "forge_api",
    "plan_seconds",
    "plan_megabytes",
)
_BRANCH_FILE = "allotment-branch"  # in the folder of the clones


class RunOptions(NamedTuple):
    """The options of `allot run` that its parts need. Intervals are in seconds."""

    access: ClusterAccess
    source: str
    branch: str
    to: str | None
    status: str | None
    data: Path
    interval: float
    report_interval: float
    tenant_seconds: float
    forge_token_file: Path | None
    forge_api: str | None
    plan_seconds: float
    plan_megabytes: float


def create_parts(
    options: RunOptions,
    context: ServiceContext,
    *,
    publish: bool,
    cluster: str | None,
    comment: bool,
    gate: PageGate | None,
    cordoned_cluster: str | None = None,
) -> list[RunPart]:
    """Return the parts to run, the publisher first. If there are other parts, the commenter runs in a child process.

    With `gate`, the portal runs, and sets its readers in `gate`. Raises OperationRefused if the source cannot be read, and
    click.UsageError if the token of the forge is missing.
    """
    parts: list[RunPart] = []
    if publish:
        parts.append(_create_publish_loop(options, context))
    if cluster is not None:
        clone = Clone.open_or_create(options.data / "report")
        urls = clone.run_with_repair(lambda: _find_branch_urls(clone, options))
        parts.append(create_reporter(cluster, options.access, clone, urls, options.report_interval, context))
    if cordoned_cluster is not None:
        parts.append(_create_cordon_loop(cordoned_cluster, options, context))
    if gate is not None:
        parts.append(_create_portal_loop(options, context, gate))
    if comment:
        token = read_token(options.forge_token_file)
        parts.append(_create_comment_process(context) if parts else _create_comment_loop(options, context, token))
    return parts


def _create_publish_loop(options: RunOptions, context: ServiceContext) -> PublishLoop:
    from allotment.adapters.metrics import Metrics
    from allotment.services.publish.publish_loop import PublishLoop
    from allotment.services.publish.publisher import Publisher
    from allotment.services.publish.release_builder import ReleaseBuilder

    repository = Clone.open_or_create(options.data)
    remote = lru_cache(partial(Remote, repository, keep=True))

    def find_remotes(commit_source: Source) -> tuple[Remote, Remote]:
        urls = resolve_branch_urls(commit_source, options.source, options.to, options.status)
        return remote(urls.rendered), remote(urls.status)

    origin, name = remote(options.source), f"refs/heads/{options.branch}"
    publisher = Publisher(
        options.data,
        remote(options.to or options.source),
        # No worker processes: `allot run` has threads, so it must not fork.
        ReleaseBuilder(processes=1, cpu_seconds=options.tenant_seconds),
        lambda commit_source: choose_day(commit_source, None),
        find_remotes=find_remotes,
        find_tip=lambda: origin.fetch(name).get(name),
        signing_key=options.access.signing_key,
    )
    return PublishLoop(
        origin,
        options.branch,
        publisher,
        Metrics(context.registry),
        context.log,
        options.interval,
        is_leader=context.is_leader,
    )


def _create_cordon_loop(cluster: str, options: RunOptions, context: ServiceContext) -> CordonLoop:
    from allotment.adapters.cluster.api import ApiServer
    from allotment.adapters.cluster.nodes import Nodes
    from allotment.adapters.metrics import CordonMetrics
    from allotment.services.cordons.cordon_loop import CordonLoop, CordonTarget

    clone = Clone.open_or_create(options.data / "cordons")
    target = CordonTarget(cluster, clone, Remote(clone, options.source, keep=True), options.branch)
    return CordonLoop(
        target,
        Nodes(ApiServer.from_kubeconfig(options.access.kubeconfig, options.access.context)),
        lambda commit_source: choose_day(commit_source, None),
        CordonMetrics(cluster, context.registry),
        context.log,
        options.interval,
        is_leader=context.is_leader,
    )


def find_branch(data: Path, url: str) -> str:
    """Return the branch of declarations: that which the default branch of the source names.

    If the source doesn't answer or names none, this is the branch that an earlier start with this source wrote into `data`.
    Raises OperationRefused if there is no such file.
    """
    from allotment.branches.merged_branch import fetch_declared_branch

    file, source = data / _BRANCH_FILE, hashlib.sha256(url.encode()).hexdigest()
    clone = Clone.open_or_create(data)  # refuses a folder that a stranger may have committed, before the file is read
    try:
        branch = fetch_declared_branch(data, Remote(clone, url)).name
    except OperationRefused:
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        if lines[:1] == [source]:
            return lines[1]
        raise
    write_file(file, f"{source}\n{branch}\n".encode())
    return branch


def _find_branch_urls(repository: Repository, options: RunOptions) -> BranchUrls:
    """Return the repositories of the rendered and the status branches.

    --to names the repository of the rendered branches, and --status the repository of the status branches. If one
    of the options is missing, its repository is read from the declaration of the platform in the newest commit.
    """
    from allotment.adapters.git.commit_source import CommitSource

    if options.to and options.status:
        return BranchUrls(options.to, options.status)
    name = f"refs/heads/{options.branch}"
    tip = Remote(repository, options.source, keep=True).fetch(name).get(name)
    if tip is None:
        raise OperationRefused(f"the source has no branch {options.branch}, which names the repository of its status")
    commit_source = CommitSource(repository.folder, tip, repository)
    return resolve_branch_urls(commit_source, options.source, options.to, options.status)


def _create_comment_loop(options: RunOptions, context: ServiceContext, token: Token) -> CommentLoop:
    from allotment.adapters.metrics import CommentMetrics
    from allotment.services.pull_requests.comment_loop import CommentLoop

    return CommentLoop(
        partial(_open_pull_services, options, token),
        CommentMetrics(context.registry),
        context.log,
        options.interval,
        is_leader=context.is_leader,
    )


def _open_pull_services(options: RunOptions, token: Token) -> PullServices:
    from allotment.services.pull_requests.plan_sandbox import PlanBudget

    clone = Clone.open_or_create(options.data / "comment")
    origin = Remote(clone, options.source, keep=True)
    return clone.run_with_repair(
        lambda: create_pull_services(
            options.data / "comment",
            origin,
            options.branch,
            token,
            options.forge_api,
            rendered=options.to,
            status=options.status,
            budget=PlanBudget(options.plan_seconds, options.plan_megabytes),
            cache=options.data / "cache",
            merges=True,
        )
    )


def _create_portal_loop(options: RunOptions, context: ServiceContext, gate: PageGate) -> PortalLoop:
    from allotment.adapters.metrics import PortalMetrics
    from allotment.portal.site.portal_loop import PortalLoop

    metrics = PortalMetrics(context.registry)
    url = str(Remote(Clone.open_or_create(options.data / "portal"), options.source))
    has_token = options.forge_token_file is not None or os.environ.get(TOKEN_VARIABLE)
    token = read_token(options.forge_token_file) if has_token else None
    create_builder = partial(_create_site_builder, options, token, context.log)
    return PortalLoop(create_builder, url, metrics, context.log, options.interval, gate=gate)


def _create_site_builder(
    options: RunOptions, token: Token | None, log: Log, update_readers: UpdateReaders
) -> SiteBuilder:
    from allotment.adapters import forge
    from allotment.adapters.page_folder import PageFolder
    from allotment.branches.declarations_clone import SourceClone
    from allotment.portal.site.open_pull_requests import OpenPullRequests
    from allotment.portal.site.site_builder import SiteBuilder

    clone = SourceClone(Clone.open_or_create(options.data / "portal"), options.source, options.branch, options.status)
    # No worker processes: `allot run` has threads, so it must not fork.
    folder = PageFolder(find_page_folder(options.data))
    if token is None:
        return SiteBuilder(clone, folder, processes=1, update_readers=update_readers)
    pull_requests = OpenPullRequests(
        clone,
        lambda platform: forge.connect(platform.spec.git.forge, platform.spec.git.url, token, options.forge_api),
        lambda note: log.warning("pull requests not read", message=note),
    )
    return SiteBuilder(clone, folder, processes=1, pull_requests=pull_requests, update_readers=update_readers)


def find_page_folder(data: Path) -> Path:
    """Return the folder of the portal's pages below the folder of the clones."""
    return data / "pages"


def _create_comment_process(context: ServiceContext) -> ChildProcess:
    """Return a child process that runs the commenter. It gets the options of `allot run` that the commenter needs."""
    current = click.get_current_context()
    values = {name: current.params.get(name) for name in _CHILD_PARAMETERS}
    variables = {
        f"{current.auto_envvar_prefix}_{name.upper()}": str(value)
        for name, value in values.items()
        if value is not None
    }
    return ChildProcess(["run", "--comment", "--child"], context.log, is_leader=context.is_leader, variables=variables)

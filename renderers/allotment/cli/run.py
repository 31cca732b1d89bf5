"""`allot run`: publishes, reports and comments in the background, as a process in a cluster."""

from __future__ import annotations

import threading
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.child_process import ChildProcess, wake_on_input
from allotment.cli.comment_options import create_pull_services, forge_options, read_token
from allotment.cli.reporter_options import FILE_TYPE, ClusterAccess, cluster_access_options
from allotment.cli.service import metrics_option
from allotment.problems import OperationRefused

if TYPE_CHECKING:
    from allotment.adapters.declaration_source import Source
    from allotment.adapters.forge.forge import Token
    from allotment.adapters.git.repository import Repository
    from allotment.services.platform_settings import BranchUrls
    from allotment.services.publish.publish_loop import PublishLoop
    from allotment.services.pull_requests.comment_loop import CommentLoop, PullServices
    from allotment.services.pull_requests.plan_sandbox import PlanBudget
    from allotment.services.reporter.reporter import Reporter

_FORGE_PARAMETERS = ("forge_token_file", "forge_api", "plan_seconds", "plan_megabytes")


@click.command(context_settings={"auto_envvar_prefix": "ALLOT"})
@click.option("--publish", is_flag=True, help="Publish the source's newest commit to the rendered branches.")
@click.option("--report", "cluster", metavar="CLUSTER", help="Report this cluster to its status branch.")
@click.option(
    "--comment",
    is_flag=True,
    help="Comment on pull requests what they would change, and how far merges are; beside the others, as another process.",
)
@click.option("--source", metavar="URL", required=True, help="The repository of declarations.")
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch that counts.")
@click.option(
    "--to",
    metavar="URL",
    help="The repository to publish to; spec.git.rendered of the platform, or the source, if absent.",
)
@click.option(
    "--status",
    metavar="URL",
    help="The repository of the status branches; spec.git.status, or the one that is published to, if absent.",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for its own clones; may be lost.",
)
@click.option(
    "--interval",
    default=30.0,
    show_default=True,
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="How often to look.",
)
@click.option(
    "--report-interval",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Between two commits of a status, at least.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Where /healthz, /readyz and /webhook are.",
)
@metrics_option
@click.option(
    "--webhook-secret-file",
    type=FILE_TYPE,
    help="A file with the secret that the forge signs webhooks with; without one any POST to /webhook is taken.",
)
@click.option("--child", is_flag=True, hidden=True, help="Be a part of another process, which says when to look.")
@click.option(
    "--tenant-seconds",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="The processor time that one tenant may take of a publish; who takes more is kept as published before.",
)
@forge_options
@cluster_access_options
def command(
    *,
    publish: bool,
    cluster: str | None,
    comment: bool,
    source: str,
    branch: str,
    to: str | None,
    status: str | None,
    data: Path,
    interval: float,
    report_interval: float,
    listen: str,
    metrics_listen: str | None,
    webhook_secret_file: Path | None,
    child: bool,
    tenant_seconds: float,
    forge_token_file: Path | None,
    forge_api: str | None,
    plan_seconds: float,
    plan_megabytes: float,
    **more: Any,
) -> None:
    """Look at the source again and again, and publish what is merged; watch a cluster, and report what it runs;
    comment on pull requests.

    POST /webhook makes it look at once, and again after 5 seconds at the earliest; it carries nothing that is
    believed, but with a secret nobody else can make it look (X-Hub-Signature-256, X-Gitea-Signature,
    X-Gitlab-Token). SIGTERM ends it after what it is doing. Options can be given as ALLOT_SOURCE, ALLOT_TO and so
    on.

    \b
    Examples:
      allot run --source https://git.example.com/acme/gpus --publish --data /data
      allot run --source https://git.example.com/acme/gpus --report eu-1 --data /data
    """
    from allotment.adapters.git.clone import Clone, release_clones
    from allotment.adapters.metrics import CommentMetrics, create_registry
    from allotment.cli.reporter_options import create_leadership, create_reporter
    from allotment.cli.service import (
        create_logger,
        freeze_heap,
        parse_addresses,
        read_secret,
        serve_http,
        stop_on_signals,
    )
    from allotment.services.pull_requests.comment_loop import CommentLoop
    from allotment.services.pull_requests.plan_sandbox import PlanBudget

    if not (publish or cluster or comment):
        raise click.UsageError("Say what to run: --publish, --report CLUSTER, --comment, or several of them.")
    click.get_current_context().call_on_close(release_clones)
    sight = ClusterAccess(**more)
    parse_addresses(listen, metrics_listen)
    secret = read_secret(webhook_secret_file) if webhook_secret_file else b""
    counts, log = create_registry(), create_logger()
    parts: list[PublishLoop | Reporter | CommentLoop | ChildProcess] = []

    def wake() -> None:
        for part in parts:
            part.wake()

    leader = create_leadership(sight, log, wake)
    leading = leader.is_leader if leader else lambda: True
    if publish:
        parts.append(
            _create_publish_loop(
                data,
                source,
                branch,
                to=to,
                status=status,
                interval=interval,
                counts=counts,
                log=log,
                leading=leading,
                signing_key=sight.signing_key,
                cpu_seconds=tenant_seconds,
            )
        )
    if cluster is not None:
        clone = Clone.open_or_create(data / "report")
        rendered, reported = clone.run_with_repair(lambda: _find_branch_urls(clone, source, branch, to, status))
        parts.append(
            create_reporter(
                cluster,
                sight,
                clone,
                status=reported,
                rendered=rendered,
                interval=report_interval,
                counts=counts,
                log=log,
                leading=leading,
                written=wake,
            )
        )
    if comment and parts:
        read_token(forge_token_file)
        words = _build_arguments(
            click.get_current_context(), ("source", "branch", "to", "status", "data", "interval", *_FORGE_PARAMETERS)
        )
        parts.append(ChildProcess(["run", "--comment", "--child", *words], log, leading=leading))
    elif comment:
        token = read_token(forge_token_file)
        budget = PlanBudget(plan_seconds, plan_megabytes)
        begin = partial(
            _open_pull_services,
            data / "comment",
            source,
            branch,
            token=token,
            api=forge_api,
            to=to,
            status=status,
            budget=budget,
        )
        parts.append(CommentLoop(begin, CommentMetrics(counts), log, interval, leading=leading))

    freeze_heap()

    def alive() -> bool:
        return all(part.alive() for part in parts)

    def ready() -> bool:
        return all(part.ready() for part in parts)

    stops = [part.stop for part in parts]
    if child:
        with stop_on_signals(*stops), wake_on_input(wake, *stops):
            parts[0].run()
        return
    with (
        serve_http(listen, metrics_listen, counts, alive=alive, ready=ready, woken=wake, secret=secret) as at,
        stop_on_signals(*stops),
    ):
        if leader:
            leader.start()
        does = (
            {"source": parts[0].display_url, "branch": branch} if publish else {"cluster": cluster, "comment": comment}
        )
        log.info("started", listen=at.listen, metrics=at.metrics, **does)
        threads = [threading.Thread(target=part.run, name=type(part).__name__) for part in parts[1:]]
        for thread in threads:
            thread.start()
        parts[0].run()
        for thread in threads:
            thread.join()
    log.info("stopped")


def _build_arguments(context: click.Context, names: tuple[str, ...]) -> list[str]:
    """Return options as this process was given them, as words for another one."""
    words = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in names and value is not None:
            words += [parameter.opts[0], str(value)]
    return words


def _open_pull_services(
    data: Path,
    source: str,
    branch: str,
    *,
    token: Token,
    api: str | None,
    to: str | None,
    status: str | None,
    budget: PlanBudget,
) -> PullServices:
    from allotment.adapters.git.clone import Clone
    from allotment.adapters.git.remote import Remote

    clone = Clone.open_or_create(data)
    origin = Remote(clone, source, keep=True)
    cache = data.with_name("cache")
    return clone.run_with_repair(
        lambda: create_pull_services(
            data, origin, branch, token, api, rendered=to, status=status, budget=budget, cache=cache
        )
    )


def _find_branch_urls(
    repository: Repository, source: str, branch: str, to: str | None, status: str | None
) -> BranchUrls:
    """Return where the newest commit says that the rendered and the status branches are, unless both are said."""
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.adapters.git.remote import Remote
    from allotment.services.platform_settings import BranchUrls, resolve_branch_urls

    if to and status:
        return BranchUrls(to, status)
    name = f"refs/heads/{branch}"
    tip = Remote(repository, source, keep=True).fetch(name).get(name)
    if tip is None:
        raise OperationRefused(f"the source has no branch {branch}, which says where its status belongs")
    return resolve_branch_urls(CommitSource(repository.folder, tip, repository), source, to, status)


def _create_publish_loop(
    data: Path,
    source: str,
    branch: str,
    *,
    to: str | None,
    status: str | None,
    interval: float,
    counts: Any,
    log: Any,
    leading: Any,
    signing_key: Path | None,
    cpu_seconds: float,
) -> PublishLoop:
    from allotment.adapters.git.clone import Clone
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.metrics import Metrics
    from allotment.cli.options import choose_day
    from allotment.services.platform_settings import resolve_branch_urls
    from allotment.services.publish.publish_loop import PublishLoop
    from allotment.services.publish.publisher import Publisher
    from allotment.services.publish.release_builder import ReleaseBuilder

    repository = Clone.open_or_create(data)
    remote = lru_cache(partial(Remote, repository, keep=True))

    def declared(commit_source: Source) -> tuple[Remote, Remote]:
        rendered, reported = resolve_branch_urls(commit_source, source, to, status)
        return remote(rendered), remote(reported)

    origin, name = remote(source), f"refs/heads/{branch}"
    publisher = Publisher(
        data,
        remote(to or source),
        ReleaseBuilder(processes=1, cpu_seconds=cpu_seconds),  # a process with threads is not forked
        lambda commit_source: choose_day(commit_source, None),
        places=declared,
        tip=lambda: origin.fetch(name).get(name),
        signing_key=signing_key,
    )
    return PublishLoop(origin, branch, publisher, Metrics(counts), log, interval, leading=leading)

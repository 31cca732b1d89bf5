"""`allot run`: publishes, reports and comments in the background, as a process in a cluster."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.comment_options import branch_option, forge_options
from allotment.cli.options import FiniteRange
from allotment.cli.reporter_options import FILE_TYPE, ClusterAccess, cluster_access_options
from allotment.cli.service import metrics_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allotment.cli.run_parts import RunPart


@click.command(context_settings={"auto_envvar_prefix": "ALLOT"})
@click.option("--publish", is_flag=True, help="Publish the source's newest commit to the rendered branches.")
@click.option("--report", "cluster", metavar="CLUSTER", help="Report this cluster to its status branch.")
@click.option(
    "--comment",
    is_flag=True,
    help="Comment on pull requests with their plans and the rollout of merges. With other services, it runs in a child process.",
)
@click.option(
    "--portal", is_flag=True, help="Build the pages of the portal whenever something changes, and serve them."
)
@click.option(
    "--portal-listen",
    default="127.0.0.1:8082",
    show_default=True,
    metavar="HOST:PORT",
    help="The address of the portal. Only the gateway, which checks the login, may reach it.",
)
@click.option(
    "--portal-secret-file",
    type=FILE_TYPE,
    help="The file with the credential of the gateway. With it, the portal believes only logins with this credential. It must be"
    " in the Secret of spec.portal.proxySecretName of the platform.",
)
@click.option(
    "--cordons",
    "cordoned_cluster",
    metavar="CLUSTER",
    help="Apply the declared cordons of this cluster to its nodes. Needs rights of its own: run it as a process of its own.",
)
@click.option("--source", metavar="URL", required=True, help="The repository of declarations.")
@branch_option
@click.option(
    "--to",
    metavar="URL",
    help="The repository to publish to. Default: spec.git.rendered of the platform, or the source.",
)
@click.option(
    "--status",
    metavar="URL",
    help="The repository of the status branches. Default: spec.git.status of the platform, or the repository of --to.",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the clones. It can be deleted at any time.",
)
@click.option(
    "--interval",
    default=30.0,
    show_default=True,
    type=FiniteRange(1),
    metavar="SECONDS",
    help="The time between two checks for new commits.",
)
@click.option(
    "--report-interval",
    default=60.0,
    show_default=True,
    type=FiniteRange(0),
    metavar="SECONDS",
    help="The minimum time between two commits of a status.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="The address of /healthz, /readyz and /webhook.",
)
@metrics_option
@click.option(
    "--webhook-secret-file",
    type=FILE_TYPE,
    help="The file with the secret that signs webhooks. Without it, every POST to /webhook is accepted.",
)
@click.option(
    "--child", is_flag=True, hidden=True, help="Run as a child of another process, which triggers each check."
)
@click.option(
    "--tenant-seconds",
    default=5.0,
    show_default=True,
    type=FiniteRange(0.1),
    metavar="SECONDS",
    help="The processor time that one tenant may use in a publish. A tenant that exceeds it is retained.",
)
@forge_options
@cluster_access_options
def command(
    *,
    publish: bool,
    cluster: str | None,
    comment: bool,
    portal: bool,
    cordoned_cluster: str | None,
    portal_listen: str,
    portal_secret_file: Path | None,
    listen: str,
    metrics_listen: str | None,
    webhook_secret_file: Path | None,
    child: bool,
    **options: Any,
) -> None:
    """Run services in the background: publish merged commits, report the state of a cluster, comment on pull requests, serve the
    portal, and apply cordons.

    POST /webhook triggers a check at once, at most every 5 seconds. The services ignore its content. With a secret, only
    signed requests count (X-Hub-Signature-256, X-Gitea-Signature, X-Gitlab-Token). SIGTERM stops the services after their
    current task. Environment variables such as ALLOT_SOURCE and ALLOT_TO set the options; ALLOT_CLUSTER
    sets --report.

    \b
    Examples:
      allot run --source https://git.example.com/acme/gpus --publish --data /data
      allot run --source https://git.example.com/acme/gpus --report eu-1 --data /data
      allot run --source https://git.example.com/acme/gpus --portal --data /data
      allot run --source https://git.example.com/acme/gpus --cordons eu-1 --data /data
    """
    from allotment.adapters.child_process import wake_on_input
    from allotment.adapters.git.clone import release_clones
    from allotment.adapters.metrics import create_registry
    from allotment.cli.reporter_options import create_leadership
    from allotment.cli.run_parts import RunOptions, create_parts, find_branch, find_page_folder
    from allotment.cli.service import (
        ServiceContext,
        create_logger,
        freeze_heap,
        is_loopback,
        parse_addresses,
        read_secret,
        serve_http,
        serve_pages,
        stop_on_signals,
    )
    from allotment.portal.site.page_gate import PageGate

    if not (publish or cluster or comment or portal or cordoned_cluster):
        raise click.UsageError(
            "Name what to run: --publish, --report CLUSTER, --comment, --portal, --cordons CLUSTER, or several of them."
        )
    click.get_current_context().call_on_close(release_clones)
    access = ClusterAccess(**{name: options.pop(name) for name in ClusterAccess._fields})
    parse_addresses(listen, metrics_listen, {"--portal-listen": portal_listen} if portal else {})
    secret = read_secret(webhook_secret_file) if webhook_secret_file else b""
    credential = read_secret(portal_secret_file) if portal_secret_file else b""
    registry, log = create_registry(), create_logger()
    parts: list[RunPart] = []

    def wake() -> None:
        for part in parts:
            part.wake()

    if options["branch"] is None:
        branch = find_branch(options["data"], options["source"])
        options["branch"] = click.get_current_context().params["branch"] = branch  # the child process gets it too
    gate = PageGate(is_local=is_loopback(portal_listen), credential=credential) if portal else None
    leader = create_leadership(access, log, wake)
    context = ServiceContext(registry, log, leader.is_leader if leader else lambda: True, wake)
    parts += create_parts(
        RunOptions(access=access, **options),
        context,
        publish=publish,
        cluster=cluster,
        comment=comment,
        gate=gate,
        cordoned_cluster=cordoned_cluster,
    )
    freeze_heap()
    stops = [part.stop for part in parts]
    if child:
        with stop_on_signals(*stops), wake_on_input(wake, *stops):
            parts[0].run()
        return
    with (
        serve_http(
            listen,
            metrics_listen,
            registry,
            alive=lambda: all(part.alive() for part in parts),
            ready=lambda: all(part.ready() for part in parts),
            on_wake=wake,
            secret=secret,
        ) as addresses,
        serve_pages(portal_listen, find_page_folder(options["data"]), gate)
        if gate is not None
        else nullcontext() as portal_address,
        stop_on_signals(*stops),
    ):
        if leader:
            leader.start()
        subject = {"cluster": cluster, "comment": comment}
        if publish:
            subject = {"source": parts[0].display_url, "branch": options["branch"]}
        if portal:
            subject["portal"] = portal_address
        log.info("started", listen=addresses.listen, metrics=addresses.metrics, **subject)
        _run_parts(parts)
    log.info("stopped")


def _run_parts(parts: Sequence[RunPart]) -> None:
    """Run the first part in this thread, and each other part in a thread of its own, until all parts end."""
    threads = [threading.Thread(target=part.run, name=type(part).__name__) for part in parts[1:]]
    for thread in threads:
        thread.start()
    parts[0].run()
    for thread in threads:
        thread.join()

"""`allot report`: watches a cluster, and commits the state of the cluster to its status branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from allotment.cli.options import FiniteRange
from allotment.cli.reporter_options import ClusterAccess, cluster_access_options
from allotment.cli.service import metrics_option


@click.command(context_settings={"auto_envvar_prefix": "ALLOT"})
@click.option("--cluster", metavar="NAME", required=True, help="The declared cluster to report.")
@click.option("--to", metavar="URL", required=True, help="The repository with the branch status/CLUSTER.")
@click.option("--rendered", metavar="URL", help="The repository that Argo CD reads. Default: the same repository.")
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the clone. It can be deleted at any time.",
)
@click.option(
    "--interval",
    default=60.0,
    show_default=True,
    type=FiniteRange(0),
    metavar="SECONDS",
    help="The minimum time between two commits.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8081",
    show_default=True,
    metavar="HOST:PORT",
    help="The address of /healthz and /readyz.",
)
@metrics_option
@click.option("--once", is_flag=True, help="Report the current state once, and exit.")
@cluster_access_options
def command(
    *,
    cluster: str,
    to: str,
    rendered: str | None,
    data: Path,
    interval: float,
    listen: str,
    metrics_listen: str | None,
    once: bool,
    **more: Any,
) -> None:
    """Watch a cluster and its Argo CD, and commit their state to the branch status/CLUSTER.

    The reporter commits a change at once, then at most one commit for each interval. It never forces a push. SIGTERM stops
    it. Environment variables such as ALLOT_CLUSTER and ALLOT_TO set the options.

    \b
    Examples:
      allot report --cluster eu-1 --to https://git.example.com/acme/gpus --data /data
      allot report --cluster eu-1 --to https://git.example.com/acme/gpus --data ~/.cache/allot-eu-1 --once
    """
    from allotment.adapters.git.clone import Clone, release_clones
    from allotment.adapters.metrics import create_registry
    from allotment.branches.platform_settings import BranchUrls
    from allotment.cli.reporter_options import create_leadership, create_reporter
    from allotment.cli.service import (
        ServiceContext,
        create_logger,
        freeze_heap,
        parse_addresses,
        serve_http,
        stop_on_signals,
    )
    from allotment.declared.layout import name_error

    if wrong := name_error(cluster, 24):
        raise click.UsageError(f"--cluster: {wrong}")
    click.get_current_context().call_on_close(release_clones)
    sight = ClusterAccess(**more)
    parse_addresses(listen, metrics_listen)
    counts, log = create_registry(), create_logger()
    leader = None if once else create_leadership(sight, log, lambda: None)
    context = ServiceContext(counts, log, leader.is_leader if leader else lambda: True, lambda: None)
    urls = BranchUrls(rendered or to, to)
    cluster_reporter = create_reporter(cluster, sight, Clone.open_or_create(data), urls, interval, context)
    freeze_heap()
    if once:
        cluster_reporter.report_once()
        return
    with (
        serve_http(
            listen,
            metrics_listen,
            counts,
            alive=cluster_reporter.alive,
            ready=cluster_reporter.ready,
            on_wake=lambda: None,
        ) as at,
        stop_on_signals(cluster_reporter.stop),
    ):
        if leader:
            leader.start()
        log.info("started", cluster=cluster, to=cluster_reporter.display_url, listen=at.listen, metrics=at.metrics)
        cluster_reporter.run()
    log.info("stopped")

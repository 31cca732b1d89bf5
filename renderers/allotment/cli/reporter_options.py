"""Creates the reporter of a cluster from command-line options, for `allot report` and `allot run`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from allotment.adapters.cluster.lease import Leadership
    from allotment.adapters.git.repository import Repository
    from allotment.adapters.log import Log
    from allotment.branches.platform_settings import BranchUrls
    from allotment.cli.service import ServiceContext
    from allotment.services.reporter.reporter import Reporter

FILE_TYPE = click.Path(dir_okay=False, exists=True, path_type=Path)


class ClusterAccess(NamedTuple):
    """The options for access to the API servers, for signed commits, and for the Lease of the leader election."""

    kubeconfig: Path | None
    context: str | None
    argocd_kubeconfig: Path | None
    argocd_context: str | None
    signing_key: Path | None
    lease: str | None


def cluster_access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context, --argocd-kubeconfig, --argocd-context, --signing-key and --lease."""
    for option in (
        click.option(
            "--lease",
            metavar="NAMESPACE/NAME",
            help="The Lease for leader election among replicas. Default: no election.",
        ),
        click.option("--signing-key", type=FILE_TYPE, help="A private SSH key that signs the commits."),
        click.option("--argocd-context", metavar="NAME", help="The context for the cluster where Argo CD runs."),
        click.option(
            "--argocd-kubeconfig",
            type=FILE_TYPE,
            help="The kubeconfig of the cluster where Argo CD runs. Default: Argo CD runs in the same cluster.",
        ),
        click.option("--context", metavar="NAME", help="The context in the kubeconfig."),
        click.option(
            "--kubeconfig",
            type=FILE_TYPE,
            help="The kubeconfig of the cluster. Default: the service account of a pod in the cluster, otherwise the usual kubeconfig.",
        ),
    ):
        command = option(command)
    return command


def create_leadership(sight: ClusterAccess, log: Log, on_wake: Callable[[], None]) -> Leadership | None:
    """Return a leader election that uses the Lease and is not started yet; None without --lease.

    The leader election calls `on_wake` when this replica becomes the leader, and when this replica stops being the
    leader.
    """
    if sight.lease is None:
        return None
    from allotment.adapters.cluster.api import ApiServer
    from allotment.adapters.cluster.lease import Leadership

    namespace, slash, name = sight.lease.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise click.UsageError(f"{sight.lease!r} is not in the format NAMESPACE/NAME")
    identity = f"{socket.gethostname()}_{os.getpid()}"

    def changed(leads: bool) -> None:
        log.info("leading" if leads else "standing by", lease=sight.lease, identity=identity)
        on_wake()

    return Leadership(ApiServer.from_kubeconfig(sight.kubeconfig, sight.context), namespace, name, identity, changed)


def create_reporter(
    cluster: str,
    sight: ClusterAccess,
    repository: Repository,
    urls: BranchUrls,
    interval: float,
    context: ServiceContext,
) -> Reporter:
    """Return the reporter of a cluster. Its watches of the API servers are already running, and stop with the command.

    The reporter commits to the repository `urls.status` at most once in `interval` seconds. `urls.rendered` is the
    repository that Argo CD reads.
    """
    from allotment.adapters.cluster.api import ApiServer
    from allotment.adapters.cluster.observed_objects import STOCKS_OWNER, ObservedObjects
    from allotment.adapters.cluster.watching import Watch, WatchTiming
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.metrics import ReportMetrics
    from allotment.manifests import names
    from allotment.observed.decoding import CLUSTER_KINDS, HUB_KINDS
    from allotment.services.reporter.observer import ClusterSession
    from allotment.services.reporter.reporter import Reporter, ReportTarget

    key = repository.sign_with(sight.signing_key) if sight.signing_key else None
    tenant_api = ApiServer.from_kubeconfig(sight.kubeconfig, sight.context)
    is_hub_separate = sight.argocd_kubeconfig is not None or sight.argocd_context is not None
    argocd_api = (
        ApiServer.from_kubeconfig(sight.argocd_kubeconfig or sight.kubeconfig, sight.argocd_context)
        if is_hub_separate
        else tenant_api
    )
    store = ObservedObjects(cluster)
    of_cluster = f"{names.MANAGED_BY_SELECTOR},{names.CLUSTER}={cluster}"
    watches = [Watch(tenant_api, kind, store) for kind in CLUSTER_KINDS]
    watches += [Watch(argocd_api, kind, store, WatchTiming(), of_cluster) for kind in HUB_KINDS]
    for watch in watches:
        watch.start()
        click.get_current_context().call_on_close(watch.stop)
    return Reporter(
        ClusterSession(cluster, watches, store, STOCKS_OWNER, tenant_api.server_time),
        ReportTarget(
            repository, Remote(repository, urls.status, keep=True), key, Remote(repository, urls.rendered, keep=True)
        ),
        ReportMetrics(cluster, context.registry),
        context.log,
        interval,
        is_leader=context.is_leader,
        on_commit=context.wake,
    )

"""The reporter of a cluster as its options describe it: for `allot report` and `allot run`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from allotment.adapters.cluster.lease import Leadership
    from allotment.adapters.git.repository import Repository
    from allotment.pipeline.log import Log
    from allotment.pipeline.report.reporting import Reporter

FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


class Sight(NamedTuple):
    """How the API servers are reached, and how commits are signed."""

    kubeconfig: Path | None
    context: str | None
    argocd_kubeconfig: Path | None
    argocd_context: str | None
    signing_key: Path | None
    lease: str | None


def sight_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context, the same of Argo CD's cluster, --signing-key and --lease."""
    for option in (
        click.option(
            "--lease",
            metavar="NAMESPACE/NAME",
            help="A Lease by which several replicas agree who works; none if absent.",
        ),
        click.option("--signing-key", type=FILE, help="A private SSH key that signs the commits."),
        click.option("--argocd-context", metavar="NAME", help="The context of the cluster that Argo CD runs in."),
        click.option(
            "--argocd-kubeconfig",
            type=FILE,
            help="How the cluster that Argo CD runs in is reached; as the cluster itself if absent.",
        ),
        click.option("--context", metavar="NAME", help="The kubeconfig's context."),
        click.option(
            "--kubeconfig",
            type=FILE,
            help="How the cluster is reached; if absent, as a pod in it, or else by the usual kubeconfig.",
        ),
    ):
        command = option(command)
    return command


def leadership(sight: Sight, log: Log, woken: Callable[[], None]) -> Leadership | None:
    """Return the competition for the Lease, not begun yet; None where there is none."""
    if sight.lease is None:
        return None
    from allotment.adapters.cluster.api import Api
    from allotment.adapters.cluster.lease import Leadership

    namespace, slash, name = sight.lease.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise click.UsageError(f"{sight.lease!r} is no NAMESPACE/NAME")
    identity = f"{socket.gethostname()}_{os.getpid()}"

    def changed(leads: bool) -> None:
        log.info("leading" if leads else "standing by", lease=sight.lease, identity=identity)
        woken()

    return Leadership(Api.at(sight.kubeconfig, sight.context), namespace, name, identity, changed)


def reporter(
    cluster: str,
    sight: Sight,
    repository: Repository,
    *,
    status: str,
    rendered: str,
    interval: float,
    counts: CollectorRegistry,
    log: Log,
    leading: Callable[[], bool],
    written: Callable[[], None],
) -> Reporter:
    """Return what reports a cluster to the repository at `status`; its watches have begun.

    `rendered` is the repository whose rendered branch Argo CD reads.
    """
    from allotment.adapters.cluster.api import Api
    from allotment.adapters.cluster.store import STOCKS, Store
    from allotment.adapters.cluster.watching import Pace, Watch
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.metrics import ReportMetrics
    from allotment.manifests import names
    from allotment.observed.decoding import APPLICATIONS, IN_CLUSTER
    from allotment.pipeline.report.observing import Seeing
    from allotment.pipeline.report.reporting import Destination, Reporter

    key = repository.sign_with(sight.signing_key) if sight.signing_key else None
    here = Api.at(sight.kubeconfig, sight.context)
    apart = sight.argocd_kubeconfig is not None or sight.argocd_context is not None
    hub = Api.at(sight.argocd_kubeconfig or sight.kubeconfig, sight.argocd_context) if apart else here
    store = Store(cluster)
    of_cluster = f"{names.OURS},{names.CLUSTER}={cluster}"
    watches = [Watch(here, kind, store) for kind in IN_CLUSTER]
    watches.append(Watch(hub, APPLICATIONS, store, Pace(), of_cluster))
    for watch in watches:
        watch.start()
    return Reporter(
        Seeing(cluster, watches, store, STOCKS, here.now),
        Destination(repository, Remote(repository, status, keep=True), key, Remote(repository, rendered, keep=True)),
        ReportMetrics(cluster, counts),
        log,
        interval,
        leading=leading,
        written=written,
    )

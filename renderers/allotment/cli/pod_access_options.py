"""Provides the arguments, the access and the errors of all commands that reach a pod with the rights of the caller."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from allotment.cli.completers import complete_containers
from allotment.cli.options import find_repository, open_source, repository_option
from allotment.cli.reporter_options import FILE_TYPE
from allotment.cli.status_options import split_resource_name
from allotment.problems import OperationRefused, escape_unprintable

if TYPE_CHECKING:
    from allotment.access.pods.pod_access import PodAccess
    from allotment.access.pods.pod_choice import PodOwner
    from allotment.adapters.cluster.api import ApiServer
    from allotment.observed.objects import Pod


_CONTEXT_OPTION = click.option(
    "--context",
    metavar="NAME",
    help="The context in the kubeconfig. Default: the context named as the cluster, otherwise the current context.",
)
_KUBECONFIG_OPTION = click.option("--kubeconfig", type=FILE_TYPE, help="The kubeconfig. Default: the usual kubeconfig.")


def pod_access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --pod, --container, --argocd, --kubeconfig, --context and --repo."""
    for option in (
        repository_option,
        _CONTEXT_OPTION,
        _KUBECONFIG_OPTION,
        click.option(
            "--argocd",
            is_flag=True,
            help="Use your login of `argocd login`. Default: your kubeconfig, or this login without a kubeconfig.",
        ),
        click.option(
            "--container",
            metavar="NAME",
            shell_complete=complete_containers,
            help="The container of the pod. Default: the container that determines the state of the pod.",
        ),
        click.option(
            "--pod", metavar="NAME", help="The pod. Default: the newest pod that runs, otherwise the newest pod."
        ),
    ):
        command = option(command)
    return command


def kubeconfig_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context and --repo."""
    for option in (repository_option, _CONTEXT_OPTION, _KUBECONFIG_OPTION):
        command = option(command)
    return command


def require_stdout() -> None:
    """Raise OperationRefused if standard output is closed. Python sets `sys.stdout` to None then."""
    if sys.stdout is None:
        raise OperationRefused("standard output is closed")


class PodTarget(NamedTuple):
    """The pod that a command reaches, one of `pod_count` pods of its owner."""

    access: PodAccess
    owner: PodOwner
    pod: Pod
    pod_count: int

    @contextmanager
    def explain_errors(self, action: str) -> Iterator[None]:
        """Turn an error of the server into OperationRefused, with the way out. `action` is the refused action."""
        with _explain_errors(self.access, self.owner, action):
            yield


def find_target(
    what: str, *, repo: Path | None, pod: str | None, kubeconfig: Path | None, context: str | None, argocd: bool
) -> PodTarget:
    """Return the pod of TENANT/NAME. Raises UsageError or OperationRefused."""
    from allotment.access.pods.pod_choice import choose_pod, find_owner
    from allotment.branches.platform_settings import read_platform

    tenant, name = split_resource_name(what)
    if not (tenant and name):
        raise click.UsageError(f"{escape_unprintable(what)} is not in the format TENANT/NAME, such as solo-ada/webui")
    if argocd and (kubeconfig or context):
        raise click.UsageError("--argocd needs no kubeconfig: omit --kubeconfig and --context, or --argocd")
    source = open_source(find_repository(repo), None)
    owner = find_owner(source, tenant, name)
    platform = read_platform(source)
    url = platform.spec.argocd.url if platform and platform.spec.argocd else ""
    access = _open_access(owner, url, kubeconfig, context, argocd)
    with _explain_errors(access, owner, "list pods"):
        pods = access.list_pods(owner)
    return PodTarget(access, owner, choose_pod(owner, pods, pod), len(pods))


def _open_access(owner: PodOwner, url: str, kubeconfig: Path | None, context: str | None, argocd: bool) -> PodAccess:
    """Return the access that the options choose, or else that with a kubeconfig, or else that with a login at Argo CD.

    `url` is the declared URL of Argo CD; empty if it is not declared.
    """
    from allotment.access.pods.pod_access import ArgoCDAccess, KubernetesAccess
    from allotment.adapters.argocd.login import find_login
    from allotment.adapters.argocd.server import ArgoCDServer

    contexts = [] if argocd else find_contexts(kubeconfig)
    host = url.removeprefix("https://").rstrip("/") or "HOST"
    if argocd or not (contexts or kubeconfig or context):
        login = find_login(url)
        if login is not None:
            return ArgoCDAccess(ArgoCDServer(login))
        if argocd:
            raise OperationRefused(
                f"there is no login at Argo CD{' at ' + url if url else ''}: log in with `argocd login {host}`, or set"
                " ARGOCD_SERVER and ARGOCD_AUTH_TOKEN"
            )
    try:
        return KubernetesAccess(open_kubeconfig(owner.cluster, kubeconfig, context))
    except OperationRefused as error:
        status = f", and `allot status {owner.tenant}/{owner.name}` prints the link to a terminal"
        terminal = status if owner.kind == "instance" else ""
        browser = f"the browser shows the log at {owner.log_page(url)}{terminal}; for this command, " if url else ""
        raise OperationRefused(f"{browser}{error}; without a kubeconfig, log in with `argocd login {host}`") from None


def find_contexts(kubeconfig: Path | None) -> list[str]:
    """Return the names of the contexts in a kubeconfig; none if it can't be read, or without the client of Kubernetes."""
    try:
        from allotment.adapters.cluster.api import list_contexts
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kubernetes":
            raise
        return []
    return list_contexts(kubeconfig)


def open_kubeconfig(cluster: str, kubeconfig: Path | None, context: str | None) -> ApiServer:
    """Return the API server of a cluster. Raises OperationRefused if no API server is configured."""
    from allotment.adapters.cluster.api import ApiServer

    if context is None and cluster in find_contexts(kubeconfig):
        context = cluster
    return ApiServer.from_kubeconfig(kubeconfig, context)


@contextmanager
def _explain_errors(access: PodAccess, owner: PodOwner, action: str) -> Iterator[None]:
    from allotment.adapters.http_responses import ApiError, ApiUnavailable

    try:
        yield
    except ApiUnavailable as error:
        raise OperationRefused(f"{access.host} doesn't answer: {error}") from None
    except ApiError as error:
        raise OperationRefused(access.explain_refusal(owner, action, error)) from None

"""Accesses the pods of a resource with the rights of the caller: through the API server, or through Argo CD."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from allotment.access.pods.pod_choice import PodOwner
from allotment.adapters.argocd.pods import ApplicationPods
from allotment.adapters.argocd.server import ArgoCDServer
from allotment.adapters.cluster.pod_exec import ExecOptions, start_command
from allotment.adapters.cluster.pod_log import LogOptions, list_pods, stream_log
from allotment.adapters.http_responses import ApiError
from allotment.adapters.remote_process import RemoteProcess
from allotment.manifests import names
from allotment.observed.objects import Pod
from allotment.problems import OperationRefused

if TYPE_CHECKING:
    from allotment.adapters.cluster.api import ApiServer

_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class PodAccess(Protocol):
    """A way to the pods of resources. Its methods raise ApiError or ApiUnavailable."""

    @property
    def host(self) -> str:
        """The URL of the server."""
        ...

    def list_pods(self, owner: PodOwner) -> list[Pod]:
        """Return the pods of a resource."""
        ...

    def stream_log(self, owner: PodOwner, pod: str, options: LogOptions) -> Iterator[bytes]:
        """Yield the log of a container in pieces of any length."""
        ...

    def start_command(self, owner: PodOwner, pod: str, options: ExecOptions) -> RemoteProcess:
        """Start a command, or a shell if there is no command, in a container. Raises OperationRefused if it can't."""
        ...

    def explain_refusal(self, owner: PodOwner, action: str, error: ApiError) -> str:
        """Return why the server refused an action, and the way out."""
        ...


class KubernetesAccess:
    """Access through the API server of the resource's cluster, with a kubeconfig."""

    # An image has at least one of these shells, or the user names a command.
    SHELL = ("/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi")

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    @property
    def host(self) -> str:
        """The URL of the API server."""
        return self._api.host

    def list_pods(self, owner: PodOwner) -> list[Pod]:
        """Return the pods of a resource."""
        return list_pods(self._api, owner.namespace, owner.selector)

    def stream_log(self, owner: PodOwner, pod: str, options: LogOptions) -> Iterator[bytes]:
        """Yield the log of a container in pieces of any length."""
        return stream_log(self._api, owner.namespace, pod, options)

    def start_command(self, owner: PodOwner, pod: str, options: ExecOptions) -> RemoteProcess:
        """Start a command, or a shell if there is no command, in a container."""
        return start_command(
            self._api, owner.namespace, pod, options._replace(command=options.command or KubernetesAccess.SHELL)
        )

    def explain_refusal(self, owner: PodOwner, action: str, error: ApiError) -> str:
        """Return why the API server refused an action, and the way out."""
        if error.status in _REFUSALS:
            return (
                f"your kubeconfig doesn't let you {action} in namespace {owner.namespace} of {owner.cluster}: use another"
                " --context, or --argocd if you are a member of the tenant"
            )
        return f"{self.host} refused to {action}: {error.message or error}"


class ArgoCDAccess:
    """Access through Argo CD, by the role that the Members of the tenant give to the user."""

    def __init__(self, server: ArgoCDServer) -> None:
        self._server = server

    @property
    def host(self) -> str:
        """The URL of Argo CD."""
        return self._server.url

    def list_pods(self, owner: PodOwner) -> list[Pod]:
        """Return the pods of a resource."""
        return [pod for pod in self._pods_of(owner).list_pods(f"{owner.name}-") if owner.owns(pod)]

    def stream_log(self, owner: PodOwner, pod: str, options: LogOptions) -> Iterator[bytes]:
        """Yield the log of a container, line by line."""
        if options.tail_lines == 0:
            raise OperationRefused(
                "Argo CD can't print a log without its earlier lines: use --since instead of --tail 0"
            )
        return self._pods_of(owner).stream_log(pod, options)

    def start_command(self, owner: PodOwner, pod: str, options: ExecOptions) -> RemoteProcess:
        """Open a shell in a container."""
        if options.command or not options.is_terminal:
            raise OperationRefused(
                "Argo CD opens a shell on a terminal only: type the command there, or use a kubeconfig that permits pods/exec"
            )
        return self._pods_of(owner).open_terminal(pod, options.container)

    def explain_refusal(self, owner: PodOwner, action: str, error: ApiError) -> str:
        """Return why Argo CD refused an action, and the way out."""
        if error.status == HTTPStatus.UNAUTHORIZED and action == "list pods":
            return f"your login at {self.host} has expired: log in again with `argocd login`"
        if error.status in _REFUSALS:
            return (
                f"{self.host} doesn't let you {action} of tenant {owner.tenant}: Admins and Members may, as"
                f" tenants/{owner.tenant}/members.yaml lists them"
            )
        return f"{self.host} refused to {action}: {error.message or error}"

    def _pods_of(self, owner: PodOwner) -> ApplicationPods:
        project = names.project(owner.tenant, owner.cluster)
        return ApplicationPods(self._server, owner.application, project, names.ARGO_NAMESPACE, owner.namespace)

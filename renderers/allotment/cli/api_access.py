"""Provides the options that name an API server, and its errors, for all commands that use the rights of the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.reporter_options import FILE_TYPE
from allotment.problems import OperationRefused

if TYPE_CHECKING:
    from allotment.adapters.cluster.api import ApiServer
    from allotment.services.pod_choice import PodOwner


def api_access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig and --context."""
    for option in (
        click.option(
            "--context",
            metavar="NAME",
            help="The context in the kubeconfig. Default: the context named as the cluster, otherwise the current context.",
        ),
        click.option("--kubeconfig", type=FILE_TYPE, help="The kubeconfig. Default: the usual kubeconfig."),
    ):
        command = option(command)
    return command


def open_api(cluster: str, kubeconfig: Path | None, context: str | None) -> ApiServer:
    """Return the API server of a cluster. Raises OperationRefused if no API server is configured."""
    from allotment.adapters.cluster.api import ApiServer, list_contexts

    if context is None and cluster in list_contexts(kubeconfig):
        context = cluster
    return ApiServer.from_kubeconfig(kubeconfig, context)


@contextmanager
def explain_errors(api: ApiServer, owner: PodOwner, action: str) -> Iterator[None]:
    """Turn an error of the API server into OperationRefused, with the way out. `action` is the refused action."""
    from allotment.adapters.cluster.api import ApiError, ApiUnavailable

    try:
        yield
    except ApiUnavailable as error:
        raise OperationRefused(f"{api.host} doesn't answer: {error}") from None
    except ApiError as error:
        if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise OperationRefused(
                f"your kubeconfig doesn't let you {action} in namespace {owner.namespace} of {owner.cluster}. Argo CD may: `allot"
                f" status {owner.tenant}/{owner.name}` prints the link, and another --context other rights"
            ) from None
        raise OperationRefused(f"{api.host} refused to {action}: {error}") from None

"""Opens connections to the file server of a storage with the rights of the caller."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from http import HTTPStatus

from allotment.adapters.cluster.api import ApiError, ApiServer, ApiUnavailable
from allotment.adapters.cluster.pod_log import list_pods
from allotment.adapters.cluster.port_forward import forward_port
from allotment.adapters.declaration_source import Source
from allotment.adapters.file_server import FileServer, TransferError
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.manifests import names
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.services.access.pod_choice import read_tenant
from allotment.services.copy.transfer import REQUEST_SECONDS

_BLOCK_BYTES = 1 << 20
_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def find_storage(source: Source, tenant: str, name: str) -> DeclarationFile[GPUStorage]:
    """Return a declared storage with an accessor. Raises OperationRefused, with similar names or the way out."""
    folder = read_tenant(source, tenant)
    storage = folder.of_kind(GPUStorage).get(name)
    if storage is None:
        from allotment.declared.reading import suggest_name

        raise OperationRefused(
            f"{escape_unprintable(tenant)} declares no valid storage named {quote_value(name)}"
            f"{suggest_name(name, folder.of_kind(GPUStorage))}"
        )
    if storage.model.spec.accessor is None:
        raise OperationRefused(
            f"storage {tenant}/{name} has no file server: write `accessor: {{}}` below `spec:` in {storage.path}, and open a pull"
            " request"
        )
    return storage


def require_writable(storage: DeclarationFile[GPUStorage], tenant: str) -> None:
    """Raise OperationRefused if the declared accessor of a storage doesn't permit that files are changed."""
    accessor = storage.model.spec.accessor
    if accessor is not None and not accessor.allows_writing:
        raise OperationRefused(
            f"storage {tenant}/{storage.model.name} can't be written to: write `accessor: {{mode: ReadWrite}}` below `spec:` in"
            f" {storage.path}, and open a pull request"
        )


def forward_files(api: ApiServer, tenant: str, storage: str) -> Callable[[], FileServer]:
    """Return a function that connects to the file server of a storage through the API server, with a kubeconfig.

    The pod is chosen for each connection, so that a copy continues after a restart of the file server. Raises
    OperationRefused if there is no pod, or if the kubeconfig doesn't permit the connection.
    """
    namespace = names.namespace(tenant)
    selector = f"{names.STORAGE}={storage},{names.ROLE}={names.FILES_ROLE}"

    def connect() -> http.client.HTTPConnection:
        try:
            pods = [pod for pod in list_pods(api, namespace, selector) if pod.ready and not pod.terminating]
            if not pods:
                raise TransferError("the file server does not run", is_temporary=True)
            return _ForwardedConnection(api, namespace, pods[0].name)
        except ApiUnavailable as error:
            raise TransferError(f"{api.host} doesn't answer: {error}", is_temporary=True) from None
        except ApiError as error:
            if error.status in _REFUSALS:
                raise OperationRefused(
                    f"your kubeconfig doesn't let you list pods and forward ports in namespace {namespace}: use another --context"
                ) from None
            raise TransferError(
                f"{api.host} refused the connection: {error}", is_temporary=error.status >= 500
            ) from None

    return lambda: FileServer(connect, {})


class _ForwardedConnection(http.client.HTTPConnection):
    """An HTTP connection to the file server in a pod."""

    def __init__(self, api: ApiServer, namespace: str, pod: str) -> None:
        super().__init__("files", names.FILES_PORT, timeout=REQUEST_SECONDS, blocksize=_BLOCK_BYTES)
        self.sock = forward_port(api, namespace, pod, names.FILES_PORT)
        self.sock.settimeout(REQUEST_SECONDS)

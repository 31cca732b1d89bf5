"""Opens connections to the file server of a storage with the rights of the caller."""

from __future__ import annotations

import datetime
import http.client
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from allotment.access.pods.pod_choice import read_tenant
from allotment.adapters.cluster.pod_log import list_pods
from allotment.adapters.cluster.port_forward import forward_port
from allotment.adapters.declaration_source import Source
from allotment.adapters.file_server import REQUEST_SECONDS, FileServer, TransferError
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import PLATFORM
from allotment.declared.reading import read_folder
from allotment.manifests import names
from allotment.preparation.sources import is_bucket, is_single_writer
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.rules.accessors import explain_copy, list_running_users
from allotment.services.check.workers import read_scope

if TYPE_CHECKING:
    from allotment.adapters.cluster.api import ApiServer

_BLOCK_BYTES = 1 << 20
_TOKEN_SECONDS = 10.0  # the age at which a token is read again; the stored token is valid for longer
_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def find_storage(source: Source, tenant: str, name: str, *, is_upload: bool = False) -> DeclarationFile[GPUStorage]:
    """Return a declared storage with an accessor, which permits an upload if `is_upload` is true.

    Raises OperationRefused, with similar names or the way out.
    """
    folder = read_tenant(source, tenant)
    storage = folder.of_kind(GPUStorage).get(name)
    if storage is None:
        from allotment.declared.reading import suggest_name

        raise OperationRefused(
            f"{escape_unprintable(tenant)} declares no valid storage named {quote_value(name)}"
            f"{suggest_name(name, folder.of_kind(GPUStorage))}"
        )
    if is_upload:
        _check_users(source, folder, storage.model)
    if storage.model.spec.accessor is None:
        if is_bucket(_read_catalog(source), storage.model):
            raise OperationRefused(
                f"{tenant}/{name} is a bucket, which has no file server: use an S3 client in an instance"
            )
        field = "accessor.mode=ReadWrite" if is_upload else "accessor={}"
        raise OperationRefused(
            f"storage {tenant}/{name} has no file server: `allot set storage/{tenant}/{name} {field} --pr` opens a pull request that"
            f" declares {'an accessor that writes; an Admin of the tenant approves it' if is_upload else 'an accessor'}"
        )
    if is_upload:
        _require_writable(storage, tenant)
    return storage


def _read_catalog(source: Source) -> Catalog:
    """Return the catalog without clusters, which the kind of a storage doesn't depend on."""
    platform = read_folder(PLATFORM, read_scope(source, PLATFORM).files)[0]
    return Catalog(platform, {}, datetime.datetime.now(datetime.UTC).date())


def _check_users(source: Source, folder: ScopeDeclarations, storage: GPUStorage) -> None:
    """Raise OperationRefused if a running instance mounts a ReadWriteOnce storage: no file server may change its files."""
    users = list_running_users(folder, storage.name)
    if users and is_single_writer(_read_catalog(source), storage):
        raise OperationRefused(
            f"storage {folder.name}/{storage.name} is ReadWriteOnce, and the running instance {users[0].model.name} mounts it, so"
            f" its file server can't write to it: stop the instance, `allot instance stop {folder.name}/{users[0].model.name} --pr`"
            f"{explain_copy(folder.name, storage.name, users)}"
        )


def _require_writable(storage: DeclarationFile[GPUStorage], tenant: str) -> None:
    """Raise OperationRefused if the declared accessor of a storage doesn't permit that files are changed."""
    accessor = storage.model.spec.accessor
    if accessor is not None and not accessor.allows_writing:
        raise OperationRefused(
            f"storage {tenant}/{storage.model.name} can't be written to: `allot set storage/{tenant}/{storage.model.name}"
            " accessor.mode=ReadWrite --pr` opens a pull request, which an Admin of that tenant approves"
        )


class FileAccess(ABC):
    """A way to the file server of a storage."""

    @abstractmethod
    def open(self) -> FileServer:
        """Return a connection. It connects with the first request, and again after an error."""

    @abstractmethod
    def explain_refusal(self, error: TransferError) -> str:
        """Return why the person may not do something, and the way out; the status of the error is 401 or 403."""

    def explain(self, error: TransferError, is_upload: bool) -> str:
        """Return why a copy failed, and the way out."""
        if error.status in _REFUSALS:
            return self.explain_refusal(error)
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and is_upload and not error.is_temporary:
            return f"{error}: the storage may be full"
        return str(error)


class ForwardedFiles(FileAccess):
    """Access through the API server, with a kubeconfig.

    The pod is chosen for each connection, so that a copy continues after a restart of the file server.
    """

    def __init__(self, api: ApiServer, tenant: str, storage: str) -> None:
        self._api, self._namespace = api, names.namespace(tenant)
        self._selector = f"{names.STORAGE}={storage},{names.ROLE}={names.FILES_ROLE}"

    def open(self) -> FileServer:
        """Return a connection. Its requests raise OperationRefused if the kubeconfig doesn't permit the connection."""
        return FileServer(self._connect)

    def explain_refusal(self, error: TransferError) -> str:
        """Return why the file server refused a request."""
        return (
            f"{error}: the file server runs with older settings; it accepts the request once the newest declarations are published"
            " and the storage is prepared"
        )

    def _connect(self) -> http.client.HTTPConnection:
        api = self._api
        try:
            pods = [pod for pod in list_pods(api, self._namespace, self._selector) if pod.ready and not pod.terminating]
            if not pods:
                raise TransferError("the file server does not run", is_temporary=True)
            return _ForwardedConnection(api, self._namespace, pods[0].name)
        except ApiUnavailable as error:
            raise TransferError(f"{api.host} doesn't answer: {error}", is_temporary=True) from None
        except ApiError as error:
            if error.status in _REFUSALS:
                raise OperationRefused(
                    f"your kubeconfig doesn't let you list pods and forward ports in namespace {self._namespace}: use another"
                    " --context, or --url if you are a member of the tenant"
                ) from None
            raise TransferError(
                f"{api.host} refused the connection: {error}", is_temporary=error.status >= 500
            ) from None


class PublishedFiles(FileAccess):
    """Access through the URL of a storage, with the token of a member of the tenant.

    `read_token` returns a valid ID token. Raises OperationRefused if the storage has no URL.
    """

    def __init__(
        self, cluster: Cluster, tenant: str, storage: GPUStorage, read_token: Callable[[Cluster], str]
    ) -> None:
        accessor = storage.spec.accessor
        if accessor is None or accessor.exposure == "Namespace":
            raise OperationRefused(
                f"storage {tenant}/{storage.name} has no URL, because the exposure of its accessor is Namespace: use a kubeconfig, or"
                " write exposure: Members"
            )
        self._cluster, self._tenant = cluster, tenant
        self._host = names.files_host(storage.name, tenant, cluster.spec.domain)
        self._is_public = accessor.exposure == "Public"
        self._read_token, self._lock = read_token, threading.Lock()
        self._token, self._token_read_at = "", -_TOKEN_SECONDS
        self._context = ssl.create_default_context()

    def open(self) -> FileServer:
        """Return a connection. Its requests raise OperationRefused without a login."""
        return FileServer(self._connect, self._create_headers)

    def explain_refusal(self, error: TransferError) -> str:
        """Return why the Gateway or the file server refused a request."""
        if error.status == HTTPStatus.UNAUTHORIZED:
            return (
                f"https://{self._host} doesn't accept your login: log in again with `allot login {self._cluster.name}`"
            )
        return (
            f"{error}: Admins and Members of {self._tenant} may change files, and Viewers may read them, as"
            f" tenants/{self._tenant}/members.yaml lists them; the file server accepts changes once `mode: ReadWrite` is published and the"
            " storage is prepared"
        )

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPSConnection(
            self._host, timeout=REQUEST_SECONDS, blocksize=_BLOCK_BYTES, context=self._context
        )

    def _create_headers(self) -> dict[str, str]:
        if self._is_public:
            return {}
        with self._lock:
            if time.monotonic() - self._token_read_at >= _TOKEN_SECONDS:
                self._token, self._token_read_at = self._read_token(self._cluster), time.monotonic()
            return {"Authorization": f"Bearer {self._token}"}


class _ForwardedConnection(http.client.HTTPConnection):
    """An HTTP connection to the file server in a pod."""

    def __init__(self, api: ApiServer, namespace: str, pod: str) -> None:
        super().__init__("files", names.FILES_PORT, timeout=REQUEST_SECONDS, blocksize=_BLOCK_BYTES)
        self.sock = forward_port(api, namespace, pod, names.FILES_PORT)
        self.sock.settimeout(REQUEST_SECONDS)

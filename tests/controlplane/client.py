"""A cluster's API as tests use it: objects in and out as plain dicts."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

if TYPE_CHECKING:  # its import takes a second, and most tests need no cluster
    from kubernetes.dynamic import DynamicClient

Object = dict[str, Any]
FIELD_MANAGER = "argocd-controller"  # we apply as Argo CD does
CONTENDED = (0.1, 0.4, 1.6)  # seconds between tries of a write whose quota others held
METADATA = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}


def _plain(_: object, answer: Object) -> Object:
    """An answer as JSON has it: what the library makes of it costs ten times as much, and is turned back."""
    return answer


def _sent(write: Callable[..., Object], *arguments: object, **options: object) -> Object:
    """Return what a write answers. The API server refuses one when others counted against its namespace's quota at the
    same moment, and says to try again; Argo CD does."""
    from kubernetes.dynamic.exceptions import ConflictError

    for pause in CONTENDED:
        try:
            return write(*arguments, **options)
        except ConflictError as error:
            if json.loads(error.body or "{}").get("details", {}).get("kind") != "resourcequotas":
                raise
            time.sleep(pause)
    return write(*arguments, **options)


class Client:
    """Talks to one API server as one user; every call raises kubernetes' ApiException when it is refused."""

    def __init__(self, kubeconfig: Path, token: str | None = None) -> None:
        self.kubeconfig = kubeconfig
        self.token = token
        self._known: dict[tuple[str, str], Any] = {}

    @cached_property
    def _api(self) -> DynamicClient:
        from kubernetes import client, config
        from kubernetes.dynamic import DynamicClient

        settings = client.Configuration()
        config.load_kube_config(str(self.kubeconfig), client_configuration=settings)
        if self.token is not None:
            settings.cert_file = settings.key_file = None
            settings.api_key = {"authorization": f"Bearer {self.token}"}
        folder = tempfile.mkdtemp(prefix="discovery-", dir=self.kubeconfig.parent)
        return DynamicClient(client.ApiClient(settings), cache_file=f"{folder}/discovery.json")

    def _kind(self, api_version: str, kind: str) -> Any:
        """Return where a kind is served: the library reads through all of them to find one."""
        kind_key = api_version, kind
        if kind_key not in self._known:
            self._known[kind_key] = self._api.resources.get(api_version=api_version, kind=kind)
        return self._known[kind_key]

    def apply(self, *objects: Object, dry_run: bool = False) -> list[Object]:
        """Return objects as the API server holds them after a server-side apply."""
        more = {"dry_run": "All"} if dry_run else {}
        return [
            _sent(
                self._api.server_side_apply,
                self._kind(manifest["apiVersion"], manifest["kind"]),
                body=manifest,
                name=manifest["metadata"]["name"],
                namespace=manifest["metadata"].get("namespace"),
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
                serializer=_plain,
                **more,
            )
            for manifest in objects
        ]

    def create(self, manifest: Object) -> Object:
        """Return an object as it was created."""
        kind = self._kind(manifest["apiVersion"], manifest["kind"])
        return _sent(
            self._api.create, kind, body=manifest, namespace=manifest["metadata"].get("namespace"), serializer=_plain
        )

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return one object; raises NotFoundError when it isn't there."""
        live_object: Object = self._api.get(
            self._kind(api_version, kind), name=name, namespace=namespace, serializer=_plain
        )
        return live_object

    def _listed(
        self, api_version: str, kind: str, namespace: str | None, labels: str, headers: dict[str, str]
    ) -> list[Object]:
        answer: Object = self._api.get(
            self._kind(api_version, kind),
            namespace=namespace,
            label_selector=labels,
            header_params=dict(headers),
            serializer=_plain,
        )
        objects: list[Object] = answer["items"] or []
        for live_object in objects:  # a list says once what its objects are
            live_object["apiVersion"], live_object["kind"] = api_version, kind
        return objects

    def metadata(self, api_version: str, kind: str, labels: str = "") -> list[Object]:
        """Return all objects of a kind with their metadata alone."""
        return self._listed(api_version, kind, None, labels, METADATA)

    def list(self, api_version: str, kind: str, namespace: str | None = None, labels: str = "") -> list[Object]:
        """Return all objects of a kind, of one namespace or of all."""
        return self._listed(api_version, kind, namespace, labels, {})

    def kinds(self) -> set[tuple[str, str]]:
        """Return API version and kind of everything that can be listed, each in its preferred version."""
        return {
            (api_resource.group_version, api_resource.kind)
            for api_resource in self._api.resources.search(preferred=True)
            if "list" in (api_resource.verbs or ()) and not api_resource.kind.endswith("List")
        }

    def patch(self, api_version: str, kind: str, name: str, change: Object, namespace: str | None = None) -> Object:
        """Return an object after a merge patch."""
        content = "application/merge-patch+json"
        patched: Object = self._api.patch(
            self._kind(api_version, kind),
            body=change,
            name=name,
            namespace=namespace,
            content_type=content,
            serializer=_plain,
        )
        return patched

    def patch_status(
        self, api_version: str, kind: str, name: str, status: Object, namespace: str | None = None
    ) -> None:
        """Merge something into an object's status, as its controller does it."""
        self._kind(api_version, kind).subresources["status"].patch(
            body={"status": status},
            name=name,
            namespace=namespace,
            content_type="application/merge-patch+json",
            serializer=_plain,
        )

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, *, dry_run: bool = False
    ) -> None:
        """Delete an object and what it owns; one that isn't there is fine."""
        from kubernetes.dynamic.exceptions import NotFoundError

        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        more = {"dry_run": "All"} if dry_run else {}
        try:
            self._api.delete(
                self._kind(api_version, kind), name=name, namespace=namespace, body=options, serializer=_plain, **more
            )
        except NotFoundError:
            return

    def ready(self) -> bool:
        """Return whether the API server answers, from what it has stored."""
        from kubernetes import client

        try:
            client.CoreV1Api(self._api.client).read_namespace("default", _request_timeout=2)
        except Exception:  # whatever keeps it from answering, it isn't ready
            return False
        return True

    def as_service_account(self, name: str, namespace: str) -> Client:
        """Return a client that is a service account, by a token that the API server issues for ten minutes."""
        from kubernetes import client

        accounts = client.CoreV1Api(self._api.client)
        request = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600)
        )
        issued = eventually(
            lambda: accounts.create_namespaced_service_account_token(name, namespace, request),
            f"a token of {namespace}/{name}",
        )
        assert issued.status is not None
        return Client(self.kubeconfig, issued.status.token)

    def install(self, crds: Iterable[Object]) -> None:
        """Apply CRDs and wait until the API server serves them."""
        names = [self.apply(crd)[0]["metadata"]["name"] for crd in crds]
        for name in names:
            eventually(partial(self._established, name), f"CRD {name} to be served")

    def _established(self, name: str) -> bool:
        status = self.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name).get("status", {})
        return any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in status.get("conditions", ())
        )


def refusal(call: Callable[..., object], *arguments: object, **options: object) -> str | None:
    """Return the API server's words when it refuses a call; None when it doesn't."""
    from kubernetes.dynamic.exceptions import DynamicApiError

    try:
        call(*arguments, **options)
    except DynamicApiError as error:
        return str(json.loads(error.body or "{}")["message"])
    return None

"""Defines the read-only queries to a cluster, and holds the answers to them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from allotment.diagnosis.diagnosis import Diagnosis, error, skipped
from allotment.manifests import names
from allotment.observed import decoding
from allotment.observed.decoding import WatchedKind

Object = dict[str, Any]
UNMANAGED_SELECTOR = f"{names.MANAGED_BY}!={names.PROGRAM_NAME}"


class ResourceQuery(NamedTuple):
    """A query for all objects of a resource, or, with a `name`, for one object.

    `selector` filters by labels, `namespace` by namespace. If `hub` is true, the objects are in the cluster of Argo CD. If
    `whole` is true, the objects are LiveObjects.
    """

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    selector: str = ""
    hub: bool = False
    whole: bool = False

    @property
    def path(self) -> str:
        """The path of the request."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{space}/{self.resource}" + (f"/{self.name}" if self.name else "")

    @property
    def api(self) -> str:
        """The API version, such as apps/v1."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def permission_text(self) -> str:
        """The permission that the query needs, in words."""
        qualified_name = f"{self.resource}.{self.group}" if self.group else self.resource
        name_suffix = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{'get' if self.name else 'list'} of {qualified_name}{name_suffix}{where}" + (
            " where Argo CD runs" if self.hub else ""
        )


NODES = ResourceQuery("", "v1", "nodes")
OTHER_PODS = ResourceQuery(
    "", "v1", "pods", selector=UNMANAGED_SELECTOR
)  # the selector excludes our own pods, because they are many, and no check needs them
STORAGE_CLASSES = ResourceQuery("storage.k8s.io", "v1", "storageclasses")
SNAPSHOT_CLASSES = ResourceQuery("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses")
GATEWAYS = ResourceQuery("gateway.networking.k8s.io", "v1", "gateways")
GATEWAY_CLASSES = ResourceQuery("gateway.networking.k8s.io", "v1", "gatewayclasses")
CERTIFICATES = ResourceQuery("cert-manager.io", "v1", "certificates")
SECURITY_POLICIES = ResourceQuery(
    "gateway.envoyproxy.io", "v1alpha1", "securitypolicies", selector=names.MANAGED_BY_SELECTOR
)
EXTENSION_POLICIES = ResourceQuery(
    "gateway.envoyproxy.io", "v1alpha1", "envoyextensionpolicies", selector=names.MANAGED_BY_SELECTOR
)
PLUGIN_CONFIG = ResourceQuery("", "v1", "configmaps", names.DEVICE_PLUGIN_NAMESPACE, names.PROGRAM_NAME)
RESOURCE_SLICES = ResourceQuery("resource.k8s.io", "v1", "resourceslices")
KARPENTER_NODE_POOLS = ResourceQuery("karpenter.sh", "v1", "nodepools")
NODE_OVERLAYS = ResourceQuery("karpenter.sh", "v1alpha1", "nodeoverlays")
KARPENTER_DEPLOYMENTS = ResourceQuery("apps", "v1", "deployments", selector="app.kubernetes.io/name=karpenter")
REPORTER_ROLE = ResourceQuery("rbac.authorization.k8s.io", "v1", "clusterroles", name="allotment-reporter")
SSH_GATEWAY_ROLE = ResourceQuery("rbac.authorization.k8s.io", "v1", "clusterroles", name=names.SSH_GATEWAY_ROLE)
ARGO_CONFIG_MAPS = tuple(
    ResourceQuery("", "v1", "configmaps", names.ARGO_NAMESPACE, name, hub=True)
    for name in ("argocd-cm", "argocd-cmd-params-cm", "argocd-rbac-cm")
)
APPLICATIONS = ResourceQuery(
    "argoproj.io", "v1alpha1", "applications", names.ARGO_NAMESPACE, selector=names.MANAGED_BY_SELECTOR, hub=True
)


def _build_query(watched: WatchedKind, *, hub: bool) -> ResourceQuery:
    """Return the query that lists all objects of a watched kind."""
    root, *parts = watched.path.strip("/").split(
        "/"
    )  # api/v1/pods, apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects
    group, version, *space, resource = ("", *parts) if root == "api" else parts
    return ResourceQuery(group, version, resource, space[-1] if space else "", hub=hub, whole=True)


# Maps each query for whole objects to the watched kind that decodes the objects. The reader leaves out the objects that belong
# neither to a tenant nor to the platform. `list_objects` returns these objects as LiveObjects.
WHOLE_OBJECT_QUERIES = {
    **{_build_query(watched, hub=False): watched for watched in decoding.WHOLE_OBJECT_KINDS.values()},
    **{_build_query(watched, hub=True): watched for watched in decoding.HUB_OBJECT_KINDS.values()},
}
_HTTP_OK, _HTTP_UNAUTHORIZED, _HTTP_FORBIDDEN, _HTTP_NOT_FOUND = 200, 401, 403, 404
ALL_QUERIES = (
    NODES,
    OTHER_PODS,
    STORAGE_CLASSES,
    SNAPSHOT_CLASSES,
    GATEWAYS,
    GATEWAY_CLASSES,
    CERTIFICATES,
    SECURITY_POLICIES,
    EXTENSION_POLICIES,
    PLUGIN_CONFIG,
    RESOURCE_SLICES,
    KARPENTER_NODE_POOLS,
    NODE_OVERLAYS,
    KARPENTER_DEPLOYMENTS,
    REPORTER_ROLE,
    SSH_GATEWAY_ROLE,
    *ARGO_CONFIG_MAPS,
    APPLICATIONS,
)


class NotReadable(Exception):
    """Raised if objects could not be read; `subject` names the objects.

    `right` is the missing permission. If no permission is missing, `why` is the reason. `failed` is True if the read
    should have succeeded, for example if the API server did not answer.
    """

    def __init__(self, subject: str, why: str, right: str = "", *, failed: bool = False) -> None:
        super().__init__(f"{subject}: {right or why}")
        self.subject = subject
        self.reason = why
        self.missing_permission = right
        self.failed = failed


def diagnose_unreadable(unseen: NotReadable) -> Diagnosis:
    """Return the diagnosis for unreadable objects: an error if the read failed or was forbidden, else `skipped`."""
    if unseen.missing_permission:
        message = f"can't be checked: the permission for {unseen.missing_permission} is missing"
        return error(unseen.subject, message, "grant it: docs/operate/doctor.md shows the role")
    if unseen.failed:
        return error(
            unseen.subject, f"can't be checked: {unseen.reason}", "try again, then check the state of the API server"
        )
    return skipped(unseen.subject, unseen.reason)


class QueryAnswer(NamedTuple):
    """The answer to a request: objects, an HTTP status other than 200, or the reason why there was no answer."""

    objects: tuple[Any, ...] = ()
    status: int = _HTTP_OK
    failure: str = ""


class ClusterSnapshot(NamedTuple):
    """The data that was read from a cluster.

    `apis` maps each served API version of a named group to its resources, or to an empty set if no check requested
    them. `hub_apis` does the same for the cluster of Argo CD. A mapping is empty if one of its responses could not be
    read. `now` is the time by the cluster's clock.
    """

    version: Mapping[str, str]
    apis: Mapping[str, frozenset[str]]
    hub_apis: Mapping[str, frozenset[str]]
    answers: Mapping[ResourceQuery, QueryAnswer]
    now: datetime.datetime

    def list_objects(self, kind: ResourceQuery) -> list[Any]:
        """Return all objects of a query: mappings, or LiveObjects for WHOLE_OBJECT_QUERIES. Raises NotReadable."""
        answer = self.answers.get(kind, QueryAnswer(failure="it was not requested"))
        qualified_name = f"{kind.resource}.{kind.group}" if kind.group else kind.resource
        subject = f"{qualified_name} {kind.name}".strip()
        if answer.status == _HTTP_FORBIDDEN:
            raise NotReadable(subject, "", kind.permission_text)
        if answer.status == _HTTP_UNAUTHORIZED:
            reason = "the API server doesn't know these credentials: log in again, or name another context"
            raise NotReadable(subject, reason, failed=True)
        if answer.status == _HTTP_NOT_FOUND and not kind.name:
            raise NotReadable(subject, f"the API server doesn't serve {kind.api}")
        if answer.failure or answer.status not in (_HTTP_OK, _HTTP_NOT_FOUND):
            raise NotReadable(subject, answer.failure or f"the API server answers {answer.status}", failed=True)
        return list(answer.objects)

    def get_object(self, kind: ResourceQuery) -> Object | None:
        """Return the object that a query with a `name` finds; None if the object does not exist. Raises NotReadable."""
        return next(iter(self.list_objects(kind)), None)


def name_of(manifest: Object) -> str:
    """Return the name of an object."""
    return str(manifest["metadata"]["name"])


def index_by_name(manifests: Iterable[Object]) -> dict[str, Object]:
    """Return objects by name."""
    return {name_of(manifest): manifest for manifest in manifests}


def find_condition(conditions: Iterable[Object] | None, kind: str) -> Object:
    """Return the condition of a type; an empty mapping if there is none."""
    return next((status_condition for status_condition in conditions or () if status_condition.get("type") == kind), {})


def condition_text(status_condition: Object) -> str:
    """Return the reason and the message of a condition."""
    return (
        ": ".join(text for text in (status_condition.get("reason"), status_condition.get("message")) if text)
        or "no message"
    )

"""Decodes the responses of the API server into summaries of objects.

A response is a page of a list, or an event of a watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from allotment.manifests import names
from allotment.observed.api_objects import (
    application,
    bucket_claim,
    deployment,
    disruption_budget,
    job,
    namespace,
    node,
    pod,
    replica_set,
    route,
    volume_claim,
    volume_snapshot,
    whole_object,
)
from allotment.observed.api_objects.base import ApiObject
from allotment.observed.objects import ObservedObject

T = TypeVar("T")


class _ListMeta(ApiObject, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(ApiObject, Generic[T], frozen=True):
    metadata: _ListMeta
    items: tuple[T, ...] | None  # null if only metadata was requested and there are no objects


class _Envelope(ApiObject, frozen=True):
    type: str
    object: msgspec.Raw


class _Bookmark(ApiObject, frozen=True):
    metadata: _ListMeta = _ListMeta()


class _Failure(ApiObject, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


_ENVELOPE_DECODER = msgspec.json.Decoder(_Envelope)
_BOOKMARK_DECODER = msgspec.json.Decoder(_Bookmark)
_FAILURE_DECODER = msgspec.json.Decoder(_Failure)
_RAW_LIST_DECODER = msgspec.json.Decoder(_List[msgspec.Raw])


class UnreadableResponse(ValueError):
    """The API server's response doesn't have the expected form."""


class ListPage(NamedTuple):
    """One page of a list.

    `continue_token` is the token of the next page; it is empty on the last page. `skipped` counts the objects that
    could not be decoded.
    """

    version: str
    continue_token: str
    objects: list[ObservedObject]
    skipped: int


class WatchEvent(NamedTuple):
    """An event of a watch.

    `kind` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR. An event of another kind has only its `kind`. `code` is the
    HTTP status of an ERROR.
    """

    kind: str
    version: str = ""
    object: ObservedObject | None = None
    code: int = 0


class WatchedKind:
    """A kind of objects that the reporter watches: its path in the API, and its decoder.

    With `metadata_only`, the reporter requests only the metadata of objects. `selector` is a label selector; an empty
    selector selects all objects.
    """

    def __init__(
        self,
        name: str,
        path: str,
        raw: type[Any],
        flat: Callable[[Any], ObservedObject],
        *,
        metadata_only: bool = False,
        selector: str = names.MANAGED_BY_SELECTOR,
    ) -> None:
        self.name = name
        self.path = path
        self.metadata_only = metadata_only
        self.selector = selector
        self._summarize = flat
        self._list_decoder: Any = msgspec.json.Decoder(_List[raw])  # type: ignore[valid-type]
        self._object_decoder: Any = msgspec.json.Decoder(raw)

    def decode_page(self, data: bytes) -> ListPage:
        """Return a page of a list. Raises UnreadableResponse."""
        try:
            object_list = self._list_decoder.decode(data)
        except (msgspec.ValidationError, RecursionError):
            return self._decode_page_leniently(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreadableResponse(str(error)) from None
        read = [self._summarize(raw_object) for raw_object in object_list.items or ()]
        return ListPage(object_list.metadata.resource_version, object_list.metadata.continue_, read, 0)

    def _decode_page_leniently(self, data: bytes) -> ListPage:
        """Return a page without the objects that can't be decoded, so that one such object doesn't hide the others."""
        try:
            object_list = _RAW_LIST_DECODER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnreadableResponse(str(error)) from None
        read, skipped = list[ObservedObject](), 0
        for item in object_list.items or ():
            try:
                read.append(self._summarize(self._object_decoder.decode(item)))
            except (msgspec.DecodeError, RecursionError):
                skipped += 1
        return ListPage(object_list.metadata.resource_version, object_list.metadata.continue_, read, skipped)

    def decode_event(self, line: bytes) -> WatchEvent:
        """Return the event in a line of a watch. Raises UnreadableResponse."""
        try:
            envelope = _ENVELOPE_DECODER.decode(line)
            if envelope.type in ("ADDED", "MODIFIED", "DELETED"):
                raw = self._object_decoder.decode(envelope.object)
                return WatchEvent(envelope.type, raw.metadata.resource_version, self._summarize(raw))
            if envelope.type == "BOOKMARK":
                return WatchEvent("BOOKMARK", _BOOKMARK_DECODER.decode(envelope.object).metadata.resource_version)
            if envelope.type == "ERROR":
                return WatchEvent("ERROR", code=_FAILURE_DECODER.decode(envelope.object).code)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnreadableResponse(str(error)) from None
        return WatchEvent(envelope.type)


NAMESPACES = WatchedKind(
    "namespaces", "/api/v1/namespaces", namespace.RawNamespace, namespace.summarize_namespace, metadata_only=True
)
DISRUPTION_BUDGETS = WatchedKind(
    "poddisruptionbudgets",
    "/apis/policy/v1/poddisruptionbudgets",
    disruption_budget.RawDisruptionBudget,
    disruption_budget.summarize_disruption_budget,
    metadata_only=True,
)
NODES = WatchedKind("nodes", "/api/v1/nodes", node.RawNode, node.summarize_node, metadata_only=True, selector="")
PODS = WatchedKind("pods", "/api/v1/pods", pod.RawPod, pod.summarize_pod)
DEPLOYMENTS = WatchedKind(
    "deployments", "/apis/apps/v1/deployments", deployment.RawDeployment, deployment.summarize_deployment
)
REPLICA_SETS = WatchedKind(
    "replicasets",
    "/apis/apps/v1/replicasets",
    replica_set.RawReplicaSet,
    replica_set.summarize_replica_set,
    metadata_only=True,
)
JOBS = WatchedKind("jobs", "/apis/batch/v1/jobs", job.RawJob, job.summarize_job)
CLAIMS = WatchedKind(
    "persistentvolumeclaims",
    "/api/v1/persistentvolumeclaims",
    volume_claim.RawVolumeClaim,
    volume_claim.summarize_volume_claim,
)
BUCKETS = WatchedKind(
    "objectbucketclaims",
    "/apis/objectbucket.io/v1alpha1/objectbucketclaims",
    bucket_claim.RawBucketClaim,
    bucket_claim.summarize_bucket_claim,
)
SNAPSHOTS = WatchedKind(
    "volumesnapshots",
    "/apis/snapshot.storage.k8s.io/v1/volumesnapshots",
    volume_snapshot.RawVolumeSnapshot,
    volume_snapshot.summarize_volume_snapshot,
)
ROUTES = WatchedKind(
    "httproutes", "/apis/gateway.networking.k8s.io/v1/httproutes", route.RawRoute, route.summarize_route
)
APPLICATIONS = WatchedKind(
    "applications",
    f"/apis/argoproj.io/v1alpha1/namespaces/{names.ARGO_NAMESPACE}/applications",
    application.RawApplication,
    application.summarize_application,
)
_WHOLE_OBJECT_PATHS = {
    "Namespace": NAMESPACES.path,
    "Deployment": DEPLOYMENTS.path,
    "Service": "/api/v1/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
    "PersistentVolumeClaim": CLAIMS.path,
    "HTTPRoute": ROUTES.path,
    "SecurityPolicy": "/apis/gateway.envoyproxy.io/v1alpha1/securitypolicies",
    "PodDisruptionBudget": DISRUPTION_BUDGETS.path,
    "ResourceQuota": "/api/v1/resourcequotas",
    "LimitRange": "/api/v1/limitranges",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "NodeOverlay": "/apis/karpenter.sh/v1alpha1/nodeoverlays",
}
_HUB_OBJECT_PATHS = {
    "Application": APPLICATIONS.path,
    "AppProject": f"/apis/argoproj.io/v1alpha1/namespaces/{names.ARGO_NAMESPACE}/appprojects",
}


def _build_whole_object_kinds(paths: Mapping[str, str]) -> dict[str, WatchedKind]:
    """Return the watched kinds that decode whole objects, by kind."""
    return {
        kind: WatchedKind(
            f"whole {path.rpartition('/')[2]}",
            path,
            whole_object.RawObject,
            whole_object.make_summarizer(kind),
            selector="",
        )
        for kind, path in paths.items()
    }


# The kinds in `drift.COMPARED_KINDS`. The reporter reads whole objects of these kinds, because `drift` compares each object
# with its manifest. It reads objects with and without Allotment's label, because a person may have added an object.
WHOLE_OBJECT_KINDS = _build_whole_object_kinds(_WHOLE_OBJECT_PATHS)
HUB_OBJECT_KINDS = _build_whole_object_kinds(_HUB_OBJECT_PATHS)  # the reporter reads only those of its cluster
SUMMARY_KINDS = (
    NAMESPACES,
    NODES,
    DISRUPTION_BUDGETS,
    PODS,
    DEPLOYMENTS,
    REPLICA_SETS,
    JOBS,
    CLAIMS,
    BUCKETS,
    SNAPSHOTS,
    ROUTES,
)
CLUSTER_KINDS = *SUMMARY_KINDS, *WHOLE_OBJECT_KINDS.values()
HUB_KINDS = APPLICATIONS, *HUB_OBJECT_KINDS.values()  # in the cluster where Argo CD runs

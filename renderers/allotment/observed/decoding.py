"""Reads the API server's bytes: pages of lists and events of watches → what is kept of each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from allotment.manifests import names
from allotment.observed.objects import Seen
from allotment.observed.shapes import (
    application,
    bucket_claim,
    deployment,
    disruption_budget,
    job,
    namespace,
    pod,
    replica_set,
    route,
    volume_claim,
    volume_snapshot,
    whole,
)
from allotment.observed.shapes.base import Shape

T = TypeVar("T")


class _ListMeta(Shape, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(Shape, Generic[T], frozen=True):
    metadata: _ListMeta
    items: tuple[T, ...] | None  # the API server writes an empty list of metadata as null


class _Envelope(Shape, frozen=True):
    type: str
    object: msgspec.Raw


class _Bookmark(Shape, frozen=True):
    metadata: _ListMeta = _ListMeta()


class _Failure(Shape, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


_ENVELOPES = msgspec.json.Decoder(_Envelope)
_BOOKMARKS = msgspec.json.Decoder(_Bookmark)
_FAILURES = msgspec.json.Decoder(_Failure)
_ITEMS = msgspec.json.Decoder(_List[msgspec.Raw])


class Unreadable(ValueError):
    """The API server's answer isn't of the shape it should have."""


class Page(NamedTuple):
    """One page of a list: `more` is the token of the next, empty at the end; `skipped` counts objects of a strange
    shape."""

    version: str
    more: str
    objects: list[Seen]
    skipped: int


class Event(NamedTuple):
    """What a watch said. `kind` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; anything else means nothing to us.

    `code` is an ERROR's HTTP status.
    """

    kind: str
    version: str = ""
    object: Seen | None = None
    code: int = 0


class WatchedKind:
    """A kind that is watched: where the API has it, and how it is read. `metadata_only` asks for no more than that, `selector`
    for objects with these labels, all of them if it is empty."""

    def __init__(
        self,
        name: str,
        path: str,
        raw: type[Any],
        flat: Callable[[Any], Seen],
        *,
        metadata_only: bool = False,
        selector: str = names.OURS,
    ) -> None:
        self.name = name
        self.path = path
        self.metadata_only = metadata_only
        self.selector = selector
        self._flat = flat
        self._pages: Any = msgspec.json.Decoder(_List[raw])  # type: ignore[valid-type]
        self._one: Any = msgspec.json.Decoder(raw)

    def page(self, data: bytes) -> Page:
        """Return a page of a list. Raises Unreadable."""
        try:
            object_list = self._pages.decode(data)
        except (msgspec.ValidationError, RecursionError):
            return self._page_of_some(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreadable(str(error)) from None
        read = [self._flat(raw_object) for raw_object in object_list.items or ()]
        return Page(object_list.metadata.resource_version, object_list.metadata.continue_, read, 0)

    def _page_of_some(self, data: bytes) -> Page:
        """One object of a strange shape doesn't hide the others."""
        try:
            object_list = _ITEMS.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(str(error)) from None
        read, skipped = list[Seen](), 0
        for item in object_list.items or ():
            try:
                read.append(self._flat(self._one.decode(item)))
            except (msgspec.DecodeError, RecursionError):
                skipped += 1
        return Page(object_list.metadata.resource_version, object_list.metadata.continue_, read, skipped)

    def event(self, line: bytes) -> Event:
        """Return what a line of a watch says. Raises Unreadable."""
        try:
            envelope = _ENVELOPES.decode(line)
            if envelope.type in ("ADDED", "MODIFIED", "DELETED"):
                raw = self._one.decode(envelope.object)
                return Event(envelope.type, raw.metadata.resource_version, self._flat(raw))
            if envelope.type == "BOOKMARK":
                return Event("BOOKMARK", _BOOKMARKS.decode(envelope.object).metadata.resource_version)
            if envelope.type == "ERROR":
                return Event("ERROR", code=_FAILURES.decode(envelope.object).code)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(str(error)) from None
        return Event(envelope.type)


NAMESPACES = WatchedKind(
    "namespaces", "/api/v1/namespaces", namespace.RawNamespace, namespace.namespace, metadata_only=True
)
DISRUPTION_BUDGETS = WatchedKind(
    "poddisruptionbudgets",
    "/apis/policy/v1/poddisruptionbudgets",
    disruption_budget.RawDisruptionBudget,
    disruption_budget.disruption_budget,
    metadata_only=True,
)
PODS = WatchedKind("pods", "/api/v1/pods", pod.RawPod, pod.pod)
DEPLOYMENTS = WatchedKind("deployments", "/apis/apps/v1/deployments", deployment.RawDeployment, deployment.deployment)
REPLICA_SETS = WatchedKind(
    "replicasets", "/apis/apps/v1/replicasets", replica_set.RawReplicaSet, replica_set.replica_set, metadata_only=True
)
JOBS = WatchedKind("jobs", "/apis/batch/v1/jobs", job.RawJob, job.job)
CLAIMS = WatchedKind(
    "persistentvolumeclaims", "/api/v1/persistentvolumeclaims", volume_claim.RawVolumeClaim, volume_claim.volume_claim
)
BUCKETS = WatchedKind(
    "objectbucketclaims",
    "/apis/objectbucket.io/v1alpha1/objectbucketclaims",
    bucket_claim.RawBucketClaim,
    bucket_claim.bucket_claim,
)
SNAPSHOTS = WatchedKind(
    "volumesnapshots",
    "/apis/snapshot.storage.k8s.io/v1/volumesnapshots",
    volume_snapshot.RawVolumeSnapshot,
    volume_snapshot.volume_snapshot,
)
ROUTES = WatchedKind("httproutes", "/apis/gateway.networking.k8s.io/v1/httproutes", route.RawRoute, route.route)
APPLICATIONS = WatchedKind(
    "applications",
    f"/apis/argoproj.io/v1alpha1/namespaces/{names.ARGO_NAMESPACE}/applications",
    application.RawApplication,
    application.application,
)
_WHOLE_PATHS = {
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
}
# Whole objects, also those without our label, to compare them with their manifests: of the kinds of `drift.KINDS`.
WHOLE = {
    kind: WatchedKind(f"whole {path.rpartition('/')[2]}", path, whole.RawObject, whole.reader(kind), selector="")
    for kind, path in _WHOLE_PATHS.items()
}
SUMMARIES = NAMESPACES, DISRUPTION_BUDGETS, PODS, DEPLOYMENTS, REPLICA_SETS, JOBS, CLAIMS, BUCKETS, SNAPSHOTS, ROUTES
IN_CLUSTER = *SUMMARIES, *WHOLE.values()

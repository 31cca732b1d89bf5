"""Defines the types of the objects that checks read, because an API server or a proxy may return any JSON.

A type has only the fields that a check reads. All other fields of an object may have any type. `validate_object`
validates each object when the object is read, so the checks need not check types.
"""

from __future__ import annotations

from typing import Annotated, Any, Required, TypedDict

import msgspec

from allotment.diagnosis import cluster_snapshot
from allotment.diagnosis.cluster_snapshot import ResourceQuery

_INT64 = 1 << 63
WholeNumber = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)]
Quantities = dict[str, str | WholeNumber | float]


class Owner(TypedDict, total=False):
    kind: str


class Metadata(TypedDict, total=False):
    name: Required[str]
    labels: dict[str, str]
    ownerReferences: list[Owner]


class NamespacedMetadata(Metadata, total=False):
    namespace: Required[str]


class Condition(TypedDict, total=False):
    type: str
    status: str
    reason: str
    message: str


class Conditions(TypedDict, total=False):
    conditions: list[Condition]


class ClusterScopedObject(TypedDict, total=False):
    """An object without a namespace, with its conditions."""

    metadata: Required[Metadata]
    status: Conditions


class Taint(TypedDict, total=False):
    key: Required[str]
    effect: str


class NodeSpec(TypedDict, total=False):
    taints: list[Taint]
    unschedulable: bool


class NodeInfo(TypedDict, total=False):
    kernelVersion: str


class NodeStatus(Conditions, total=False):
    nodeInfo: NodeInfo
    capacity: Quantities
    allocatable: Quantities


class Node(TypedDict, total=False):
    metadata: Required[Metadata]
    spec: NodeSpec
    status: NodeStatus


class NodeTemplate(TypedDict, total=False):
    spec: NodeSpec


class NodePoolSpec(TypedDict, total=False):
    template: NodeTemplate


class NodePool(ClusterScopedObject, total=False):
    """A NodePool of Karpenter."""

    spec: NodePoolSpec


class Resources(TypedDict, total=False):
    requests: Quantities


class Container(TypedDict, total=False):
    resources: Resources
    restartPolicy: str


class PodSpec(TypedDict, total=False):
    nodeName: str
    containers: list[Container]
    initContainers: list[Container]
    resources: Resources
    overhead: Quantities


class PodStatus(TypedDict, total=False):
    phase: str


class Pod(TypedDict, total=False):
    metadata: Required[NamespacedMetadata]
    spec: Required[PodSpec]
    status: PodStatus


class StorageClass(TypedDict, total=False):
    metadata: Required[Metadata]
    reclaimPolicy: str
    allowVolumeExpansion: bool
    volumeBindingMode: str
    provisioner: str


class SnapshotClass(TypedDict, total=False):
    metadata: Required[Metadata]
    deletionPolicy: str
    driver: str


class Reference(TypedDict, total=False):
    name: Required[str]
    namespace: str


class Tls(TypedDict, total=False):
    mode: str
    certificateRefs: list[Reference]


class Expression(TypedDict, total=False):
    key: Required[str]
    operator: Required[str]
    values: list[str]


class Selector(TypedDict, total=False):
    matchLabels: dict[str, str]
    matchExpressions: list[Expression]


Namespaces = TypedDict("Namespaces", {"from": str, "selector": Selector}, total=False)


class AllowedRoutes(TypedDict, total=False):
    kinds: list[Owner]
    namespaces: Namespaces


class Listener(TypedDict, total=False):
    name: Required[str]
    protocol: str
    hostname: str
    tls: Tls
    allowedRoutes: AllowedRoutes


class ListenerStatus(Conditions, total=False):
    name: str


class GatewaySpec(TypedDict, total=False):
    gatewayClassName: str
    listeners: list[Listener]


class GatewayStatus(Conditions, total=False):
    listeners: list[ListenerStatus]


class Gateway(TypedDict, total=False):
    metadata: Required[NamespacedMetadata]
    spec: Required[GatewaySpec]
    status: GatewayStatus


class GatewayClassSpec(TypedDict, total=False):
    controllerName: str


class GatewayClass(ClusterScopedObject, total=False):
    spec: Required[GatewayClassSpec]


class CertificateSpec(TypedDict, total=False):
    secretName: str
    dnsNames: list[str]


class CertificateStatus(Conditions, total=False):
    notAfter: str
    renewalTime: str


class Certificate(TypedDict, total=False):
    metadata: Required[NamespacedMetadata]
    spec: Required[CertificateSpec]
    status: CertificateStatus


class LoginStatus(TypedDict, total=False):
    ancestors: list[Conditions]


class Login(TypedDict, total=False):
    metadata: Required[NamespacedMetadata]
    spec: Required[dict[str, Any]]
    status: LoginStatus


class ConfigMap(TypedDict, total=False):
    data: dict[str, str]


class SliceSpec(TypedDict, total=False):
    driver: str
    nodeName: str
    devices: list[Any]


class Slice(TypedDict, total=False):
    metadata: Required[Metadata]
    spec: Required[SliceSpec]


class Variable(TypedDict, total=False):
    name: Required[str]
    value: str


class Controller(TypedDict, total=False):
    env: list[Variable]
    args: list[str]


class ControllerSpec(TypedDict, total=False):
    containers: list[Controller]


class Template(TypedDict):
    spec: ControllerSpec


class DeploymentSpec(TypedDict):
    template: Template


class Deployment(TypedDict):
    spec: DeploymentSpec


class PolicyRule(TypedDict, total=False):
    verbs: list[str]
    apiGroups: list[str]
    resources: list[str]


class Role(TypedDict, total=False):
    rules: list[PolicyRule]


class Source(TypedDict, total=False):
    targetRevision: str


class ApplicationSpec(TypedDict, total=False):
    source: Source


class Operation(TypedDict, total=False):
    phase: str
    message: str


class Sync(TypedDict, total=False):
    status: str
    revision: str


class ApplicationStatus(Conditions, total=False):
    sync: Sync
    health: Condition
    operationState: Operation


class Application(TypedDict, total=False):
    metadata: Required[Metadata]
    spec: ApplicationSpec
    status: ApplicationStatus


TYPES_BY_QUERY: dict[ResourceQuery, type] = {
    cluster_snapshot.NODES: Node,
    cluster_snapshot.OTHER_PODS: Pod,
    cluster_snapshot.STORAGE_CLASSES: StorageClass,
    cluster_snapshot.SNAPSHOT_CLASSES: SnapshotClass,
    cluster_snapshot.GATEWAYS: Gateway,
    cluster_snapshot.GATEWAY_CLASSES: GatewayClass,
    cluster_snapshot.CERTIFICATES: Certificate,
    cluster_snapshot.SECURITY_POLICIES: Login,
    cluster_snapshot.EXTENSION_POLICIES: Login,
    cluster_snapshot.PLUGIN_CONFIG: ConfigMap,
    cluster_snapshot.RESOURCE_SLICES: Slice,
    cluster_snapshot.KARPENTER_NODE_POOLS: NodePool,
    cluster_snapshot.NODE_OVERLAYS: ClusterScopedObject,
    cluster_snapshot.KARPENTER_DEPLOYMENTS: Deployment,
    cluster_snapshot.REPORTER_ROLE: Role,
    cluster_snapshot.SSH_GATEWAY_ROLE: Role,
    **dict.fromkeys(cluster_snapshot.ARGO_CONFIG_MAPS, ConfigMap),
    cluster_snapshot.APPLICATIONS: Application,
}


def validate_object(kind: ResourceQuery, value: Any, *, may_have_nulls: bool = True) -> dict[str, Any]:
    """Return the object `value` without its null fields, which Kubernetes treats as absent.

    With `may_have_nulls=False`, the caller knows that no field is null. If a field has a wrong type, raises ValueError
    with the name of the field.
    """
    manifest = _without_nulls(value) if may_have_nulls else value
    try:
        msgspec.convert(manifest, TYPES_BY_QUERY[kind])
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return dict(manifest)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value

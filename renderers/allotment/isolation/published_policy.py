"""Check objects with rules that also hold for the objects of older versions of Allotment.

In the file of a tenant's resource, these rules refuse every direct field of the metadata and the spec that is not
listed here. In a file of the platform, they check only the kind, the namespace and the sync options of each object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from allotment.declared.tenant_resources import TREE_PARTS
from allotment.isolation.boundary import Boundary
from allotment.isolation.field_policy import check_allowed_keys, check_equal, check_identity, is_released
from allotment.isolation.namespace_policy import judge_isolation_object
from allotment.isolation.pod_policy import judge_failure_policy, judge_programs, judge_template
from allotment.isolation.secret_policy import judge_external_secret
from allotment.manifests import login, names, paths
from allotment.manifests.tenant import project_roles
from allotment.manifests.yaml_text import Malformed, Object, load_one
from allotment.problems import escape_unprintable

_ANNOTATIONS = frozenset(
    (
        names.BLOB,
        names.WAITS_FOR,
        names.WAITS_REASON,
        names.PREDECESSOR,
        names.UNITS,
        names.SSH_COMMAND,
        names.INPUT_HASH,
        names.ATTEMPT,
        names.PREPARED,
        names.PREPARES,
        names.LOG,
        names.DELETION_POLICY,
        names.PROTECTED,
        names.EXTERNAL_LINK,
    )
)
_RELOAD = "secret.reloader.stakater.com/reload"  # read by Reloader, which takes each name for a regular expression
_SECRET_LIST = re.compile(r"[a-z](?:-?[a-z0-9])*--secret(?:,[a-z](?:-?[a-z0-9])*--secret)*")
_SPEC_FIELDS = {
    "BackendTrafficPolicy": frozenset("targetRefs mergeType loadBalancer".split()),
    "Deployment": frozenset("replicas revisionHistoryLimit progressDeadlineSeconds strategy selector template".split()),
    "ExternalSecret": frozenset("secretStoreRef refreshInterval target data".split()),
    "Job": frozenset("activeDeadlineSeconds backoffLimit podFailurePolicy template".split()),
    "Service": frozenset("type selector ports".split()),
    "ObjectBucketClaim": frozenset("generateBucketName storageClassName additionalConfig".split()),
    "PersistentVolumeClaim": frozenset("accessModes storageClassName volumeMode resources dataSourceRef".split()),
    "HTTPRoute": frozenset("parentRefs hostnames rules".split()),
    "SecurityPolicy": frozenset("targetRefs mergeType oidc jwt authorization".split()),
    "VolumeSnapshot": frozenset("volumeSnapshotClassName source".split()),
}
_TENANT_API = {
    "BackendTrafficPolicy": "gateway.envoyproxy.io/v1alpha1",
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "ExternalSecret": "external-secrets.io/v1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "Job": "batch/v1",
    "ObjectBucketClaim": "objectbucket.io/v1alpha1",
    "PersistentVolumeClaim": "v1",
    "SecurityPolicy": "gateway.envoyproxy.io/v1alpha1",
    "Service": "v1",
    "VolumeSnapshot": "snapshot.storage.k8s.io/v1",
}
_DATA_KINDS = ("ObjectBucketClaim", "PersistentVolumeClaim", "VolumeSnapshot")  # kinds that hold data
_DATA_SOURCES = (("snapshot.storage.k8s.io", "VolumeSnapshot"), (None, "PersistentVolumeClaim"))
_PROJECT_FIELDS = frozenset(
    "description sourceRepos destinations clusterResourceWhitelist namespaceResourceWhitelist roles".split()
)
_ARGO_API = {"AppProject": "argoproj.io/v1alpha1", "Application": "argoproj.io/v1alpha1"}
_PLATFORM_KINDS = frozenset(
    "AppProject Application BackendTrafficPolicy Certificate ClientTrafficPolicy ConfigMap Deployment DeviceClass EC2NodeClass"
    " EnvoyExtensionPolicy EnvoyProxy Gateway GatewayClass HTTPRoute HTTPRouteFilter Namespace NetworkPolicy NodeOverlay NodePool"
    " PriorityClass SecurityPolicy ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding".split()
)
# The kinds that a tenant's AppProject may permit: the kinds of the tenant's objects, and the kinds that controllers
# create for these objects. Argo CD shows only objects of permitted kinds.
_PROJECT_KINDS = frozenset(
    (group, kind)
    for kind, version in (_TENANT_API | {"Pod": "v1", "ReplicaSet": "apps/v1"}).items()
    for group in [version.split("/")[0] if "/" in version else ""]
)


class FileOwner(NamedTuple):
    """The owner of a file.

    `part` is tenant, namespaces, argo or platform. `resource` is the stem of a tenant's resource file, or the path of a
    platform file; it is empty for other files.
    """

    part: str
    tenant: str
    resource: str


TYPE_ERRORS = (
    AttributeError,
    TypeError,
    ValueError,
)  # raised where a value has another type than expected


def judge(
    boundary: Boundary, owner: FileOwner, text: str, further: Callable[[Object], Iterable[str]] = lambda _: ()
) -> Iterator[str]:
    """Yield the violations in the text of one object, as messages for developers.

    If the text has no violation, yield the findings of `further`.
    """
    try:
        manifest = load_one(text)
    except Malformed as error:
        yield f"not of the written shape: {escape_unprintable(str(error))}"
        return
    findings = list(judge_object(boundary, owner, manifest))
    yield from findings or further(manifest)


def judge_object(boundary: Boundary, owner: FileOwner, manifest: Object) -> Iterator[str]:
    """Yield the violations of a parsed object."""
    if owner.part == "tenant":
        yield from _judge_tenant_object(boundary, owner.tenant, manifest)
        yield from judge_programs(owner.resource, manifest)
    elif owner.part == "namespaces":
        yield from judge_isolation_object(boundary, owner.tenant, manifest)
    elif owner.part == "argo":
        yield from _judge_argo_object(boundary, owner.tenant, manifest)
    else:
        yield from _judge_platform_object(manifest)
    if owner.part != "tenant" and manifest.get("kind") != "ConfigMap":
        yield from _judge_deletion_option(manifest.get("metadata", {}))


def _judge_tenant_object(boundary: Boundary, tenant: str, manifest: Object) -> Iterator[str]:
    yield from check_identity(manifest, _TENANT_API)
    kind, metadata, spec = manifest.get("kind"), manifest.get("metadata", {}), manifest.get("spec", {})
    yield from check_allowed_keys("metadata", metadata, frozenset(("name", "namespace", "labels", "annotations")))
    yield from check_equal("metadata.namespace", metadata.get("namespace"), names.namespace(tenant))
    if kind == "ConfigMap" and metadata.get("name") == names.SSH_GATEWAY:
        yield "the ConfigMap of the SSH gateway is not the tenant's"
    if kind != "ConfigMap":
        yield from check_equal("metadata.labels tenant", metadata.get("labels", {}).get(names.TENANT), tenant)
        yield from check_allowed_keys("spec", spec, _SPEC_FIELDS.get(str(kind), frozenset()))
    options: tuple[str, ...] = ()
    if kind in (*_DATA_KINDS, "Job"):
        options = (names.KEEP_OPTIONS,)
    elif kind == "ConfigMap" and manifest.get("immutable") is True:
        options = (
            (names.KEEP_ON_APPLICATION_DELETION,)
            if str(metadata.get("name")).startswith(paths.PROGRAMS_PREFIX)
            else (names.KEEP_OPTIONS,)
        )
    for key, value in metadata.get("annotations", {}).items():
        reloads = kind == "Deployment" and key == _RELOAD and _SECRET_LIST.fullmatch(str(value))
        if not (key in _ANNOTATIONS or (key == names.SYNC_OPTIONS and value in options) or reloads):
            yield f"annotation {escape_unprintable(key)} is not allowed"
    if kind in ("Deployment", "Job"):
        yield from judge_template(tenant, spec.get("template", {}), metadata.get("name", "") if kind == "Job" else "")
        yield from judge_failure_policy(spec)
    elif kind == "Service":
        yield from _judge_service(spec)
    elif kind == "HTTPRoute":
        yield from _judge_route(boundary, tenant, spec)
    elif kind == "BackendTrafficPolicy":
        yield from _judge_targets(spec)
        yield from check_equal("spec.mergeType", spec.get("mergeType"), "StrategicMerge")
        yield from check_allowed_keys(
            "loadBalancer", spec.get("loadBalancer", {}), frozenset(("type", "consistentHash"))
        )
    elif kind == "SecurityPolicy":
        yield from _judge_policy(boundary, spec)
    elif kind == "ExternalSecret":
        yield from judge_external_secret(boundary.secret_store, tenant, metadata, spec)
    elif kind in _DATA_KINDS:
        yield from _judge_data_object(metadata, spec)


def _judge_service(spec: Any) -> Iterator[str]:
    yield from check_equal("spec.type", spec.get("type"), "ClusterIP")
    if not spec.get("selector"):
        yield "spec.selector is empty"
    for port in spec.get("ports", ()):
        yield from check_allowed_keys("spec.ports", port, frozenset(("name", "port", "targetPort", "protocol")))


def _judge_data_object(metadata: Any, spec: Any) -> Iterator[str]:
    """Yield the violations of an object that holds data.

    The object must have the options that keep Argo CD from deleting it, unless its deletion policy is Delete and its
    protection is lifted. Its data source must be in its own namespace.
    """
    annotations = metadata.get("annotations", {})
    if annotations.get(names.DELETION_POLICY) != "Delete" or not is_released(annotations):
        yield from check_equal("sync-options", annotations.get(names.SYNC_OPTIONS), names.KEEP_OPTIONS)
    source = spec.get("dataSourceRef")
    if source is not None:
        yield from check_allowed_keys("dataSourceRef", source, frozenset(("apiGroup", "kind", "name")))
        if (source.get("apiGroup"), source.get("kind")) not in _DATA_SOURCES:
            yield f"dataSourceRef {escape_unprintable(str(source))} is not allowed"
    if "source" in spec:
        yield from check_allowed_keys("source", spec["source"], frozenset(("persistentVolumeClaimName",)))


def _judge_route(boundary: Boundary, tenant: str, spec: Any) -> Iterator[str]:
    for host in spec.get("hostnames", ("",)):
        label, _, domain = str(host).partition(".")
        if domain != boundary.domain or not label.endswith(f"--{tenant}") or label.count("--") not in (1, 2):
            yield f"host {escape_unprintable(str(host))} is not the tenant's"
    for parent in spec.get("parentRefs", ({},)):
        if (parent.get("namespace"), parent.get("name")) != boundary.gateway or parent.get("kind") != "Gateway":
            yield f"parent {escape_unprintable(str(parent))} is not the cluster's Gateway"
    for rule in spec.get("rules", ()):
        yield from check_allowed_keys("rules", rule, frozenset(("matches", "backendRefs", "timeouts", "filters")))
        if "filters" in rule:
            yield from check_equal("rules.filters", rule["filters"], login.REMOVE_TOKEN)
        for backend in rule.get("backendRefs", ()):
            yield from check_allowed_keys(
                "backendRefs", backend, frozenset(("group", "kind", "name", "port", "weight"))
            )
            yield from check_equal("backendRefs.kind", (backend.get("group"), backend.get("kind")), ("", "Service"))


def _judge_targets(spec: Any) -> Iterator[str]:
    for target in spec.get("targetRefs", ({},)):
        yield from check_allowed_keys("targetRefs", target, frozenset(("group", "kind", "name")))
        yield from check_equal("targetRefs.kind", target.get("kind"), "HTTPRoute")


def _judge_policy(boundary: Boundary, spec: Any) -> Iterator[str]:
    yield from _judge_targets(spec)
    action = spec.get("authorization", {}).get("defaultAction")
    if action != "Deny" and not (action == "Allow" and not {"oidc", "mergeType"} & spec.keys()):
        yield "authorization.defaultAction is neither Deny nor that of a public route"
    # A login is either in the policy of the route, or, with a callback host, in the policy of the listener.
    if boundary.has_callback_host and "jwt" not in spec:
        yield "a route is public, although the login of this cluster counts for all its hosts"
    if "mergeType" in spec and not boundary.has_callback_host:
        yield "mergeType is set, but the listener of this cluster has no login"
    secret = spec.get("oidc", {}).get("clientSecret", {})
    if secret:
        yield from check_equal("oidc.clientSecret.namespace", secret.get("namespace"), boundary.secret_namespace)


def _judge_argo_object(boundary: Boundary, tenant: str, manifest: Object) -> Iterator[str]:
    yield from check_identity(manifest, _ARGO_API)
    metadata, spec, space = manifest.get("metadata", {}), manifest.get("spec", {}), names.namespace(tenant)
    own_project = names.project(tenant, boundary.cluster)
    yield from check_equal("metadata.namespace", metadata.get("namespace"), names.ARGO_NAMESPACE)
    if manifest.get("kind") == "AppProject":
        yield from check_equal("metadata.name", metadata.get("name"), own_project)
        yield from check_equal(
            "destinations", [target.get("namespace") for target in spec.get("destinations", ())], [space]
        )
        yield from check_equal("clusterResourceWhitelist", spec.get("clusterResourceWhitelist"), [])
        for entry in spec.get("namespaceResourceWhitelist", ({},)):
            if (entry.get("group"), entry.get("kind")) not in _PROJECT_KINDS:
                yield f"the project allows {escape_unprintable(str(entry))}"
        yield from check_allowed_keys("spec", spec, _PROJECT_FIELDS)
        for role in spec.get("roles", ()):
            yield from _judge_role(own_project, role)
        return
    parts = {names.application(tenant, boundary.cluster, part): f"tenants/{tenant}/{part}" for part in TREE_PARTS}
    source = spec.get("source", {})
    if metadata.get("name") not in parts:
        yield f"Application {escape_unprintable(str(metadata.get('name')))} is not the tenant's"
    else:
        yield from check_equal("source.path", source.get("path"), parts[str(metadata.get("name"))])
    yield from check_equal(
        "source.targetRevision", source.get("targetRevision"), names.rendered_branch(boundary.cluster)
    )
    yield from check_equal("project", spec.get("project"), own_project)
    yield from check_equal("destination.namespace", spec.get("destination", {}).get("namespace"), space)


def _judge_role(project: str, role: Any) -> Iterator[str]:
    yield from check_allowed_keys("roles", role, frozenset(("name", "policies", "groups")))
    role_names = {name.lower(): name for name in project_roles.GRANTS_BY_ROLE}
    if role.get("name") not in role_names:
        yield f"role {escape_unprintable(str(role.get('name')))} is not one of a tenant's"
    else:
        name = role_names[role["name"]]
        if role.get("policies") != project_roles.list_earlier_policies(project, name):
            yield from check_equal("roles.policies", role.get("policies"), project_roles.list_policies(project, name))


def _judge_deletion_option(metadata: Any) -> Iterator[str]:
    """Yield a violation if the deletion of the Application would delete the object.

    There is no violation if the object's protection is lifted.
    """
    annotations = metadata.get("annotations", {})
    options = annotations.get(names.SYNC_OPTIONS)
    if options not in (names.KEEP_OPTIONS, names.KEEP_ON_APPLICATION_DELETION) and not is_released(annotations):
        yield f"sync-options is {escape_unprintable(str(options))}, must be {names.KEEP_ON_APPLICATION_DELETION} or {names.KEEP_OPTIONS}"


def _judge_platform_object(manifest: Object) -> Iterator[str]:
    if manifest.get("kind") not in _PLATFORM_KINDS:
        yield f"kind {escape_unprintable(str(manifest.get('kind')))} is not allowed"
    metadata = manifest.get("metadata", {})
    for name in (
        metadata.get("namespace", ""),
        metadata.get("name", "") if manifest.get("kind") == "Namespace" else "",
    ):
        if str(name).startswith("t-"):
            yield f"namespace {escape_unprintable(str(name))} is a tenant's"

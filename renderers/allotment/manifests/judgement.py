"""What an owner's objects may hold, field by field: the gate's judgement. What isn't listed here is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.declared.inventory import Folder
from allotment.declared.kinds.cluster import Cluster
from allotment.manifests import names, project_roles
from allotment.manifests.text import Malformed, Object, load_one
from allotment.problems import printable

_POD_FIELDS = frozenset(
    "automountServiceAccountToken enableServiceLinks hostUsers priorityClassName securityContext containers volumes affinity tolerations restartPolicy".split()
)
_JOB_POD_FIELDS = _POD_FIELDS | {"initContainers"}
_CONTAINER_FIELDS = frozenset(
    "name image command args env ports resources startupProbe readinessProbe securityContext volumeMounts".split()
)
_SIDECAR_FIELDS = _CONTAINER_FIELDS | {"restartPolicy"}
_PRIORITIES = (names.INSTANCE_PRIORITY, names.STORAGE_PRIORITY)
_TOLERATIONS = ({"key": names.GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"},)
_POD_SECURITY = {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"}
_CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_ANNOTATIONS = frozenset(
    (
        names.BLOB,
        names.WAITS_FOR,
        names.WAITS_REASON,
        names.PREDECESSOR,
        names.UNITS,
        names.INPUT_HASH,
        names.ATTEMPT,
        names.PREPARES,
        names.LOG,
        names.DELETION_POLICY,
        names.PROTECTED,
        names.EXTERNAL_LINK,
    )
)
_VOLUMES = frozenset(("name", "ephemeral", "emptyDir", "persistentVolumeClaim", "configMap"))
_SPEC_FIELDS = {
    "Deployment": frozenset("replicas revisionHistoryLimit progressDeadlineSeconds strategy selector template".split()),
    "Job": frozenset("activeDeadlineSeconds backoffLimit template".split()),
    "Service": frozenset("type selector ports".split()),
    "ObjectBucketClaim": frozenset("generateBucketName storageClassName additionalConfig".split()),
    "PersistentVolumeClaim": frozenset("accessModes storageClassName volumeMode resources dataSourceRef".split()),
    "HTTPRoute": frozenset("parentRefs hostnames rules".split()),
    "SecurityPolicy": frozenset("targetRefs oidc jwt authorization".split()),
    "VolumeSnapshot": frozenset("volumeSnapshotClassName source".split()),
}
_TENANT_API = {
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "Job": "batch/v1",
    "ObjectBucketClaim": "objectbucket.io/v1alpha1",
    "PersistentVolumeClaim": "v1",
    "SecurityPolicy": "gateway.envoyproxy.io/v1alpha1",
    "Service": "v1",
    "VolumeSnapshot": "snapshot.storage.k8s.io/v1",
}
_KEPT = ("ObjectBucketClaim", "PersistentVolumeClaim", "VolumeSnapshot")  # what holds data
_DATA_SOURCES = (("snapshot.storage.k8s.io", "VolumeSnapshot"), (None, "PersistentVolumeClaim"))
_NAMESPACE_API = {
    "LimitRange": "v1",
    "Namespace": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "ReferenceGrant": "gateway.networking.k8s.io/v1",
    "ResourceQuota": "v1",
}
_OPENINGS = {"share": "ingress", "read": "egress", "buckets": "egress"}
_PROJECT_FIELDS = frozenset(
    "description sourceRepos destinations clusterResourceWhitelist namespaceResourceWhitelist roles".split()
)
_ARGO_API = {"AppProject": "argoproj.io/v1alpha1", "Application": "argoproj.io/v1alpha1"}
_PLATFORM_KINDS = frozenset(
    "AppProject Application ConfigMap Deployment EC2NodeClass Namespace NodePool PriorityClass SecurityPolicy"
    " ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding".split()
)
_PROJECT_KINDS = frozenset(
    (group, kind)
    for kind, version in _TENANT_API.items()
    for group in [version.split("/")[0] if "/" in version else ""]
)


class Boundary(NamedTuple):
    """What a cluster's declaration says about where things may lie."""

    cluster: str
    domain: str
    gateway: tuple[str, str]
    secret_namespace: str

    @staticmethod
    def of(cluster: Folder) -> Boundary:
        """Return a declared cluster's boundary."""
        declared = cluster.one(Cluster)
        assert declared is not None
        spec = declared.model.spec
        return Boundary(
            cluster.name,
            spec.domain,
            (spec.gateway.namespace, spec.gateway.name),
            spec.oidc.client_secret_ref.namespace,
        )


class Owner(NamedTuple):
    """Whose file it is: the part of the tree it lies in, the tenant, and the file's own name."""

    part: str
    tenant: str
    thing: str


def judge(boundary: Boundary, owner: Owner, text: str) -> Iterator[str]:
    """Yield what is wrong with one object of a cluster's tree, in words for us."""
    try:
        one = load_one(text)
    except Malformed as error:
        yield f"not of the written shape: {printable(str(error))}"
        return
    if owner.part == "tenant":
        yield from _judge_tenant_object(boundary, owner.tenant, one)
    elif owner.part == "namespaces":
        yield from _judge_isolation_object(boundary, owner.tenant, one)
    elif owner.part == "argo":
        yield from _judge_argo_object(boundary, owner.tenant, one)
    else:
        yield from _judge_platform_object(one)


def _only(where: str, value: Any, allowed: frozenset[str]) -> Iterator[str]:
    for key in value if isinstance(value, dict) else ("(no mapping)",):
        if key not in allowed:
            yield f"{where}.{printable(str(key))} is not allowed"


def _same(where: str, value: Any, wanted: Any) -> Iterator[str]:
    if value != wanted:
        yield f"{where} is {printable(str(value))}, must be {printable(str(wanted))}"


def _identity(one: Object, kinds: dict[str, str]) -> Iterator[str]:
    yield from _only("", one, frozenset(("apiVersion", "kind", "metadata", "spec", "data", "immutable")))
    kind = one.get("kind")
    if kind not in kinds:
        yield f"kind {printable(str(kind))} is not allowed"
    else:
        yield from _same(f"{kind}.apiVersion", one.get("apiVersion"), kinds[kind])


def _judge_tenant_object(boundary: Boundary, tenant: str, one: Object) -> Iterator[str]:
    yield from _identity(one, _TENANT_API)
    kind, metadata, spec = one.get("kind"), one.get("metadata", {}), one.get("spec", {})
    yield from _only("metadata", metadata, frozenset(("name", "namespace", "labels", "annotations")))
    yield from _same("metadata.namespace", metadata.get("namespace"), names.namespace(tenant))
    if kind != "ConfigMap":
        yield from _same("metadata.labels tenant", metadata.get("labels", {}).get(names.TENANT), tenant)
        yield from _only("spec", spec, _SPEC_FIELDS.get(str(kind), frozenset()))
    for key, value in metadata.get("annotations", {}).items():
        if not (key in _ANNOTATIONS or (key == names.SYNC_OPTIONS and kind in _KEPT and value == names.KEEP)):
            yield f"annotation {printable(key)} is not allowed"
    if kind in ("Deployment", "Job"):
        yield from _judge_template(
            tenant, spec.get("template", {}), _POD_FIELDS if kind == "Deployment" else _JOB_POD_FIELDS
        )
    elif kind == "Service":
        yield from _same("spec.type", spec.get("type"), "ClusterIP")
        if not spec.get("selector"):
            yield "spec.selector is empty"
        for port in spec.get("ports", ()):
            yield from _only("spec.ports", port, frozenset(("name", "port", "targetPort", "protocol")))
    elif kind == "HTTPRoute":
        yield from _judge_route(boundary, tenant, spec)
    elif kind == "SecurityPolicy":
        yield from _judge_policy(boundary, spec)
    elif kind in _KEPT:
        yield from _judge_kept(metadata, spec)


def _judge_kept(metadata: Any, spec: Any) -> Iterator[str]:
    """What holds data is protected until it was marked for deletion and let go; where it comes from lies in its namespace."""
    annotations = metadata.get("annotations", {})
    if annotations.get(names.DELETION_POLICY) != "Delete" or not _let_go(annotations):
        yield from _same("sync-options", annotations.get(names.SYNC_OPTIONS), names.KEEP)
    source = spec.get("dataSourceRef")
    if source is not None:
        yield from _only("dataSourceRef", source, frozenset(("apiGroup", "kind", "name")))
        if (source.get("apiGroup"), source.get("kind")) not in _DATA_SOURCES:
            yield f"dataSourceRef {printable(str(source))} is not allowed"
    if "source" in spec:
        yield from _only("source", spec["source"], frozenset(("persistentVolumeClaimName",)))


def _let_go(annotations: Any) -> bool:
    """Return whether an object says that its protection is lifted, the last step before it is deleted."""
    return bool(annotations.get(names.PROTECTED) == "false")


def _judge_template(tenant: str, template: Any, fields: frozenset[str]) -> Iterator[str]:
    yield from _only("template", template, frozenset(("metadata", "spec")))
    yield from _only("template.metadata", template.get("metadata"), frozenset(("labels",)))
    yield from _same("template tenant", template.get("metadata", {}).get("labels", {}).get(names.TENANT), tenant)
    pod = template.get("spec", {})
    yield from _only("pod", pod, fields)
    yield from _same("pod.automountServiceAccountToken", pod.get("automountServiceAccountToken"), False)
    yield from _same("pod.hostUsers", pod.get("hostUsers"), False)
    yield from _same("pod.securityContext", pod.get("securityContext"), _POD_SECURITY)
    if pod.get("priorityClassName") not in _PRIORITIES:
        yield f"pod.priorityClassName {printable(str(pod.get('priorityClassName')))} is not allowed"
    for toleration in pod.get("tolerations", ()):
        if toleration not in _TOLERATIONS:
            yield f"toleration {printable(str(toleration))} is not allowed"
    for container in pod.get("containers", ()):
        yield from _judge_container(container, _CONTAINER_FIELDS)
    for container in pod.get("initContainers", ()):
        yield from _judge_container(container, _SIDECAR_FIELDS)
    for volume in pod.get("volumes", ()):
        yield from _only("volume", volume, _VOLUMES)
        yield from _only("volume.configMap", volume.get("configMap", {}), frozenset(("name",)))
        yield from _only("volume.emptyDir", volume.get("emptyDir", {}), frozenset(("medium", "sizeLimit")))
        yield from _only(
            "volume.persistentVolumeClaim",
            volume.get("persistentVolumeClaim", {}),
            frozenset(("claimName", "readOnly")),
        )


def _judge_container(container: Any, fields: frozenset[str]) -> Iterator[str]:
    yield from _only("container", container, fields)
    security = dict(container.get("securityContext", {}))
    if security.pop("readOnlyRootFilesystem", True) is not True:
        yield "container.securityContext.readOnlyRootFilesystem is not allowed to be false"
    yield from _same("container.securityContext", security, _CONTAINER_SECURITY)
    for variable in container.get("env", ()):
        yield from _only("env", variable, frozenset(("name", "value", "valueFrom")))
        if "valueFrom" in variable:
            yield from _judge_reference(variable["valueFrom"])
        if str(variable.get("name")).startswith(("NVIDIA_", "CUDA_MPS_")):
            yield f"env {printable(str(variable.get('name')))} is not allowed"
    for port in container.get("ports", ()):
        yield from _only("container.ports", port, frozenset(("name", "containerPort", "protocol")))
    for mount in container.get("volumeMounts", ()):
        yield from _only("volumeMounts", mount, frozenset(("name", "mountPath", "subPath", "readOnly")))


def _judge_reference(source: Any) -> Iterator[str]:
    """A variable from a key of one Secret or ConfigMap of the namespace."""
    yield from _only("env.valueFrom", source, frozenset(("secretKeyRef", "configMapKeyRef")))
    yield from _same("env.valueFrom", len(source), 1)
    for reference in source.values():
        yield from _only("env.valueFrom", reference, frozenset(("name", "key")))


def _judge_route(boundary: Boundary, tenant: str, spec: Any) -> Iterator[str]:
    for host in spec.get("hostnames", ("",)):
        label, _, domain = str(host).partition(".")
        if domain != boundary.domain or not label.endswith(f"--{tenant}") or label.count("--") not in (1, 2):
            yield f"host {printable(str(host))} is not the tenant's"
    for parent in spec.get("parentRefs", ({},)):
        if (parent.get("namespace"), parent.get("name")) != boundary.gateway or parent.get("kind") != "Gateway":
            yield f"parent {printable(str(parent))} is not the cluster's Gateway"
    for rule in spec.get("rules", ()):
        yield from _only("rules", rule, frozenset(("matches", "backendRefs", "timeouts")))
        for backend in rule.get("backendRefs", ()):
            yield from _only("backendRefs", backend, frozenset(("group", "kind", "name", "port", "weight")))
            yield from _same("backendRefs.kind", (backend.get("group"), backend.get("kind")), ("", "Service"))


def _judge_policy(boundary: Boundary, spec: Any) -> Iterator[str]:
    for target in spec.get("targetRefs", ({},)):
        yield from _only("targetRefs", target, frozenset(("group", "kind", "name")))
        yield from _same("targetRefs.kind", target.get("kind"), "HTTPRoute")
    action = spec.get("authorization", {}).get("defaultAction")
    if action != "Deny" and not (action == "Allow" and "oidc" not in spec):
        yield "authorization.defaultAction is neither Deny nor that of a public route"
    secret = spec.get("oidc", {}).get("clientSecret", {})
    if secret:
        yield from _same("oidc.clientSecret.namespace", secret.get("namespace"), boundary.secret_namespace)


def _judge_isolation_object(boundary: Boundary, tenant: str, one: Object) -> Iterator[str]:
    yield from _identity(one, _NAMESPACE_API)
    kind, metadata, space = one.get("kind"), one.get("metadata", {}), names.namespace(tenant)
    opened = kind == "NetworkPolicy" and "--" in str(metadata.get("name"))
    if opened:
        yield from _judge_opening(metadata, one.get("spec", {}))
    elif not _let_go(metadata.get("annotations", {})):
        yield from _same("sync-options", metadata.get("annotations", {}).get(names.SYNC_OPTIONS), names.KEEP)
    if kind == "Namespace":
        yield from _same("metadata.name", metadata.get("name"), space)
        yield from _same(
            "Pod Security", metadata.get("labels", {}).get("pod-security.kubernetes.io/enforce"), "restricted"
        )
    elif kind == "ReferenceGrant":
        yield from _same("metadata.namespace", metadata.get("namespace"), boundary.secret_namespace)
        sources = [(source.get("kind"), source.get("namespace")) for source in one.get("spec", {}).get("from", ())]
        yield from _same("from", sources, [("SecurityPolicy", space)])
        yield from _same("to", [target.get("kind") for target in one.get("spec", {}).get("to", ())], ["Secret"])
    else:
        yield from _same("metadata.namespace", metadata.get("namespace"), space)


def _judge_opening(metadata: Any, spec: Any) -> Iterator[str]:
    """What a policy opens besides the namespace's own: files for copies, to or from one kind of pod; a store for instances."""
    yield from _only("metadata", metadata, frozenset(("name", "namespace", "labels")))
    chosen = spec.get("podSelector", {}).get("matchLabels", {})
    way = str(metadata.get("name")).partition("--")[0]
    yield from _only("spec", spec, frozenset(("podSelector", "policyTypes", _OPENINGS.get(way, ""))))
    if way == "buckets":
        yield from _same("podSelector", list(chosen), [names.INSTANCE])
        return
    yield from _same(
        "podSelector role", chosen.get(names.ROLE), names.FILES_ROLE if way == "share" else names.COPY_ROLE
    )
    other = names.COPY_ROLE if way == "share" else names.FILES_ROLE
    for rule in spec.get(_OPENINGS.get(way, ""), ({},)):
        yield from _only("rule", rule, frozenset(("from", "to", "ports")))
        yield from _same("ports", [one.get("port") for one in rule.get("ports", ())], [names.FILES_PORT])
        for peer in rule.get("from", []) + rule.get("to", []):
            yield from _only("peer", peer, frozenset(("namespaceSelector", "podSelector")))
            role = peer.get("podSelector", {}).get("matchLabels", {}).get(names.ROLE)
            yield from _same("peer's role", role, other)


def _judge_argo_object(boundary: Boundary, tenant: str, one: Object) -> Iterator[str]:
    yield from _identity(one, _ARGO_API)
    metadata, spec, space = one.get("metadata", {}), one.get("spec", {}), names.namespace(tenant)
    own_project = names.project(tenant, boundary.cluster)
    yield from _same("metadata.namespace", metadata.get("namespace"), names.ARGO_NAMESPACE)
    if one.get("kind") == "AppProject":
        yield from _same("metadata.name", metadata.get("name"), own_project)
        yield from _same("destinations", [target.get("namespace") for target in spec.get("destinations", ())], [space])
        yield from _same("clusterResourceWhitelist", spec.get("clusterResourceWhitelist"), [])
        for entry in spec.get("namespaceResourceWhitelist", ({},)):
            if (entry.get("group"), entry.get("kind")) not in _PROJECT_KINDS:
                yield f"the project allows {printable(str(entry))}"
        yield from _only("spec", spec, _PROJECT_FIELDS)
        for role in spec.get("roles", ()):
            yield from _judge_role(own_project, role)
        return
    parts = {
        names.application(tenant, boundary.cluster, part): f"tenants/{tenant}/{part}" for part in ("storage", "compute")
    }
    source = spec.get("source", {})
    if metadata.get("name") not in parts:
        yield f"Application {printable(str(metadata.get('name')))} is not the tenant's"
    else:
        yield from _same("source.path", source.get("path"), parts[str(metadata.get("name"))])
    yield from _same("source.targetRevision", source.get("targetRevision"), names.rendered_branch(boundary.cluster))
    yield from _same("project", spec.get("project"), own_project)
    yield from _same("destination.namespace", spec.get("destination", {}).get("namespace"), space)


def _judge_role(project: str, role: Any) -> Iterator[str]:
    yield from _only("roles", role, frozenset(("name", "policies", "groups")))
    known = {name.lower(): name for name in project_roles.GRANTS}
    if role.get("name") not in known:
        yield f"role {printable(str(role.get('name')))} is not one of a tenant's"
    else:
        wanted = project_roles.policies(project, known[role["name"]])
        yield from _same("roles.policies", role.get("policies"), wanted)


def _judge_platform_object(one: Object) -> Iterator[str]:
    if one.get("kind") not in _PLATFORM_KINDS:
        yield f"kind {printable(str(one.get('kind')))} is not allowed"
    metadata = one.get("metadata", {})
    for name in (metadata.get("namespace", ""), metadata.get("name", "") if one.get("kind") == "Namespace" else ""):
        if str(name).startswith("t-"):
            yield f"namespace {printable(str(name))} is a tenant's"

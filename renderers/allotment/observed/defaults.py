"""The fields that an API server and its controllers add to an applied object, each with its default value.

A field is written as a path from the object's root, with `*` for an element of a list. A live object may have a field
that is not published. If the field is not listed here, or has another value than the default, a person wrote the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Value = Any
Default = Callable[[Value, Mapping[str, Value]], bool]  # arguments: the live value, and the mapping that contains it

_IP_FAMILIES = (["IPv4"], ["IPv6"])


def _equals_any(*values: Value) -> Default:
    """Return a function that tests whether a live field has one of `values`."""
    return lambda live, _: any(type(live) is type(value) and live == value for value in values)


def _is_implied_pull_policy(live: Value, container: Mapping[str, Value]) -> bool:
    """Return whether a pull policy is the default for the image's tag.

    An image with neither a tag nor a digest has the tag `latest`.
    """
    name, _, digest = str(container.get("image", "")).partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return bool(live == ("Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"))


def _is_default_target_port(live: Value, port: Mapping[str, Value]) -> bool:
    return bool(live == port.get("port"))


def _is_default_rolling_update(live: Value, strategy: Mapping[str, Value]) -> bool:
    return strategy.get("type") == "RollingUpdate" and live == _ROLLING_UPDATE_DEFAULTS


def _is_assigned_cluster_ip(live: Value, _: Mapping[str, Value]) -> bool:
    return isinstance(live, str) and live not in ("", "None")


def _are_assigned_cluster_ips(live: Value, spec: Mapping[str, Value]) -> bool:
    return bool(live == [spec.get("clusterIP")]) and live != ["None"]


def _is_bound_volume_name(live: Value, _: Mapping[str, Value]) -> bool:
    return isinstance(live, str)


def _is_same_data_source(live: Value, spec: Mapping[str, Value]) -> bool:
    """Return whether dataSource equals dataSourceRef. The API server copies dataSourceRef to dataSource."""
    return bool(live == spec.get("dataSourceRef"))


def _are_implied_policy_types(live: Value, spec: Mapping[str, Value]) -> bool:
    return bool(live == (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]))


_ROLLING_UPDATE_DEFAULTS = {"maxSurge": "25%", "maxUnavailable": "25%"}
_PROBE_DEFAULTS: dict[str, Default] = {
    "timeoutSeconds": _equals_any(1),
    "periodSeconds": _equals_any(10),
    "successThreshold": _equals_any(1),
    "failureThreshold": _equals_any(3),
    "httpGet/scheme": _equals_any("HTTP"),
    "httpGet/path": _equals_any("/"),
}
_CONTAINER_DEFAULTS: dict[str, Default] = {
    "imagePullPolicy": _is_implied_pull_policy,
    "terminationMessagePath": _equals_any("/dev/termination-log"),
    "terminationMessagePolicy": _equals_any("File"),
    "resources": _equals_any({}),
    "ports/*/protocol": _equals_any("TCP"),
    "env/*/valueFrom/fieldRef/apiVersion": _equals_any("v1"),
    **{
        f"{probe}/{field}": default
        for probe in ("startupProbe", "readinessProbe", "livenessProbe")
        for field, default in _PROBE_DEFAULTS.items()
    },
}
_POD_DEFAULTS: dict[str, Default] = {
    "restartPolicy": _equals_any("Always"),
    "dnsPolicy": _equals_any("ClusterFirst"),
    "schedulerName": _equals_any("default-scheduler"),
    "securityContext": _equals_any({}),
    "terminationGracePeriodSeconds": _equals_any(30),
    "volumes/*/configMap/defaultMode": _equals_any(420),
    "volumes/*/secret/defaultMode": _equals_any(420),
    "volumes/*/emptyDir": _equals_any({}),
    "volumes/*/ephemeral/volumeClaimTemplate/metadata": _equals_any({}, {"creationTimestamp": None}),
    "volumes/*/ephemeral/volumeClaimTemplate/spec/volumeMode": _equals_any("Filesystem"),
    **{
        f"{containers_field}/*/{field}": default
        for containers_field in ("containers", "initContainers")
        for field, default in _CONTAINER_DEFAULTS.items()
    },
}
DEFAULTS_BY_KIND: dict[str, dict[str, Default]] = {
    "Namespace": {
        "spec": _equals_any({"finalizers": ["kubernetes"]}),
        "metadata/labels/kubernetes.io/metadata.name": lambda _live, _labels: True,  # the API server sets the value
    },
    "Deployment": {
        "spec/replicas": _equals_any(1),
        "spec/revisionHistoryLimit": _equals_any(10),
        "spec/progressDeadlineSeconds": _equals_any(600),
        "spec/strategy": _equals_any({"type": "RollingUpdate", "rollingUpdate": _ROLLING_UPDATE_DEFAULTS}),
        "spec/strategy/rollingUpdate": _is_default_rolling_update,
        **{f"spec/template/spec/{field}": default for field, default in _POD_DEFAULTS.items()},
    },
    "Service": {
        "spec/type": _equals_any("ClusterIP"),
        "spec/clusterIP": _is_assigned_cluster_ip,
        "spec/clusterIPs": _are_assigned_cluster_ips,
        "spec/ipFamilies": _equals_any(*_IP_FAMILIES),
        "spec/ipFamilyPolicy": _equals_any("SingleStack"),
        "spec/internalTrafficPolicy": _equals_any("Cluster"),
        "spec/sessionAffinity": _equals_any("None"),
        "spec/ports/*/protocol": _equals_any("TCP"),
        "spec/ports/*/targetPort": _is_default_target_port,
    },
    "NetworkPolicy": {
        "spec/policyTypes": _are_implied_policy_types,
        "spec/ingress/*/ports/*/protocol": _equals_any("TCP"),
        "spec/egress/*/ports/*/protocol": _equals_any("TCP"),
    },
    "PersistentVolumeClaim": {
        "spec/volumeName": _is_bound_volume_name,
        "spec/volumeMode": _equals_any("Filesystem"),
        "spec/dataSource": _is_same_data_source,
    },
    "HTTPRoute": {
        "spec/rules/*/matches": _equals_any([{"path": {"type": "PathPrefix", "value": "/"}}]),
        "spec/rules/*/backendRefs/*/weight": _equals_any(1),
        "spec/rules/*/backendRefs/*/group": _equals_any(""),
        "spec/rules/*/backendRefs/*/kind": _equals_any("Service"),
        "spec/parentRefs/*/group": _equals_any("gateway.networking.k8s.io"),
        "spec/parentRefs/*/kind": _equals_any("Gateway"),
    },
    "SecurityPolicy": {},
    "PodDisruptionBudget": {},
    "ResourceQuota": {},
    "LimitRange": {},
    "RoleBinding": {},
    "ValidatingAdmissionPolicy": {},
    "ValidatingAdmissionPolicyBinding": {},
    "NodePool": {},
    "NodeOverlay": {},
    "Application": {"spec/source/directory/jsonnet": _equals_any({})},
    "AppProject": {},
}
# Annotations that controllers write. The annotation that `kubectl rollout restart` writes into the pod template is not
# listed, because a restart with this command is an edit by hand.
CONTROLLER_ANNOTATIONS: dict[str, frozenset[str]] = {
    "Deployment": frozenset({"deployment.kubernetes.io/revision"}),
    "PersistentVolumeClaim": frozenset(
        {
            "pv.kubernetes.io/bind-completed",
            "pv.kubernetes.io/bound-by-controller",
            "volume.beta.kubernetes.io/storage-provisioner",
            "volume.kubernetes.io/storage-provisioner",
            "volume.kubernetes.io/storage-resizer",
            "volume.kubernetes.io/selected-node",
        }
    ),
    "NodePool": frozenset(
        {
            "karpenter.sh/nodepool-hash",
            "karpenter.sh/nodepool-hash-version",
            "karpenter.sh/stored-version-migrated",
        }
    ),
    # Argo CD removes `refresh` after the refresh. Its notifications controller records its messages.
    "Application": frozenset({"argocd.argoproj.io/refresh", "notified.notifications.argoproj.io"}),
}
# Stakater Reloader writes this annotation, and no other, into the pod template of a Deployment that asks for restarts.
RELOAD_PATH = "spec/template/metadata/annotations"
RELOADED_ANNOTATION = "reloader.stakater.com/last-reloaded-from"
TRACKING_ANNOTATION = "argocd.argoproj.io/tracking-id"  # Argo CD writes it on every object that it applies
CONTROLLER_FINALIZERS: dict[str, frozenset[str]] = {
    "PersistentVolumeClaim": frozenset(
        {"kubernetes.io/pvc-protection", "snapshot.storage.kubernetes.io/pvc-as-source-protection"}
    ),
}
# Published fields with an empty value. An API server may leave out such a field, because an absent field has the same
# effect.
OMITTED_VALUES: dict[str, Value] = {
    "env/*/value": "",
    "volumeMounts/*/readOnly": False,
    "persistentVolumeClaim/readOnly": False,
}

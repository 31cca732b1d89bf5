"""Fields that an API server and its controllers add to an applied object, each with the value that it then has.

A field here is a path from the object's root, an element of a list as `*`. A field that isn't here, or has another value,
was written by somebody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Value = Any
Default = Callable[[Value, Mapping[str, Value]], bool]  # of the live value, and the live mapping that holds it

_IP_FAMILIES = (["IPv4"], ["IPv6"])


def _is(*values: Value) -> Default:
    """Return the default of a field that has always one of these values."""
    return lambda live, _: any(type(live) is type(value) and live == value for value in values)


def _pull_policy(live: Value, container: Mapping[str, Value]) -> bool:
    """Return whether it is the policy that the image's tag implies: an image without tag and digest has `latest`."""
    name, _, digest = str(container.get("image", "")).partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return bool(live == ("Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"))


def _target_port(live: Value, port: Mapping[str, Value]) -> bool:
    return bool(live == port.get("port"))


def _rolling(live: Value, strategy: Mapping[str, Value]) -> bool:
    return strategy.get("type") == "RollingUpdate" and live == _ROLLING


def _cluster_ip(live: Value, _: Mapping[str, Value]) -> bool:
    return isinstance(live, str) and live not in ("", "None")


def _cluster_ips(live: Value, spec: Mapping[str, Value]) -> bool:
    return bool(live == [spec.get("clusterIP")]) and live != ["None"]


def _volume_name(live: Value, _: Mapping[str, Value]) -> bool:
    return isinstance(live, str)


def _data_source(live: Value, spec: Mapping[str, Value]) -> bool:
    """Return whether it says the same as dataSourceRef, which is published."""
    return bool(live == spec.get("dataSourceRef"))


def _policy_types(live: Value, spec: Mapping[str, Value]) -> bool:
    return bool(live == (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]))


_ROLLING = {"maxSurge": "25%", "maxUnavailable": "25%"}
_PROBE: dict[str, Default] = {
    "timeoutSeconds": _is(1),
    "periodSeconds": _is(10),
    "successThreshold": _is(1),
    "failureThreshold": _is(3),
    "httpGet/scheme": _is("HTTP"),
    "httpGet/path": _is("/"),
}
_CONTAINER: dict[str, Default] = {
    "imagePullPolicy": _pull_policy,
    "terminationMessagePath": _is("/dev/termination-log"),
    "terminationMessagePolicy": _is("File"),
    "resources": _is({}),
    "ports/*/protocol": _is("TCP"),
    "env/*/valueFrom/fieldRef/apiVersion": _is("v1"),
    **{
        f"{probe}/{field}": default
        for probe in ("startupProbe", "readinessProbe", "livenessProbe")
        for field, default in _PROBE.items()
    },
}
_POD: dict[str, Default] = {
    "restartPolicy": _is("Always"),
    "dnsPolicy": _is("ClusterFirst"),
    "schedulerName": _is("default-scheduler"),
    "securityContext": _is({}),
    "terminationGracePeriodSeconds": _is(30),
    "volumes/*/configMap/defaultMode": _is(420),
    "volumes/*/secret/defaultMode": _is(420),
    "volumes/*/emptyDir": _is({}),
    "volumes/*/ephemeral/volumeClaimTemplate/metadata": _is({}, {"creationTimestamp": None}),
    "volumes/*/ephemeral/volumeClaimTemplate/spec/volumeMode": _is("Filesystem"),
    **{
        f"{containers_field}/*/{field}": default
        for containers_field in ("containers", "initContainers")
        for field, default in _CONTAINER.items()
    },
}
DEFAULTS: dict[str, dict[str, Default]] = {
    "Namespace": {
        "spec": _is({"finalizers": ["kubernetes"]}),
        "metadata/labels/kubernetes.io/metadata.name": lambda _live, _labels: True,  # the API server refuses another
    },
    "Deployment": {
        "spec/replicas": _is(1),
        "spec/revisionHistoryLimit": _is(10),
        "spec/progressDeadlineSeconds": _is(600),
        "spec/strategy": _is({"type": "RollingUpdate", "rollingUpdate": _ROLLING}),
        "spec/strategy/rollingUpdate": _rolling,
        **{f"spec/template/spec/{field}": default for field, default in _POD.items()},
    },
    "Service": {
        "spec/type": _is("ClusterIP"),
        "spec/clusterIP": _cluster_ip,
        "spec/clusterIPs": _cluster_ips,
        "spec/ipFamilies": _is(*_IP_FAMILIES),
        "spec/ipFamilyPolicy": _is("SingleStack"),
        "spec/internalTrafficPolicy": _is("Cluster"),
        "spec/sessionAffinity": _is("None"),
        "spec/ports/*/protocol": _is("TCP"),
        "spec/ports/*/targetPort": _target_port,
    },
    "NetworkPolicy": {
        "spec/policyTypes": _policy_types,
        "spec/ingress/*/ports/*/protocol": _is("TCP"),
        "spec/egress/*/ports/*/protocol": _is("TCP"),
    },
    "PersistentVolumeClaim": {
        "spec/volumeName": _volume_name,
        "spec/volumeMode": _is("Filesystem"),
        "spec/dataSource": _data_source,
    },
    "HTTPRoute": {
        "spec/rules/*/matches": _is([{"path": {"type": "PathPrefix", "value": "/"}}]),
        "spec/rules/*/backendRefs/*/weight": _is(1),
        "spec/rules/*/backendRefs/*/group": _is(""),
        "spec/rules/*/backendRefs/*/kind": _is("Service"),
        "spec/parentRefs/*/group": _is("gateway.networking.k8s.io"),
        "spec/parentRefs/*/kind": _is("Gateway"),
    },
    "SecurityPolicy": {},
    "PodDisruptionBudget": {},
    "ResourceQuota": {},
    "LimitRange": {},
}
# Annotations that controllers write. `kubectl rollout restart` annotates the pod template, and counts as an edit.
ANNOTATIONS: dict[str, frozenset[str]] = {
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
}
TRACKING = "argocd.argoproj.io/tracking-id"  # Argo CD's own, on every object that it applies
FINALIZERS: dict[str, frozenset[str]] = {
    "PersistentVolumeClaim": frozenset(
        {"kubernetes.io/pvc-protection", "snapshot.storage.kubernetes.io/pvc-as-source-protection"}
    ),
}
# Published fields that an API server leaves out because they say nothing: an absent one means the same.
OMITTED: dict[str, Value] = {
    "env/*/value": "",
    "volumeMounts/*/readOnly": False,
    "persistentVolumeClaim/readOnly": False,
}

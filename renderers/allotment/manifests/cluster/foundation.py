"""Render the objects that all tenants of a cluster share: system namespaces, priority classes, admission policies."""

from __future__ import annotations

from typing import Any

from allotment.manifests import names
from allotment.manifests.tenant.namespace import DENY_ALL, POD_SECURITY_VERSION
from allotment.manifests.yaml_text import without_empty

FIRST_STOCK_PRIORITY = -10
ADMISSION_API_VERSION = "admissionregistration.k8s.io/v1"


def render_system_namespaces() -> list[dict[str, Any]]:
    """Return the namespaces for placeholders and for the device plugin, with their Pod Security levels.

    The device plugin is privileged, because it needs access to the host. Placeholders need no network, so a
    NetworkPolicy denies all their traffic.
    """
    levels = {names.STOCK_NAMESPACE: "restricted", names.DEVICE_PLUGIN_NAMESPACE: "privileged"}
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": "deny-all",
            "namespace": names.STOCK_NAMESPACE,
            "labels": names.labels(),
            "annotations": {names.SYNC_OPTIONS: names.KEEP_OPTIONS},
        },
        "spec": DENY_ALL,
    }
    spaces: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": space,
                "labels": {
                    **names.labels(),
                    "pod-security.kubernetes.io/enforce": level,
                    "pod-security.kubernetes.io/enforce-version": POD_SECURITY_VERSION,
                },
                "annotations": {names.SYNC_OPTIONS: names.KEEP_OPTIONS},
            },
        }
        for space, level in levels.items()
    ]
    return [*spaces, policy]


def render_priority_classes() -> list[dict[str, Any]]:
    """Return the priority classes: −10 to −1 for placeholders by their size, 0 for storage pods, 1 for instances.

    All instances have the same priority, so they never preempt each other.
    """
    stock = [
        _build_priority_class(
            names.stock_priority(rank),
            FIRST_STOCK_PRIORITY + rank - 1,
            "PreemptLowerPriority",
            "Placeholders of stock.",
        )
        for rank in range(1, names.STOCK_PRIORITIES + 1)
    ]
    return [
        *stock,
        _build_priority_class(names.STORAGE_PRIORITY, 0, "Never", "Preparation and accessors of storages."),
        _build_priority_class(
            names.INSTANCE_PRIORITY, 1, "PreemptLowerPriority", "Instances: they take the place of placeholders."
        ),
    ]


def _build_priority_class(name: str, value: int, preemption: str, description: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {
            "name": name,
            "labels": names.labels(),
            "annotations": {names.SYNC_OPTIONS: names.KEEP_OPTIONS, names.PROTECTED: "true"},
        },
        "value": value,
        "globalDefault": False,
        "preemptionPolicy": preemption,
        "description": description,
    }


def render_admission_policies() -> list[dict[str, Any]]:
    """Return two policies with their bindings.

    One policy blocks the deletion of protected objects. The other policy restricts the pods of tenants: a pod must have
    the priority class for instances or for storage pods, and may not choose its node.
    """
    protected = f"oldObject.?metadata.?annotations[?'{names.PROTECTED}'].orValue('') == 'true'"
    classes = ", ".join(f"'{name}'" for name in (names.INSTANCE_PRIORITY, names.STORAGE_PRIORITY))
    return [
        *build_policy(
            "allotment-protected",
            [
                build_resource_rule([""], ["v1"], ["DELETE"], ["namespaces", "persistentvolumeclaims"]),
                build_resource_rule(["objectbucket.io"], ["v1alpha1"], ["DELETE"], ["objectbucketclaims"]),
                build_resource_rule(["scheduling.k8s.io"], ["v1"], ["DELETE"], ["priorityclasses"]),
                build_resource_rule(["snapshot.storage.k8s.io"], ["v1"], ["DELETE"], ["volumesnapshots"]),
            ],
            {},
            [{"name": "protected", "expression": protected}],
            [
                {
                    "expression": "false",
                    "message": "Allotment protects this: it is deleted by two merges, see deletionPolicy.",
                }
            ],
        ),
        *build_policy(
            "allotment-tenant-pods",
            [build_resource_rule([""], ["v1"], ["CREATE"], ["pods"])],
            {"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]},
            [],
            [
                {
                    "expression": f"object.spec.?priorityClassName.orValue('') in [{classes}]",
                    "message": "A tenant's pod has one of Allotment's priority classes.",
                },
                {
                    "expression": "object.spec.?nodeName.orValue('') == ''",
                    "message": "A tenant's pod doesn't choose its node.",
                },
            ],
        ),
    ]


def build_resource_rule(
    groups: list[str], versions: list[str], operations: list[str], resources: list[str]
) -> dict[str, Any]:
    """Return a rule that selects requests by the API group, version, operation and resource."""
    return {
        "apiGroups": groups,
        "apiVersions": versions,
        "operations": operations,
        "resources": resources,
        "scope": "*",
    }


def build_policy(
    name: str,
    rules: list[dict[str, Any]],
    namespaces: dict[str, Any],
    conditions: list[dict[str, Any]],
    validations: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return a ValidatingAdmissionPolicy that denies requests, and its binding.

    `namespaces` selects the namespaces by their labels. The policy judges only requests that meet all `conditions`.
    """
    metadata = {"name": name, "labels": names.labels(), "annotations": {names.SYNC_OPTIONS: names.KEEP_OPTIONS}}
    spec = without_empty(
        {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": namespaces,
                "objectSelector": {},
                "resourceRules": rules,
            },
            "matchConditions": conditions,
            "validations": validations,
        }
    )
    return [
        {"apiVersion": ADMISSION_API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": ADMISSION_API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]

"""Checks Argo CD: the settings of `allot bootstrap`, the kinds that Argo CD excludes, and our Applications."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

from allotment.declared import documents
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.platform import Platform
from allotment.diagnosis.cluster_snapshot import (
    APPLICATIONS,
    ARGO_CONFIG_MAPS,
    ClusterSnapshot,
    NotReadable,
    Object,
    name_of,
)
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.manifests import names
from allotment.manifests.cluster import bootstrap, control
from allotment.manifests.tenant import applications
from allotment.problems import escape_unprintable

BOOTSTRAP_ADVICE = "allot bootstrap | kubectl apply --server-side --force-conflicts --filename -"
_RESTART_ADVICE = ", then restart the application controller"
_DEFAULT_POLICY_KEY = "policy.default"  # a key of argocd-rbac-cm
_DEFAULT_VALUES = {_DEFAULT_POLICY_KEY: "", "scopes": "[groups]"}  # Argo CD's values for absent keys
# The kinds that we render. Argo CD must exclude none of them.
RENDERED_KINDS = (
    *applications.TENANT_KINDS,
    ("", "LimitRange"),
    ("", "Namespace"),
    ("", "ResourceQuota"),
    ("", "ServiceAccount"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("argoproj.io", "AppProject"),
    ("argoproj.io", "Application"),
    ("cert-manager.io", "Certificate"),
    ("gateway.envoyproxy.io", "ClientTrafficPolicy"),
    ("gateway.envoyproxy.io", "EnvoyExtensionPolicy"),
    ("gateway.envoyproxy.io", "EnvoyProxy"),
    ("gateway.envoyproxy.io", "HTTPRouteFilter"),
    ("gateway.networking.k8s.io", "Gateway"),
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("gateway.networking.k8s.io", "ReferenceGrant"),
    ("karpenter.k8s.aws", "EC2NodeClass"),
    ("karpenter.sh", "NodeOverlay"),
    ("karpenter.sh", "NodePool"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("policy", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
)
MAX_MESSAGE_LENGTH = 300


def check_settings(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of our keys in each of Argo CD's ConfigMaps. Raises NotReadable."""
    require_hub(snapshot)
    if catalog.platform.get_singleton(Platform) is None:
        yield skipped(
            "argocd-cm",
            "platform/platform.yaml can't be read, so nothing is known about the content that the ConfigMap should have",
        )
        return
    expected_settings = {
        manifest["metadata"]["name"]: manifest["data"]
        for manifest in bootstrap.render(catalog)
        if manifest["kind"] == "ConfigMap"
    }
    for kind in ARGO_CONFIG_MAPS:
        subject, config_map = f"ConfigMap {kind.namespace}/{kind.name}", snapshot.get_object(kind)
        data = (config_map or {}).get("data", {})
        differing = sorted(
            key
            for key, value in expected_settings[kind.name].items()
            if data.get(key, _DEFAULT_VALUES.get(key)) != value
        )
        advice = BOOTSTRAP_ADVICE + (_RESTART_ADVICE if kind.name == "argocd-cmd-params-cm" else "")
        if data.get(_DEFAULT_POLICY_KEY) and _DEFAULT_POLICY_KEY in differing:
            yield error(
                subject,
                f"has {_DEFAULT_POLICY_KEY}: {escape_unprintable(data[_DEFAULT_POLICY_KEY], 60)}, so every user of Argo CD sees every tenant",
                advice,
            )
            differing.remove(_DEFAULT_POLICY_KEY)
        if differing:
            yield (warning if _are_link_keys(differing) else error)(
                subject, _describe_differing_keys(differing, config_map), advice
            )
        elif data.get(_DEFAULT_POLICY_KEY, "") == expected_settings[kind.name].get(_DEFAULT_POLICY_KEY, ""):
            yield ok(subject, "matches the output of allot bootstrap")


def _describe_differing_keys(keys: list[str], config_map: Object | None) -> str:
    """Return a text with the keys that are missing, and with the keys that have another value than ours."""
    if config_map is None:
        return "doesn't exist"
    lacking = ", ".join(key for key in keys if key not in config_map.get("data", {}))
    other = ", ".join(key for key in keys if key in config_map.get("data", {}))
    return " and ".join(
        [*([f"lacks {lacking}"] if lacking else []), *([f"has a different value of {other}"] if other else [])]
    )


def _are_link_keys(keys: list[str]) -> bool:
    """Return whether all keys concern only links on Argo CD's pages."""
    return all(key.endswith(".links") for key in keys)


def check_exclusions(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the kinds that Argo CD excludes: it never applies objects of such a kind, and reports no error.

    Raises NotReadable.
    """
    require_hub(snapshot)
    config_map = snapshot.get_object(ARGO_CONFIG_MAPS[0])
    text = (config_map or {}).get("data", {}).get("resource.exclusions", "")
    if not text:
        return
    subject = f"ConfigMap {ARGO_CONFIG_MAPS[0].namespace}/{ARGO_CONFIG_MAPS[0].name} resource.exclusions"
    entries: Any = documents.read(f"exclusions:\n{text}".encode()).value
    entries = entries.get("exclusions") if isinstance(entries, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        yield skipped(subject, "can't be read")
        return
    left_out = [
        f"{kind}.{group}" if group else kind
        for group, kind in RENDERED_KINDS
        if any(_excludes_kind(entry, group, kind) for entry in entries)
    ]
    if left_out:
        yield error(subject, f"names {', '.join(left_out)}, so Argo CD never applies them", "remove these kinds")
    else:
        yield ok(subject, "names no kind that Allotment renders")


def _excludes_kind(entry: dict[str, Any], group: str, kind: str) -> bool:
    """Return whether an entry of the exclusions excludes a kind in some cluster. An absent list matches everything."""

    def matches(patterns: Any, value: str) -> bool:
        return not patterns or any(fnmatch.fnmatchcase(value, str(pattern)) for pattern in patterns)

    return matches(entry.get("apiGroups"), group) and matches(entry.get("kinds"), kind)


def check_applications(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each platform Application, and a diagnosis of all tenants' Applications together.

    Raises NotReadable.
    """
    require_hub(snapshot)
    of_it = [
        application
        for application in snapshot.list_objects(APPLICATIONS)
        if application["metadata"].get("labels", {}).get(names.CLUSTER) == cluster.name
    ]
    applications_by_name = {
        name_of(application): application
        for application in of_it
        if names.ADD_ON not in application["metadata"]["labels"]
    }
    root = names.platform_application("root", cluster.name)
    own = _list_platform_applications(catalog, cluster)
    if root not in applications_by_name:
        yield error(
            f"Application {root}", "doesn't exist, so no published manifest reaches the cluster", BOOTSTRAP_ADVICE
        )
    other_names = sorted(
        name for name in applications_by_name if name.startswith(names.PLATFORM_PREFIX) and name not in (root, *own)
    )
    for name in [root, *own, *other_names]:
        if name in applications_by_name:
            yield _diagnose_application(applications_by_name[name], name)
        elif root in applications_by_name:
            advice = f"allot publish, then look at {root} in Argo CD"
            yield error(f"Application {name}", "doesn't exist, although the root Application exists", advice)
    tenants = {
        name: application
        for name, application in applications_by_name.items()
        if not name.startswith(names.PLATFORM_PREFIX)
    }
    failing = {
        name: message for name, application in sorted(tenants.items()) if (message := failure_message(application))
    }
    for name, message in list(failing.items())[:1]:
        more = f"; and {len(failing) - 1} more" if len(failing) > 1 else ""
        yield warning(
            "tenants' Applications",
            f"{len(failing)} of {len(tenants)} aren't applied. {name}: {message}{more}",
            f"allot status --cluster {cluster.name} shows the cause for each tenant",
        )
    if tenants and not failing:
        yield ok("tenants' Applications", f"all {len(tenants)} are applied")


def _list_platform_applications(catalog: Catalog, cluster: ScopeDeclarations) -> list[str]:
    """Return the names of the platform Applications that a cluster's root Application creates."""
    if catalog.platform.get_singleton(Platform) is None:
        return []
    return [
        manifest["metadata"]["name"]
        for manifest in control.render_platform(catalog, cluster)
        if manifest["kind"] == "Application"
    ]


def _diagnose_application(application: Object, name: str) -> Diagnosis:
    subject, status = f"Application {name}", application.get("status", {})
    synced, health = status.get("sync", {}).get("status", "Unknown"), status.get("health", {}).get("status", "Unknown")
    advice = f"argocd app get {name}"
    if message := failure_message(application):
        return error(subject, message, advice)
    if synced != "Synced":
        return warning(subject, f"is {synced}", advice)
    if health == "Degraded":
        return warning(
            subject,
            f"is Degraded: {escape_unprintable(status['health'].get('message', 'no message'), MAX_MESSAGE_LENGTH)}",
            advice,
        )
    return ok(subject, f"is Synced and {health}")


def failure_message(application: Object) -> str:
    """Return Argo CD's message about why an Application isn't applied; empty if nothing failed."""
    status = application.get("status", {})
    for condition in status.get("conditions", ()):
        if str(condition.get("type", "")).endswith("Error"):
            return escape_unprintable(f"{condition['type']}: {condition.get('message', '')}", MAX_MESSAGE_LENGTH)
    operation = status.get("operationState", {})
    if operation.get("phase") in ("Failed", "Error"):
        return escape_unprintable(
            f"its sync {operation['phase'].lower()}: {operation.get('message', '')}", MAX_MESSAGE_LENGTH
        )
    return ""


def require_hub(snapshot: ClusterSnapshot) -> None:
    """Raise NotReadable if the hub, the cluster that should run Argo CD, does not serve Argo CD's API."""
    if snapshot.hub_apis and "argoproj.io/v1alpha1" not in snapshot.hub_apis:
        raise NotReadable(
            "Argo CD", "it doesn't run in this cluster: name its cluster with --argocd-kubeconfig or --argocd-context"
        )

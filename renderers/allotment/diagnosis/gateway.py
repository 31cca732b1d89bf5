"""Checks the Gateway of the instances: its class, its listener, its certificate, its proxies, and its logins.

The checks read no Secret. They conclude the state of Secrets from cert-manager's Certificate, the listener's status,
and the policies' status.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.diagnosis.cluster_snapshot import (
    CERTIFICATES,
    EXTENSION_POLICIES,
    GATEWAY_CLASSES,
    GATEWAYS,
    OTHER_PODS,
    SECURITY_POLICIES,
    ClusterSnapshot,
    NotReadable,
    Object,
    condition_text,
    find_condition,
    name_of,
)
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.manifests import names
from allotment.manifests.cluster.gateway import LOGIN_ROUTE, SESSION_POLICY
from allotment.manifests.cluster.managed_gateway import CONTROLLER
from allotment.observed.status import parse_time

OWNING_NAME_LABEL = "gateway.envoyproxy.io/owning-gateway-name"
OWNING_NAMESPACE_LABEL = "gateway.envoyproxy.io/owning-gateway-namespace"
EXPIRY_WARNING = datetime.timedelta(days=14)
RENEWAL_GRACE = datetime.timedelta(days=1)  # after the time for which cert-manager planned the renewal
_TENANT_NAMESPACE_LABELS = names.labels(tenant="")


def check_gateway(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the Gateway and its listener for tenants' routes. Raises NotReadable."""
    spec = _cluster_spec(cluster)
    subject = _format_gateway_name(spec)
    gateway = _find_gateway(snapshot, spec)
    if gateway is None:
        gateway_names = [
            f"{candidate['metadata']['namespace']}/{name_of(candidate)}"
            for candidate in snapshot.list_objects(GATEWAYS)
        ]
        hint = f"; there are {', '.join(sorted(gateway_names)[:8])}" if gateway_names else ""
        yield error(
            subject,
            f"doesn't exist{hint}",
            "check that Argo CD has applied platform/cluster, or write another spec.gateway"
            if spec.gateway.managed
            else "create it, name another Gateway in spec.gateway, or write managed: true there",
        )
        return
    conditions = gateway.get("status", {}).get("conditions")
    unmet = [kind for kind in ("Accepted", "Programmed") if find_condition(conditions, kind).get("status") != "True"]
    for kind in unmet[:1]:
        yield error(
            subject,
            f"isn't {kind}: {condition_text(find_condition(conditions, kind))}",
            f"kubectl -n {spec.gateway.namespace} describe gateway {spec.gateway.name}",
        )
    if not unmet:
        yield ok(subject, "is Programmed")
    yield from _check_listener(gateway, spec)


def _check_listener(gateway: Object, spec: ClusterSpec) -> Iterator[Diagnosis]:
    name, host = spec.gateway.section_name, f"*.{spec.domain}"
    subject = f"{_format_gateway_name(spec)} listener {name}"
    listeners = gateway["spec"].get("listeners", ())
    listener = next((candidate for candidate in listeners if candidate["name"] == name), None)
    if listener is None:
        listener_names = ", ".join(sorted(candidate["name"] for candidate in listeners)) or "none"
        yield error(
            subject,
            f"doesn't exist; the Gateway has {listener_names}",
            "add it to the Gateway, or name another listener in spec.gateway.sectionName",
        )
        return
    wrong = [*_check_listener_settings(subject, listener, host), *_check_allowed_routes(subject, listener, spec)]
    yield from wrong or [ok(subject, f"accepts tenants' routes for {host}")]
    status = next(
        (candidate for candidate in gateway.get("status", {}).get("listeners", ()) if candidate.get("name") == name),
        None,
    )
    if status is None:
        yield skipped(
            subject, "the Gateway's status doesn't contain this listener, so the state of its certificate is unknown"
        )
        return
    for kind in ("Accepted", "ResolvedRefs", "Programmed"):
        status_condition = find_condition(status.get("conditions"), kind)
        if status_condition.get("status") == "False":
            yield error(
                subject,
                f"isn't {kind}: {condition_text(status_condition)}",
                "check the Secret in tls.certificateRefs and the ports of the listener",
            )
            return


def _check_listener_settings(subject: str, listener: Object, host: str) -> Iterator[Diagnosis]:
    protocol, hostname = listener.get("protocol"), listener.get("hostname")
    if protocol != "HTTPS":
        yield error(
            subject,
            f"has the protocol {protocol}, but logins need HTTPS",
            "write protocol: HTTPS, with tls.certificateRefs",
        )
    elif listener.get("tls", {}).get("mode", "Terminate") != "Terminate":
        yield error(subject, "passes TLS through, so logins are impossible", "write tls.mode: Terminate")
    if hostname and hostname != host and not (hostname.startswith("*.") and host.endswith(hostname[1:])):
        yield error(
            subject,
            f"has the hostname {hostname}, but instances are at {host}",
            f'write hostname: "{host}", or another spec.domain',
        )


def _check_allowed_routes(subject: str, listener: Object, spec: ClusterSpec) -> Iterator[Diagnosis]:
    allowed = listener.get("allowedRoutes", {})
    kinds = allowed.get("kinds", ())
    if kinds and not any(route_kind.get("kind") == "HTTPRoute" for route_kind in kinds):
        yield error(subject, "accepts no HTTPRoute", "remove allowedRoutes.kinds, or add HTTPRoute")
    spaces = allowed.get("namespaces", {})
    source = spaces.get("from", "Same")
    label = f"those with the label {names.TENANT}"
    if source == "Selector":
        takes = selects(spaces.get("selector", {}), _TENANT_NAMESPACE_LABELS)
        if takes is None:
            yield skipped(
                subject,
                "its namespace selector has labels that Allotment doesn't set, so it is unknown whether it selects the tenants' namespaces",
            )
        elif not takes:
            yield error(subject, "its selector matches no namespace of a tenant", f"change it to match {label}")
        elif spec.oidc.callback_host is not None and selects(spaces.get("selector", {}), {names.TENANT: None}) is False:
            labels = ", ".join(f"{key}: {value}" for key, value in names.labels().items())
            yield error(
                subject,
                f"its selector needs the label {names.TENANT}, which namespace {spec.gateway.namespace} doesn't have, so the"
                f" listener refuses the route {LOGIN_ROUTE} of the callback host and nobody can log in",
                f"write matchLabels: {{{labels}}}, and give this label to the namespace",
            )
    elif source != "All":
        where = f"namespace {spec.gateway.namespace}" if source == "Same" else "no namespace"
        yield error(
            subject,
            f"accepts routes from {where} only, but tenants' routes are in {names.namespace('*')}",
            f"write allowedRoutes.namespaces.from: All, or Selector of {label}",
        )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str | None]) -> bool | None:
    """Return whether a selector matches namespaces with `labels`; None if that is unknown.

    In `labels`, an empty value stands for an unknown value, and None for the absence of the label. The result is unknown if it depends on an unknown value, or
    on a label that is not in `labels`.
    """
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in selector.get("matchLabels", {}).items()
    ]
    is_selected: bool | None = True
    for expression in [*expressions, *selector.get("matchExpressions", ())]:
        operator, has_label = expression["operator"], expression["key"] in labels
        value = labels.get(expression["key"], "")
        if has_label and value is None:
            met: bool | None = operator in ("DoesNotExist", "NotIn")
        elif has_label and operator in ("Exists", "DoesNotExist"):
            met = operator == "Exists"
        elif has_label and value:
            met = (value in expression.get("values", ())) is (operator == "In")
        else:
            met = None
        if met is False:
            return False
        is_selected = is_selected and met
    return is_selected


def check_class(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the Gateway's class, which Envoy Gateway must accept. Raises NotReadable."""
    gateway = _find_gateway(snapshot, _cluster_spec(cluster))
    if gateway is None:
        return
    name = str(gateway["spec"].get("gatewayClassName"))
    subject = f"GatewayClass {name}"
    gateway_class = next(
        (candidate for candidate in snapshot.list_objects(GATEWAY_CLASSES) if name_of(candidate) == name), None
    )
    if gateway_class is None:
        yield error(
            subject, "doesn't exist, but the Gateway names it", "install Envoy Gateway, and create its GatewayClass"
        )
        return
    accepted, controller = (
        find_condition(gateway_class.get("status", {}).get("conditions"), "Accepted"),
        gateway_class["spec"].get("controllerName"),
    )
    if controller != CONTROLLER:
        yield warning(
            subject,
            f"has the controller {controller}, but logins need Envoy Gateway, by default {CONTROLLER}",
            "check that it is an Envoy Gateway under another name",
        )
    if accepted.get("status") == "False":
        yield error(subject, f"isn't accepted: {condition_text(accepted)}", f"kubectl describe gatewayclass {name}")
    elif accepted.get("status") != "True":
        yield warning(subject, f"isn't accepted yet: {condition_text(accepted)}", "check that Envoy Gateway runs")
    elif controller == CONTROLLER:
        yield ok(subject, "is accepted")


def check_certificate(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the listener's certificate: its domain and its expiry, from cert-manager. Raises NotReadable."""
    spec = _cluster_spec(cluster)
    gateway = _find_gateway(snapshot, spec) or {"spec": {}}
    listener: Object = next(
        (
            candidate
            for candidate in gateway["spec"].get("listeners", ())
            if candidate["name"] == spec.gateway.section_name
        ),
        {},
    )
    for reference in listener.get("tls", {}).get("certificateRefs", ()):
        space, secret = reference.get("namespace", spec.gateway.namespace), reference["name"]
        subject = f"Certificate in Secret {space}/{secret}"
        try:
            certificates = snapshot.list_objects(CERTIFICATES)
        except NotReadable as unseen:
            if unseen.missing_permission or unseen.failed:
                raise
            certificates = []
        certificate = next(
            (
                candidate
                for candidate in certificates
                if candidate["metadata"]["namespace"] == space and candidate["spec"].get("secretName") == secret
            ),
            None,
        )
        if certificate is None:
            yield skipped(
                subject,
                "no Certificate of cert-manager manages this Secret, and doctor reads no Secrets: the expiry date is unknown",
            )
        else:
            yield from _check_dates(subject, certificate, spec, snapshot.now)


def _check_dates(subject: str, certificate: Object, spec: ClusterSpec, now: datetime.datetime) -> Iterator[Diagnosis]:
    advice = f"kubectl -n {certificate['metadata']['namespace']} describe certificate {name_of(certificate)}"
    status, host = certificate.get("status", {}), f"*.{spec.domain}"
    if host not in certificate["spec"].get("dnsNames", ()):
        yield error(
            subject,
            f"has the dnsNames {', '.join(certificate['spec'].get('dnsNames', ())) or 'none'}, but instances are at {host}",
            f'add "{host}" to its dnsNames',
        )
    ready, end, renewal = (
        find_condition(status.get("conditions"), "Ready"),
        parse_time(status.get("notAfter", "")),
        parse_time(status.get("renewalTime", "")),
    )
    if end is None:
        yield error(subject, f"isn't issued: {condition_text(ready)}", advice)
    elif end <= now:
        yield error(subject, f"expired on {end:%Y-%m-%d}", advice)
    elif now - RENEWAL_GRACE > renewal if renewal is not None else end - now < EXPIRY_WARNING:
        yield warning(subject, f"expires on {end:%Y-%m-%d} and isn't renewed: {condition_text(ready)}", advice)
    elif host in certificate["spec"].get("dnsNames", ()):
        yield ok(subject, f"is valid until {end:%Y-%m-%d}")


def check_proxies(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the proxies' namespace, which tenants' network policies must admit. Raises NotReadable."""
    spec = _cluster_spec(cluster)
    gateway, subject = spec.gateway, f"{_format_gateway_name(spec)} proxies"
    expected_labels = {OWNING_NAME_LABEL: gateway.name, OWNING_NAMESPACE_LABEL: gateway.namespace}
    pods = [
        pod
        for pod in snapshot.list_objects(OTHER_PODS)
        if expected_labels.items() <= pod["metadata"].get("labels", {}).items()
    ]
    namespace = gateway.effective_proxy_namespace
    elsewhere = sorted({pod["metadata"]["namespace"] for pod in pods} - {namespace})
    if not pods and gateway.managed:
        yield error(
            subject,
            f"don't run: no pod has the label {OWNING_NAME_LABEL}={gateway.name}",
            "read the log of Envoy Gateway: kubectl -n envoy-gateway-system logs deployment/envoy-gateway",
        )
    elif not pods:
        yield skipped(subject, f"no pod has the label {OWNING_NAME_LABEL}={gateway.name}")
    elif elsewhere:
        yield error(
            subject,
            f"run in {', '.join(elsewhere)}, but tenants' network policies admit traffic from {namespace} only",
            "write their namespace in spec.gateway.proxyNamespace of the cluster; for the Gateway's own namespace, write"
            " deploy.type: GatewayNamespace in Envoy Gateway's Kubernetes provider",
        )
    else:
        yield ok(subject, f"run in {namespace}")


def check_logins(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the logins, which Envoy Gateway accepts only if the client's Secret exists.

    Raises NotReadable.
    """
    spec = _cluster_spec(cluster)
    subject = "SecurityPolicies"
    policies = snapshot.list_objects(SECURITY_POLICIES)
    refused = [(policy, refusal) for policy in policies if (refusal := _refusal_message(policy))]
    for policy, message in refused[:1]:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        yield error(
            subject,
            f"{len(refused)} of {len(policies)} aren't accepted: {policy['metadata']['namespace']}/{name_of(policy)}: {message}{more}",
            "nobody can log in there: correct the object in the message, or restart Envoy Gateway",
        )
    logins = [policy for policy in policies if "oidc" in policy["spec"]]
    secret = spec.oidc.client_secret_ref
    if not logins:
        yield skipped(
            subject,
            f"no policy has a login yet, and doctor reads no Secrets: it is unknown whether {secret.namespace}/{secret.name} exists",
        )
    elif not refused:
        yield ok(subject, f"all {len(policies)} are accepted, {len(logins)} of them with a login")


def check_session_filter(
    snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations
) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the policy that removes login cookies from requests to containers. Raises NotReadable."""
    spec = _cluster_spec(cluster)
    subject = f"EnvoyExtensionPolicy {spec.gateway.namespace}/{SESSION_POLICY}"
    policy = next(
        (
            candidate
            for candidate in snapshot.list_objects(EXTENSION_POLICIES)
            if (candidate["metadata"]["namespace"], name_of(candidate)) == (spec.gateway.namespace, SESSION_POLICY)
        ),
        None,
    )
    if policy is None:
        yield skipped(subject, "it is not published yet, or Argo CD has not applied it")
    elif message := _refusal_message(policy):
        yield error(
            subject,
            f"is not accepted: {message}",
            "write extensionApis.enableLua: true in Envoy Gateway's configuration, as the add-on envoy-gateway does"
            if "disabled" in message
            else f"kubectl -n {spec.gateway.namespace} describe envoyextensionpolicy {SESSION_POLICY}",
        )
    elif not _is_accepted(policy):
        yield warning(subject, "is not processed yet", "check that Envoy Gateway runs, and that it owns the Gateway")
    else:
        yield ok(subject, "keeps logins from containers")


def _is_accepted(policy: Object) -> bool:
    """Return whether a Gateway has accepted a policy."""
    ancestors = policy.get("status", {}).get("ancestors", ())
    return any(find_condition(ancestor.get("conditions"), "Accepted").get("status") == "True" for ancestor in ancestors)


def _refusal_message(policy: Object) -> str:
    """Return the reason why a policy isn't accepted; empty if it is accepted or was not processed yet."""
    for ancestor in policy.get("status", {}).get("ancestors", ()):
        accepted = find_condition(ancestor.get("conditions"), "Accepted")
        if accepted.get("status") == "False":
            return condition_text(accepted)
    return ""


def _find_gateway(snapshot: ClusterSnapshot, spec: ClusterSpec) -> Object | None:
    gateway_key = spec.gateway.namespace, spec.gateway.name
    return next(
        (
            candidate
            for candidate in snapshot.list_objects(GATEWAYS)
            if (candidate["metadata"]["namespace"], name_of(candidate)) == gateway_key
        ),
        None,
    )


def _cluster_spec(cluster: ScopeDeclarations) -> ClusterSpec:
    place = cluster.get_singleton(Cluster)
    assert place is not None, "who asks has made sure that it can be read"
    return place.model.spec


def _format_gateway_name(spec: ClusterSpec) -> str:
    return f"Gateway {spec.gateway.namespace}/{spec.gateway.name}"

"""The Gateway that instances are reached through: its class, its listener, its certificate, its proxies, and the logins there.

No Secret is read: what a Secret holds is told by cert-manager's Certificate, the listener's status, and the policies' own.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.diagnosis.looked import (
    CERTIFICATES,
    GATEWAY_CLASSES,
    GATEWAYS,
    LOGINS,
    OTHER_PODS,
    Looked,
    Object,
    Unseen,
    condition,
    name_of,
    said,
)
from allotment.manifests import names
from allotment.observed.status import moment_of

CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
OWNING_NAME = "gateway.envoyproxy.io/owning-gateway-name"
OWNING_NAMESPACE = "gateway.envoyproxy.io/owning-gateway-namespace"
SOON = datetime.timedelta(days=14)
LATE = datetime.timedelta(days=1)  # behind the time at which cert-manager meant to renew
_TENANTS = names.labels(tenant="")


def check_gateway(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether the Gateway is there and programmed, and its listener takes tenants' routes."""
    spec = _spec(cluster)
    what = _name(spec)
    found = _gateway(looked, spec)
    if found is None:
        known = [f"{one['metadata']['namespace']}/{name_of(one)}" for one in looked.all(GATEWAYS)]
        there = f"; there are {', '.join(sorted(known)[:8])}" if known else ""
        yield error(
            what,
            f"isn't there{there}",
            "make it, or write another as spec.gateway: docs/start/first-cluster.md has one",
        )
        return
    conditions = found.get("status", {}).get("conditions")
    unmet = [kind for kind in ("Accepted", "Programmed") if condition(conditions, kind).get("status") != "True"]
    for kind in unmet[:1]:
        yield error(
            what,
            f"isn't {kind}: {said(condition(conditions, kind))}",
            f"kubectl -n {spec.gateway.namespace} describe gateway {spec.gateway.name}",
        )
    if not unmet:
        yield ok(what, "is Programmed")
    yield from _listener(found, spec)


def _listener(gateway: Object, spec: ClusterSpec) -> Iterator[Diagnosis]:
    name, host = spec.gateway.section_name, f"*.{spec.domain}"
    what = f"{_name(spec)} listener {name}"
    listeners = gateway["spec"].get("listeners", ())
    found = next((one for one in listeners if one["name"] == name), None)
    if found is None:
        there = ", ".join(sorted(one["name"] for one in listeners)) or "none"
        yield error(
            what,
            f"isn't there; there is {there}",
            "add it to the Gateway, or write another as spec.gateway.sectionName",
        )
        return
    wrong = [*_shape(what, found, host), *_routes(what, found, spec)]
    yield from wrong or [ok(what, f"takes tenants' routes for {host}")]
    status = next((one for one in gateway.get("status", {}).get("listeners", ()) if one.get("name") == name), None)
    if status is None:
        yield skipped(what, "the Gateway's status says nothing of it, so not whether its certificate is found")
        return
    for kind in ("Accepted", "ResolvedRefs", "Programmed"):
        one = condition(status.get("conditions"), kind)
        if one.get("status") == "False":
            yield error(
                what,
                f"isn't {kind}: {said(one)}",
                "look at the Secret that its tls.certificateRefs name, and its ports",
            )
            return


def _shape(what: str, listener: Object, host: str) -> Iterator[Diagnosis]:
    protocol, hostname = listener.get("protocol"), listener.get("hostname")
    if protocol != "HTTPS":
        yield error(what, f"is {protocol}, and logins need HTTPS", "write protocol: HTTPS, with tls.certificateRefs")
    elif listener.get("tls", {}).get("mode", "Terminate") != "Terminate":
        yield error(what, "passes TLS through, so nobody can be logged in there", "write tls.mode: Terminate")
    if hostname and hostname != host and not (hostname.startswith("*.") and host.endswith(hostname[1:])):
        yield error(
            what, f"is of {hostname}, and instances are at {host}", f'write hostname: "{host}", or another spec.domain'
        )


def _routes(what: str, listener: Object, spec: ClusterSpec) -> Iterator[Diagnosis]:
    allowed = listener.get("allowedRoutes", {})
    kinds = allowed.get("kinds", ())
    if kinds and not any(one.get("kind") == "HTTPRoute" for one in kinds):
        yield error(what, "takes no HTTPRoute", "remove allowedRoutes.kinds, or add HTTPRoute")
    spaces = allowed.get("namespaces", {})
    source = spaces.get("from", "Same")
    label = f"those with the label {names.TENANT}"
    if source == "Selector":
        takes = selects(spaces.get("selector", {}), _TENANTS)
        if takes is None:
            yield skipped(
                what,
                "its selector of namespaces asks for labels that aren't ours: whether tenants have them isn't known",
            )
        elif not takes:
            yield error(what, "its selector takes no tenant's namespace", f"let it take {label}")
    elif source != "All":
        where = f"namespace {spec.gateway.namespace}" if source == "Same" else "no namespace"
        yield error(
            what,
            f"takes routes of {where} alone, and tenants' lie in {names.namespace('*')}",
            f"write allowedRoutes.namespaces.from: All, or Selector of {label}",
        )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool | None:
    """Return whether a selector takes namespaces that have `labels`, whose empty values may be any; None where that depends on
    other labels, or on such a value."""
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in selector.get("matchLabels", {}).items()
    ]
    known: bool | None = True
    for one in [*expressions, *selector.get("matchExpressions", ())]:
        there, value = one["key"] in labels, labels.get(one["key"], "")
        if there and one["operator"] in ("Exists", "DoesNotExist"):
            met: bool | None = one["operator"] == "Exists"
        elif there and value:
            met = (value in one.get("values", ())) is (one["operator"] == "In")
        else:
            met = None
        if met is False:
            return False
        known = known and met
    return known


def check_class(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether the Gateway's class is accepted, by Envoy Gateway."""
    found = _gateway(looked, _spec(cluster))
    if found is None:
        return
    name = str(found["spec"].get("gatewayClassName"))
    what = f"GatewayClass {name}"
    one = next((one for one in looked.all(GATEWAY_CLASSES) if name_of(one) == name), None)
    if one is None:
        yield error(what, "isn't there, and the Gateway names it", "install Envoy Gateway, and make its class")
        return
    accepted, controller = (
        condition(one.get("status", {}).get("conditions"), "Accepted"),
        one["spec"].get("controllerName"),
    )
    if controller != CONTROLLER:
        yield warning(
            what,
            f"is of the controller {controller}, and logins are SecurityPolicies of Envoy Gateway, by default {CONTROLLER}",
            "check that it is an Envoy Gateway under another name",
        )
    if accepted.get("status") == "False":
        yield error(what, f"isn't accepted: {said(accepted)}", f"kubectl describe gatewayclass {name}")
    elif accepted.get("status") != "True":
        yield warning(what, f"isn't accepted yet: {said(accepted)}", "check that Envoy Gateway runs")
    elif controller == CONTROLLER:
        yield ok(what, "is accepted")


def check_certificate(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether the listener's certificate is of the domain, and how long it is good, as cert-manager says it."""
    spec = _spec(cluster)
    found = _gateway(looked, spec) or {"spec": {}}
    listener: Object = next(
        (one for one in found["spec"].get("listeners", ()) if one["name"] == spec.gateway.section_name), {}
    )
    for reference in listener.get("tls", {}).get("certificateRefs", ()):
        space, secret = reference.get("namespace", spec.gateway.namespace), reference["name"]
        what = f"Certificate in Secret {space}/{secret}"
        try:
            several = looked.all(CERTIFICATES)
        except Unseen as unseen:
            if unseen.right or unseen.failed:
                raise
            several = []
        one = next(
            (
                one
                for one in several
                if one["metadata"]["namespace"] == space and one["spec"].get("secretName") == secret
            ),
            None,
        )
        if one is None:
            yield skipped(
                what, "no Certificate of cert-manager writes it, and no Secret is read: when it expires isn't known"
            )
        else:
            yield from _dates(what, one, spec, looked.now)


def _dates(what: str, one: Object, spec: ClusterSpec, now: datetime.datetime) -> Iterator[Diagnosis]:
    advice = f"kubectl -n {one['metadata']['namespace']} describe certificate {name_of(one)}"
    status, host = one.get("status", {}), f"*.{spec.domain}"
    if host not in one["spec"].get("dnsNames", ()):
        yield error(
            what,
            f"is of {', '.join(one['spec'].get('dnsNames', ())) or 'no name'}, and instances are at {host}",
            f'add "{host}" to its dnsNames',
        )
    ready, end, renewal = (
        condition(status.get("conditions"), "Ready"),
        moment_of(status.get("notAfter", "")),
        moment_of(status.get("renewalTime", "")),
    )
    if end is None:
        yield error(what, f"isn't issued: {said(ready)}", advice)
    elif end <= now:
        yield error(what, f"expired on {end:%Y-%m-%d}", advice)
    elif now - LATE > renewal if renewal is not None else end - now < SOON:
        yield warning(what, f"expires on {end:%Y-%m-%d} and isn't renewed: {said(ready)}", advice)
    elif host in one["spec"].get("dnsNames", ()):
        yield ok(what, f"is good until {end:%Y-%m-%d}")


def check_proxies(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether the Gateway's proxies run where tenants' network policies let them in from."""
    spec = _spec(cluster)
    gateway, what = spec.gateway, f"{_name(spec)} proxies"
    wanted = {OWNING_NAME: gateway.name, OWNING_NAMESPACE: gateway.namespace}
    pods = [one for one in looked.all(OTHER_PODS) if wanted.items() <= one["metadata"].get("labels", {}).items()]
    elsewhere = sorted({one["metadata"]["namespace"] for one in pods} - {gateway.namespace})
    if not pods:
        yield skipped(what, f"no pod has the label {OWNING_NAME}={gateway.name}")
    elif elsewhere:
        yield error(
            what,
            f"run in {', '.join(elsewhere)}, and tenants' network policies let in what comes from {gateway.namespace}",
            "write deploy.type: GatewayNamespace in Envoy Gateway's Kubernetes provider",
        )
    else:
        yield ok(what, f"run in {gateway.namespace}")


def check_logins(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether Envoy Gateway has taken the logins, which it does only where it finds the client's Secret."""
    spec = _spec(cluster)
    what = "SecurityPolicies"
    several = looked.all(LOGINS)
    refused = [(one, refusal) for one in several if (refusal := _refusal(one))]
    for one, words in refused[:1]:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        yield error(
            what,
            f"{len(refused)} of {len(several)} aren't accepted: {one['metadata']['namespace']}/{name_of(one)}: {words}{more}",
            "until then nobody gets in there: change what it names, or restart Envoy Gateway",
        )
    logins = [one for one in several if "oidc" in one["spec"]]
    secret = spec.oidc.client_secret_ref
    if not logins:
        yield skipped(
            what,
            f"none has a login yet, and no Secret is read: whether {secret.namespace}/{secret.name} is there isn't known",
        )
    elif not refused:
        yield ok(what, f"all {len(several)} are accepted, {len(logins)} of them with a login")


def _refusal(one: Object) -> str:
    """Return why a policy isn't accepted; empty where it is, or nobody has looked at it yet."""
    for ancestor in one.get("status", {}).get("ancestors", ()):
        accepted = condition(ancestor.get("conditions"), "Accepted")
        if accepted.get("status") == "False":
            return said(accepted)
    return ""


def _gateway(looked: Looked, spec: ClusterSpec) -> Object | None:
    wanted = spec.gateway.namespace, spec.gateway.name
    return next((one for one in looked.all(GATEWAYS) if (one["metadata"]["namespace"], name_of(one)) == wanted), None)


def _spec(cluster: Folder) -> ClusterSpec:
    place = cluster.one(Cluster)
    assert place is not None, "who asks has made sure that it can be read"
    return place.model.spec


def _name(spec: ClusterSpec) -> str:
    return f"Gateway {spec.gateway.namespace}/{spec.gateway.name}"

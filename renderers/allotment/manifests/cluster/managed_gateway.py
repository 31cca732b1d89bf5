"""Render the Gateway of a cluster that declares `gateway.managed`: its class, proxies, listeners, certificate and access log."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.gateway import HTTP_LISTENER, AccessLog, Gateway
from allotment.manifests import names
from allotment.manifests.cluster.gateway import ENVOY_API, GATEWAY_API, listener_target
from allotment.manifests.cluster.portal import find_portal
from allotment.manifests.tenant.namespace import POD_SECURITY_VERSION

CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
CLASS = "allotment"
REDIRECT = "allotment-https-redirect"
CLIENT_POLICY = "allotment-clients"
DEFAULT_REPLICAS = 2
HSTS = "max-age=31536000"  # one year; each host sends this header, so `includeSubDomains` is absent
RETENTION_ANNOTATION = "allotment.dev/access-log-retention-days"
_ROUTE = "xds.route_metadata.filter_metadata['envoy-gateway']['resources'][0]"
# The log contains the host and the path of a request, but no other header and no query. Headers and queries may contain
# secrets: the code of a login, the token of an application, or a cookie.
_LOG_FIELDS = {
    "time": "%START_TIME%",
    "namespace": f"%CEL({_ROUTE}['namespace'])%",  # t-<tenant>
    "route": f"%CEL({_ROUTE}['name'])%",  # the HTTPRoute of an instance, a port or an accessor
    "subject": "%DYNAMIC_METADATA(envoy.filters.http.jwt_authn:login:sub)%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "host": "%REQ(:AUTHORITY)%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ)%",
    "status": "%RESPONSE_CODE%",
    "reason": "%RESPONSE_CODE_DETAILS%",
    "duration_ms": "%DURATION%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
}


def render(catalog: Catalog, cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the objects of a managed Gateway, the namespace first; empty if the cluster's Gateway is not managed."""
    place = cluster.get_singleton(Cluster)
    assert place is not None
    gateway, host = place.model.spec.gateway, f"*.{place.model.spec.domain}"
    if not gateway.managed:
        return []
    secret = f"{gateway.name}-tls"
    objects = [
        _build("v1", "Namespace", gateway.namespace, ""),
        _build(GATEWAY_API, "GatewayClass", CLASS, "", {"controllerName": CONTROLLER}),
        _build(ENVOY_API, "EnvoyProxy", gateway.name, gateway.namespace, _build_proxy_spec(gateway)),
    ]
    assert gateway.certificate is not None, "validation requires it"
    if gateway.certificate.issuer is not None:
        issuer = gateway.certificate.issuer
        certificate = {
            "dnsNames": [host],
            "issuerRef": {"group": "cert-manager.io", "kind": issuer.kind, "name": issuer.name},
            "privateKey": {"algorithm": "ECDSA", "rotationPolicy": "Always"},
            "secretName": secret,
        }
        objects.append(_build("cert-manager.io/v1", "Certificate", gateway.name, gateway.namespace, certificate))
    serves_portal = find_portal(catalog, cluster.name) is not None
    listeners = _build_listeners(place.model.spec, gateway.certificate.secret_name or secret, serves_portal)
    objects += [
        _build(GATEWAY_API, "Gateway", gateway.name, gateway.namespace, _build_gateway_spec(gateway, listeners)),
        _build(GATEWAY_API, "HTTPRoute", REDIRECT, gateway.namespace, _build_redirect_spec(gateway)),
        _build(ENVOY_API, "ClientTrafficPolicy", CLIENT_POLICY, gateway.namespace, _build_client_policy_spec(gateway)),
    ]
    return objects


def _build(
    api_version: str, kind: str, name: str, namespace: str, spec: dict[str, Any] | None = None
) -> dict[str, Any]:
    labels = names.labels()
    if kind == "Namespace":
        labels |= {
            "pod-security.kubernetes.io/enforce": "baseline",
            "pod-security.kubernetes.io/enforce-version": POD_SECURITY_VERSION,
        }
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "labels": labels,
            "annotations": {names.SYNC_OPTIONS: names.KEEP_OPTIONS, names.COMPARE_OPTIONS: "IgnoreExtraneous"},
        },
        **({"spec": spec} if spec is not None else {}),
    }


def _build_proxy_spec(gateway: Gateway) -> dict[str, Any]:
    """Return the settings of the proxies. Envoy Gateway merges them with `envoyProxy` of its own configuration."""
    days = (gateway.access_log or AccessLog()).retention_days
    entry = {
        "type": "Route",
        "format": {"type": "JSON", "json": {**_LOG_FIELDS, "retention_days": str(days)}},
        "sinks": [{"type": "File", "file": {"path": "/dev/stdout"}}],
    }
    deployment = {
        "replicas": gateway.replicas or DEFAULT_REPLICAS,
        # This is not a label, because Envoy Gateway copies the labels of the pods into the selector of the Service. If
        # the value of a label changed, the Service would no longer reach the running pods.
        "pod": {"annotations": {RETENTION_ANNOTATION: str(days)}},
    }
    return {
        "mergeType": "StrategicMerge",
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {
                "envoyDeployment": deployment,
                # With Local, the load balancer does not replace the address of the client.
                "envoyService": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
                "envoyPDB": {"maxUnavailable": 1},
            },
        },
        # This is the default of `logging`. If it were absent, the API server would add it, and Argo CD would report a
        # difference.
        "logging": {"level": {"default": "warn"}},
        "telemetry": {"accessLog": {"settings": [entry]}},
    }


def _build_listeners(cluster: ClusterSpec, secret: str, serves_portal: bool) -> list[dict[str, Any]]:
    gateway, host = cluster.gateway, f"*.{cluster.domain}"
    tenants: dict[str, Any] = {"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]}
    if cluster.oidc.callback_host is not None or serves_portal:
        # The routes of the callback host and of the portal are in the namespace of the Gateway, which has no tenant label.
        tenants = {"matchLabels": names.labels()}
    return [
        {
            "name": HTTP_LISTENER,
            "hostname": host,
            "port": 80,
            "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "Same"}},
        },
        {
            "name": gateway.section_name,
            "hostname": host,
            "port": 443,
            "protocol": "HTTPS",
            "tls": {"mode": "Terminate", "certificateRefs": [{"group": "", "kind": "Secret", "name": secret}]},
            "allowedRoutes": {"namespaces": {"from": "Selector", "selector": tenants}},
        },
    ]


def _build_gateway_spec(gateway: Gateway, listeners: list[dict[str, Any]]) -> dict[str, Any]:
    proxy = {"group": ENVOY_API.partition("/")[0], "kind": "EnvoyProxy", "name": gateway.name}
    return {"gatewayClassName": CLASS, "infrastructure": {"parametersRef": proxy}, "listeners": listeners}


def _build_redirect_spec(gateway: Gateway) -> dict[str, Any]:
    """Return the route that answers each HTTP request with a redirect to the same URL with HTTPS."""
    parent = {**listener_target(gateway), "sectionName": HTTP_LISTENER}
    redirect = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 301}}
    matches = [{"path": {"type": "PathPrefix", "value": "/"}}]
    return {"parentRefs": [parent], "rules": [{"matches": matches, "filters": [redirect]}]}


def _build_client_policy_spec(gateway: Gateway) -> dict[str, Any]:
    headers = {"lateResponseHeaders": {"set": [{"name": "Strict-Transport-Security", "value": HSTS}]}}
    return {
        "targetRefs": [{key: value for key, value in listener_target(gateway).items() if key != "sectionName"}],
        **({"proxyProtocol": {"optional": False}} if gateway.proxy_protocol else {}),
        "headers": headers,
    }

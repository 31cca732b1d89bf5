"""Render the routes of the portal at a cluster's Gateway. The Service of the portal comes with the add-on allot-portal.

The Gateway requires a login, and passes the subject and the groups of the ID token to the portal in two headers. The portal
shows the pages of a tenant to its members only. It decides by the declared members, so that a change of members needs no change
of the routes. Envoy removes both headers from the requests of browsers before it sets them. If the platform declares a Secret,
Envoy also sends its credential, which proves that the headers come from Envoy.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.platform import Platform, Portal
from allotment.declared.values import format_duration
from allotment.manifests import login, names
from allotment.manifests.cluster.gateway import ENVOY_API, GATEWAY_API, listener_target

PUBLIC_ROUTE = f"{names.PORTAL}-public"
SUBJECT_HEADER, GROUPS_HEADER = "x-portal-subject", "x-portal-groups"
CREDENTIAL_HEADER = "x-portal-credential"
CLAIM_HEADERS = {SUBJECT_HEADER: "sub", GROUPS_HEADER: "groups"}
_HEADERS = (*CLAIM_HEADERS, CREDENTIAL_HEADER)
_ENVOY_GROUP = ENVOY_API.partition("/")[0]
# The Gateway sends the paths of the login, and the pages that need it, through the route that requires the login.
PROTECTED_PATHS = ("/tenants", "/platform", "/provider", "/oauth2", "/logout")


def render(catalog: Catalog, cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the routes of the portal and their policies; empty if this cluster doesn't serve the portal."""
    place, portal = cluster.get_singleton(Cluster), find_portal(catalog, cluster.name)
    if place is None or portal is None:
        return []
    spec, is_public = place.model.spec, portal.public_pages == "Public"
    filters: list[Any] = list(login.build_route_filters(spec))
    objects = []
    if portal.proxy_secret_name is not None:
        reference = {"group": _ENVOY_GROUP, "kind": "HTTPRouteFilter", "name": names.PORTAL}
        filters.append({"type": "ExtensionRef", "extensionRef": reference})
        injection = build_injection(portal.proxy_secret_name)
        objects.append(_build(ENVOY_API, "HTTPRouteFilter", names.PORTAL, spec, {"credentialInjection": injection}))
    objects += [
        _build_route(spec, names.PORTAL, PROTECTED_PATHS if is_public else ("/",), filters),
        _build_policy(spec, names.PORTAL, _build_login(spec)),
    ]
    if is_public:
        remove = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": sorted(_HEADERS)}}
        objects += [_build_route(spec, PUBLIC_ROUTE, ("/",), [remove]), _build_policy(spec, PUBLIC_ROUTE, {})]
    return objects


def find_portal(catalog: Catalog, cluster: str) -> Portal | None:
    """Return the portal that a cluster serves; None if it serves none."""
    platform = catalog.platform.get_singleton(Platform)
    portal = platform.model.spec.portal if platform is not None else None
    return portal if portal is not None and portal.cluster == cluster else None


def _build_route(spec: ClusterSpec, name: str, prefixes: tuple[str, ...], filters: list[Any]) -> dict[str, Any]:
    backend = {
        "group": "",
        "kind": "Service",
        "name": names.PORTAL,
        "namespace": names.SYSTEM_NAMESPACE,
        "port": 80,
        "weight": 1,
    }
    rule: dict[str, Any] = {
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}} for prefix in prefixes],
        "backendRefs": [backend],
        "timeouts": {"request": format_duration(spec.gateway.timeouts.request or 0)},
    }
    if filters:
        rule["filters"] = filters
    target = listener_target(spec.gateway)
    parent = {**target, "namespace": spec.gateway.namespace}
    route = {"parentRefs": [parent], "hostnames": [spec.portal_host], "rules": [rule]}
    return _build(GATEWAY_API, "HTTPRoute", name, spec, route)


def _build_policy(spec: ClusterSpec, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the policy of a route. It admits all people with a login; without a login, all requests."""
    target = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}
    return _build(
        ENVOY_API,
        "SecurityPolicy",
        name,
        spec,
        {"targetRefs": [target], **fields, "authorization": {"defaultAction": "Allow"}},
    )


def build_injection(secret_name: str) -> dict[str, Any]:
    """Return the injection of a Secret's credential. It replaces a header of the browser."""
    reference = {"group": "", "kind": "Secret", "name": secret_name}
    return {"overwrite": True, "header": CREDENTIAL_HEADER, "credential": {"valueRef": reference}}


def _build_login(spec: ClusterSpec) -> dict[str, Any]:
    (provider,) = login.build_jwt(spec)["providers"]
    headers = [{"header": header, "claim": claim} for header, claim in CLAIM_HEADERS.items()]
    jwt = {"providers": [{**provider, "claimToHeaders": headers}]}
    if (
        spec.oidc.callback_host is not None
    ):  # the policy of the listener has the login, so that all hosts share its cookies
        return {"mergeType": "StrategicMerge", "jwt": jwt}
    return {"oidc": login.build_oidc(spec, spec.portal_host), "jwt": jwt}


def _build(api_version: str, kind: str, name: str, cluster: ClusterSpec, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": cluster.gateway.namespace,
            "labels": names.labels(),
            "annotations": {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION},
        },
        "spec": spec,
    }

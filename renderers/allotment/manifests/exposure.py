"""How a port is reached: Service inside, HTTPRoute and SecurityPolicy at the Gateway for who may log in."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Folder
from allotment.declared.kinds.cluster import ClusterSpec
from allotment.declared.kinds.members import Members
from allotment.manifests.text import Fixed

ID_TOKEN_COOKIE = "allotment-id-token"  # noqa: S105  # a cookie's name
LOGIN = "login"
INSTANCE_ROLES = ("Admin", "Member")
FILES_ROLES = ("Admin", "Member", "Viewer")
MATCH_ALL = Fixed(path={"type": "PathPrefix", "value": "/"})
NO_TIMEOUT = Fixed(request="0s")


def service(metadata: dict[str, Any], selector: dict[str, str], ports: list[tuple[str, int]]) -> dict[str, Any]:
    """Return a ClusterIP Service for ports (name, number)."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": name, "port": number, "targetPort": name, "protocol": "TCP"} for name, number in ports],
        },
    }


def http_route(
    metadata: dict[str, Any], cluster: ClusterSpec, host: str, service_name: str, port: int
) -> dict[str, Any]:
    """Return a route from the Gateway's listener to a Service, every default written out that Argo CD would miss."""
    gateway = cluster.gateway
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": metadata,
        "spec": {
            "parentRefs": [
                {
                    "group": "gateway.networking.k8s.io",
                    "kind": "Gateway",
                    "name": gateway.name,
                    "namespace": gateway.namespace,
                    "sectionName": gateway.section_name,
                }
            ],
            "hostnames": [host],
            "rules": [
                {
                    "matches": [MATCH_ALL],
                    "backendRefs": [{"group": "", "kind": "Service", "name": service_name, "port": port, "weight": 1}],
                    "timeouts": NO_TIMEOUT,
                }
            ],
        },
    }


def security_policy(
    metadata: dict[str, Any], cluster: ClusterSpec, host: str, exposure: str, tenant: Folder, roles: tuple[str, ...]
) -> dict[str, Any]:
    """Return the policy of a route: Public allows, Members asks for a login and a claim of one of `roles`, else denies."""
    target = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": metadata["name"]}
    spec: dict[str, Any] = {"targetRefs": [target]}
    if exposure == "Public":
        spec["authorization"] = {"defaultAction": "Allow"}
    else:
        spec.update(_login(cluster, host))
        spec["authorization"] = {"defaultAction": "Deny", "rules": _claim_rules(tenant, roles)}
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "SecurityPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def _login(cluster: ClusterSpec, host: str) -> dict[str, Any]:
    oidc = cluster.oidc
    secret = oidc.client_secret_ref
    return {
        "oidc": {
            "provider": {"issuer": oidc.issuer},
            "clientID": oidc.client_id,
            "clientSecret": {"group": "", "kind": "Secret", "name": secret.name, "namespace": secret.namespace},
            "redirectURL": f"https://{host}/oauth2/callback",
            "logoutPath": "/logout",
            "cookieNames": {"idToken": ID_TOKEN_COOKIE},
            "refreshToken": True,
        },
        "jwt": {
            "providers": [
                {
                    "name": LOGIN,
                    "issuer": oidc.issuer,
                    "audiences": [oidc.client_id],
                    "remoteJWKS": {
                        "uri": oidc.jwks_uri or f"{oidc.issuer.rstrip('/')}/.well-known/jwks.json",
                        "cacheDuration": "300s",
                    },
                    "extractFrom": {"cookies": [ID_TOKEN_COOKIE]},
                }
            ]
        },
    }


def _claim_rules(tenant: Folder, roles: tuple[str, ...]) -> list[dict[str, Any]]:
    members = tenant.one(Members)
    if members is None:
        return []
    groups = sorted(group.name for group in members.model.spec.groups if group.role in roles)
    subjects = sorted(user.subject for user in members.model.spec.users if user.role in roles and user.subject)
    rules = []
    for name, claim, kind, values in (
        ("groups", "groups", "StringArray", groups),
        ("users", "sub", "String", subjects),
    ):
        if values:
            claims = [{"name": claim, "valueType": kind, "values": values}]
            rules.append({"name": name, "action": "Allow", "principal": {"jwt": {"provider": LOGIN, "claims": claims}}})
    return rules

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
COOKIES = Fixed(idToken=ID_TOKEN_COOKIE)
MOST_VALUES = 128  # of a claim in one rule, as the CRD has it; rules are alternatives
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


def _parent(cluster: ClusterSpec) -> Fixed:
    gateway = cluster.gateway
    return Fixed(
        group="gateway.networking.k8s.io",
        kind="Gateway",
        name=gateway.name,
        namespace=gateway.namespace,
        sectionName=gateway.section_name,
    )


def http_route(
    metadata: dict[str, Any], cluster: ClusterSpec, host: str, service_name: str, port: int
) -> dict[str, Any]:
    """Return a route from the Gateway's listener to a Service, every default written out that Argo CD would miss."""
    backend = {"group": "", "kind": "Service", "name": service_name, "port": port, "weight": 1}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": metadata,
        "spec": {
            "parentRefs": [_parent(cluster)],
            "hostnames": [host],
            "rules": [{"matches": [MATCH_ALL], "backendRefs": [backend], "timeouts": NO_TIMEOUT}],
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
        spec["oidc"] = _login(cluster, host)
        spec["jwt"] = _token(cluster)
        spec["authorization"] = {"defaultAction": "Deny", "rules": claim_rules(tenant, roles)}
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "SecurityPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def _issuer(cluster: ClusterSpec) -> Fixed:
    return Fixed(issuer=cluster.oidc.issuer)


def _client_secret(cluster: ClusterSpec) -> Fixed:
    secret = cluster.oidc.client_secret_ref
    return Fixed(group="", kind="Secret", name=secret.name, namespace=secret.namespace)


def _login(cluster: ClusterSpec, host: str) -> dict[str, Any]:
    return {
        "provider": _issuer(cluster),
        "clientID": cluster.oidc.client_id,
        "clientSecret": _client_secret(cluster),
        "redirectURL": f"https://{host}/oauth2/callback",
        "logoutPath": "/logout",
        "cookieNames": COOKIES,
        "refreshToken": True,
    }


def _token(cluster: ClusterSpec) -> Fixed:
    oidc = cluster.oidc
    keys = oidc.jwks_uri or f"{oidc.issuer.rstrip('/')}/.well-known/jwks.json"
    provider = {
        "name": LOGIN,
        "issuer": oidc.issuer,
        "audiences": [oidc.client_id],
        "remoteJWKS": {"uri": keys, "cacheDuration": "300s"},
        "extractFrom": {"cookies": [ID_TOKEN_COOKIE]},
    }
    return Fixed(providers=[provider])


def claim_rules(tenant: Folder, roles: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rules that let in who has one of some roles among a tenant's Members, by groups and by subjects."""
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
        for at in range(0, len(values), MOST_VALUES):
            claims = [{"name": claim, "valueType": kind, "values": values[at : at + MOST_VALUES]}]
            rule_name = f"{name}-{at // MOST_VALUES + 1}" if at else name
            rules.append(
                {"name": rule_name, "action": "Allow", "principal": {"jwt": {"provider": LOGIN, "claims": claims}}}
            )
    return rules

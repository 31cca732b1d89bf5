"""Builds the objects that expose a port of an instance or an accessor at a URL.

These are a Service, an HTTPRoute, and a SecurityPolicy, which controls access to the URL. The exposure of a port is
`Public` (access for everybody), `Members` (access for members of the tenant after a login), or `Namespace` (access for
pods in the tenant's namespace). A port with the exposure `Namespace` has a Service and no URL.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import ClusterSpec
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.values import format_duration
from allotment.manifests import login
from allotment.manifests.yaml_text import Frozen

AFFINITY_COOKIE = "allotment-replica"
INSTANCE_ROLES = ("Admin", "Member")
FILES_WRITERS = ("Admin", "Member")
FILES_READERS = ("Viewer",)
# The CRD accepts no method of WebDAV, such as PROPFIND. A browser lists and downloads files with these methods.
READ_METHODS = ("GET", "HEAD", "OPTIONS")
MATCH_ALL_PATHS = Frozen(path={"type": "PathPrefix", "value": "/"})
# The CRD limits the number of values of a claim in a rule. More values are divided among several rules, which is
# possible because a request needs to match only one rule.
MAX_CLAIM_VALUES = 128


def build_service(metadata: dict[str, Any], selector: dict[str, str], ports: list[tuple[str, int]]) -> dict[str, Any]:
    """Return a ClusterIP Service with `ports`, each a name and a number."""
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


@lru_cache
def _build_parent_ref(name: str, namespace: str, section_name: str) -> Frozen:
    return Frozen(
        group="gateway.networking.k8s.io",
        kind="Gateway",
        name=name,
        namespace=namespace,
        sectionName=section_name,
    )


def build_http_route(
    metadata: dict[str, Any], cluster: ClusterSpec, host: str, service_name: str, port: int, exposure: str
) -> dict[str, Any]:
    """Return the HTTPRoute that sends the requests for `host` from the cluster's Gateway to a port of a Service.

    With the exposure `Members`, the route removes the tokens of programs from requests.

    The route contains the default of every field. If a default were absent, the API server would add it, and Argo CD
    would report a difference between the rendered and the live route.
    """
    backend = {"group": "", "kind": "Service", "name": service_name, "port": port, "weight": 1}
    gateway = cluster.gateway
    timeouts = {"request": format_duration(gateway.timeouts.request or 0)}  # 0s means that there is no limit
    rule: dict[str, Any] = {"matches": [MATCH_ALL_PATHS], "backendRefs": [backend], "timeouts": timeouts}
    if exposure != "Public" and (filters := login.build_route_filters(cluster)):
        rule["filters"] = filters
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": metadata,
        "spec": {
            "parentRefs": [_build_parent_ref(gateway.name, gateway.namespace, gateway.section_name)],
            "hostnames": [host],
            "rules": [rule],
        },
    }


def build_security_policy(
    metadata: dict[str, Any],
    cluster: ClusterSpec,
    host: str,
    exposure: str,
    tenant: ScopeDeclarations,
    roles: tuple[str, ...],
    *,
    reader_roles: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the SecurityPolicy of the HTTPRoute with the same name.

    With the exposure `Public`, the policy requires no login. With `Members`, the policy requires a login and admits only
    the tenant's members that have one of `roles`, and requests that only read from members that have one of
    `reader_roles`.
    """
    target = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": metadata["name"]}
    spec: dict[str, Any] = {"targetRefs": [target]}
    if exposure != "Public":
        if cluster.oidc.callback_host is None:
            spec["oidc"] = login.build_oidc(cluster, host)
        else:  # the policy of the listener has the login, so that all hosts share its cookies
            spec["mergeType"] = "StrategicMerge"
        spec["jwt"] = login.build_jwt(cluster)
    spec["authorization"] = build_authorization(tenant, exposure, roles, reader_roles)
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "SecurityPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def build_affinity_policy(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the policy that sends all requests of a browser to one replica. Its HTTPRoute has the name of the policy.

    Envoy chooses the replica by a cookie, which it sets in the first response. If the number of replicas changes, Envoy
    sends some browsers to other replicas.
    """
    cookie = {"name": AFFINITY_COOKIE, "ttl": "24h", "attributes": {"Secure": "", "HttpOnly": "", "SameSite": "Lax"}}
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "BackendTrafficPolicy",
        "metadata": metadata,
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": metadata["name"]}],
            "mergeType": "StrategicMerge",  # without this field, the policy would replace the limits of the Gateway
            "loadBalancer": {
                "type": "ConsistentHash",
                "consistentHash": {"type": "Cookie", "cookie": cookie, "tableSize": 65537},
            },
        },
    }


def build_authorization(
    tenant: ScopeDeclarations, exposure: str, roles: tuple[str, ...], reader_roles: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the authorization of a URL of the tenant: a default action, and the rules that admit people.

    If the tenant declares address ranges, each rule also requires a client address in one of them.
    """
    declared = tenant.get_singleton(Tenant)
    ranges = sorted(set(declared.model.spec.allowed_cidrs)) if declared is not None else []
    addresses = {"clientCIDRs": ranges} if ranges else {}
    if exposure != "Public":
        rules = build_member_rules(tenant, roles, reader_roles)
        return {
            "defaultAction": "Deny",
            "rules": [{**rule, "principal": {**addresses, **rule["principal"]}} for rule in rules],
        }
    if not addresses:
        return {"defaultAction": "Allow"}
    return {"defaultAction": "Deny", "rules": [{"name": "addresses", "action": "Allow", "principal": addresses}]}


def build_member_rules(
    tenant: ScopeDeclarations, roles: tuple[str, ...], reader_roles: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the rules that admit all requests of members that have one of `roles`, and the read requests of readers.

    Every rule allows, so their order has no effect: a member with a role of each kind has all access.
    """
    readers = [
        {
            "name": f"read-{rule['name']}",
            "action": rule["action"],
            "operation": {"methods": list(READ_METHODS)},
            "principal": rule["principal"],
        }
        for rule in build_claim_rules(tenant, reader_roles)
    ]
    return [*build_claim_rules(tenant, roles), *readers]


def build_claim_rules(tenant: ScopeDeclarations, roles: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rules that admit the tenant's members that have one of `roles`.

    A rule compares the claim `groups` or `sub` of the ID token with the groups or subjects in the tenant's Members.
    """
    members = tenant.get_singleton(Members)
    if members is None:
        return []
    groups = sorted(group.name for group in members.model.spec.groups if group.role in roles)
    subjects = sorted(user.subject for user in members.model.spec.users if user.role in roles and user.subject)
    rules = []
    for name, claim, kind, values in (
        ("groups", "groups", "StringArray", groups),
        ("users", "sub", "String", subjects),
    ):
        for at in range(0, len(values), MAX_CLAIM_VALUES):
            claims = [{"name": claim, "valueType": kind, "values": values[at : at + MAX_CLAIM_VALUES]}]
            rule_name = f"{name}-{at // MAX_CLAIM_VALUES + 1}" if at else name
            rules.append(
                {
                    "name": rule_name,
                    "action": "Allow",
                    "principal": {"jwt": {"provider": login.PROVIDER_NAME, "claims": claims}},
                }
            )
    return rules

"""Builds the login of a URL: the fields `oidc` and `jwt` of a SecurityPolicy, and the places that hold the tokens."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from allotment.declared.kinds.cluster import ClusterSpec
from allotment.manifests.yaml_text import Frozen

PROVIDER_NAME = "login"
# A browser accepts a cookie with the prefix `__Host-` only if the cookie names no domain, and sends the cookie only to
# the host that set it.
ID_TOKEN_COOKIE = "__Host-allotment-id-token"  # noqa: S105
ACCESS_TOKEN_COOKIE = "__Host-allotment-access-token"  # noqa: S105
LOGIN_COOKIES = Frozen(idToken=ID_TOKEN_COOKIE, accessToken=ACCESS_TOKEN_COOKIE)
# If a cluster declares a callback host, all hosts of its domain share these cookies.
SHARED_COOKIES = Frozen(idToken="allotment-id-token", accessToken="allotment-access-token")
# Programs send their token in this header. A request with the header skips the login of browsers.
TOKEN_HEADERS = [Frozen(name="Authorization", valuePrefix="Bearer ")]
# Envoy forwards a verified token, and a tenant's container could use it at the hosts of other tenants. The route removes
# the header after the Gateway has verified the token.
REMOVE_TOKEN = [Frozen(type="RequestHeaderModifier", requestHeaderModifier={"remove": ["Authorization"]})]
# A redirect to the identity provider helps only if a person opens a page. These headers mark requests that get no
# redirect: requests of API clients, upgrades to WebSocket, and requests of the scripts, workers and images of a page.
# Of the modes of a request, only `navigate` and `nested-navigate` end with an "e", and only they are for a page.
DENY_REDIRECT = Frozen(
    headers=[
        {"name": "Sec-Fetch-Mode", "type": "RegularExpression", "value": ".+[^e]"},
        {"name": "Accept", "type": "Prefix", "value": "application/json"},
        {"name": "Upgrade", "type": "Exact", "value": "websocket"},
    ]
)


def build_oidc(cluster: ClusterSpec, host: str) -> dict[str, Any]:
    """Return the field `oidc` of a SecurityPolicy, which requires a login. The provider returns people to `host`.

    If the cluster declares a callback host, the cookies of the login are for all hosts of the domain.
    """
    secret = cluster.oidc.client_secret_ref
    domain = {} if cluster.oidc.callback_host is None else {"cookieDomain": cluster.domain}
    programs = {} if cluster.oidc.cli_client_id is None else {"passThroughAuthHeader": True}
    return {
        "scopes": list(dict.fromkeys(["openid", *cluster.oidc.scopes])),
        "provider": _build_provider(cluster),
        "clientID": cluster.oidc.client_id,
        "clientSecret": _build_client_secret_ref(secret.name, secret.namespace),
        "redirectURL": f"https://{host}/oauth2/callback",
        "logoutPath": "/logout",
        "cookieNames": _cookies(cluster),
        "denyRedirect": DENY_REDIRECT,
        "refreshToken": True,
        **domain,
        **programs,
    }


def build_jwt(cluster: ClusterSpec) -> Frozen:
    """Return the field `jwt` of a SecurityPolicy, which checks the ID token in the cookies of a login.

    If the cluster declares a client of `allot login`, the field also checks ID tokens that programs send.
    """
    oidc = cluster.oidc
    cookie = _cookies(cluster)["idToken"]
    return _build_jwt(oidc.issuer, oidc.client_id, oidc.cli_client_id, oidc.effective_jwks_uri, cookie)


def build_route_filters(cluster: ClusterSpec) -> list[Frozen]:
    """Return the filters of a route that requires a login; empty if the cluster admits no programs."""
    return [] if cluster.oidc.cli_client_id is None else REMOVE_TOKEN


@lru_cache
def _build_jwt(issuer: str, client_id: str, cli_client_id: str | None, keys: str, cookie: str) -> Frozen:
    programs = {} if cli_client_id is None else {"headers": TOKEN_HEADERS}
    provider = {
        "name": PROVIDER_NAME,
        "issuer": issuer,
        "audiences": [client_id] if cli_client_id is None else [client_id, cli_client_id],
        "remoteJWKS": {"uri": keys, "cacheDuration": "300s"},
        "extractFrom": {"cookies": [cookie], **programs},
    }
    return Frozen(providers=[provider])


def _build_provider(cluster: ClusterSpec) -> Frozen:
    oidc = cluster.oidc
    provider = {"issuer": oidc.issuer}
    if oidc.endpoints is not None:
        provider |= {
            "authorizationEndpoint": oidc.endpoints.authorization,
            "tokenEndpoint": oidc.endpoints.token,
        }
        if oidc.endpoints.end_session is not None:
            provider["endSessionEndpoint"] = oidc.endpoints.end_session
    return Frozen(provider)


@lru_cache
def _build_client_secret_ref(name: str, namespace: str) -> Frozen:
    return Frozen(group="", kind="Secret", name=name, namespace=namespace)


def _cookies(cluster: ClusterSpec) -> Frozen:
    return LOGIN_COOKIES if cluster.oidc.callback_host is None else SHARED_COOKIES

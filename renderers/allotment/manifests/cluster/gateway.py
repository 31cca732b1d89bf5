"""Render the policies of the Gateway's listener: they deny requests by default, and remove login cookies."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.gateway import Gateway
from allotment.declared.values import format_duration
from allotment.manifests import names
from allotment.manifests.login import ACCESS_TOKEN_COOKIE, ID_TOKEN_COOKIE, SHARED_COOKIES, build_jwt, build_oidc

GATEWAY_API = "gateway.networking.k8s.io/v1"
LOGIN_ROUTE = "allotment-login"
ENVOY_API = "gateway.envoyproxy.io/v1alpha1"
SESSION_POLICY = "allotment-sessions"
LIMITS_POLICY = "allotment-limits"
# The cookies of a login. We choose the names of the two token cookies. Envoy Gateway chooses the names of all other
# cookies, and appends a hash of the route to each name.
SESSION_COOKIE_PREFIXES = (
    ID_TOKEN_COOKIE,
    ACCESS_TOKEN_COOKIE,
    # Logins with a callback host set both cookies. Routes that an earlier version rendered set only the first cookie.
    *SHARED_COOKIES.values(),
    *(f"{name}-" for name in ("AccessToken", "IdToken", "OauthExpires", "OauthHMAC", "OauthNonce")),
    "RefreshToken-",
    "CodeVerifier",  # before version 1.9.1, Envoy Gateway appended no hash to this name
)
_LUA_PREFIXES = "{" + ", ".join(f'"{prefix}"' for prefix in SESSION_COOKIE_PREFIXES) + "}"
# Envoy decrypts the two tokens in the cookies of a login, and would pass the tokens to the container in plain text. To
# a browser, all hosts of a cluster are one site, so the browser also sends the cookies if another tenant's page makes a
# request. The filter keeps the blanks at the end of a cookie: a pattern that removes them takes quadratic time, so a
# long cookie would block Envoy for seconds.
SESSION_FILTER = f"""\
local prefixes = {_LUA_PREFIXES}

local function is_of_session(cookie)
  for _, prefix in ipairs(prefixes) do
    if string.sub(cookie, 1, string.len(prefix)) == prefix then
      return true
    end
  end
  return false
end

function envoy_on_request(request_handle)
  local headers = request_handle:headers()
  local has_session = false
  local remaining = {{}}
  for index = 0, headers:getNumValues("cookie") - 1 do
    for cookie in string.gmatch(headers:getAtIndex("cookie", index), "[^;]+") do
      local text = string.match(cookie, "^%s*(.*)")
      if is_of_session(text) then
        has_session = true
      elseif text ~= "" then
        table.insert(remaining, text)
      end
    end
  end
  local origin = headers:get("origin")
  if has_session and origin ~= nil and origin ~= "https://" .. headers:get(":authority") then
    request_handle:respond({{[":status"] = "403"}}, "The request comes from a page of another host.\\n")
    return
  end
  headers:remove("cookie")
  if #remaining > 0 then
    headers:add("cookie", table.concat(remaining, "; "))
  end
end
"""


def listener_target(gateway: Gateway) -> dict[str, str]:
    """Return the reference of a policy to the Gateway's listener for tenants' routes."""
    return {
        "group": GATEWAY_API.partition("/")[0],
        "kind": "Gateway",
        "name": gateway.name,
        "sectionName": gateway.section_name,
    }


def render(cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the policies of the listener for tenants' routes, and the route of the callback host if declared.
    The first policy denies a request unless the policy of its route allows the request. If the cluster declares a
    callback host, the first policy also contains the login that all hosts share. On every route, the second
    policy removes the cookies of a login before a request reaches a container, and keeps all other cookies. The second
    policy also denies a request that has a login and comes from a page of another host. If the cluster declares limits,
    a third policy applies the limits to each route.
    """
    place = cluster.get_singleton(Cluster)
    assert place is not None
    gateway, callback_host = place.model.spec.gateway, place.model.spec.oidc.callback_host
    login = _build_login(place.model.spec, callback_host) if callback_host is not None else {}
    policies: dict[str, tuple[str, dict[str, Any]]] = {
        "allotment-closed": ("SecurityPolicy", {**login, "authorization": {"defaultAction": "Deny"}}),
        SESSION_POLICY: ("EnvoyExtensionPolicy", {"lua": [{"type": "Inline", "inline": SESSION_FILTER}]}),
    }
    if limits := _build_limits(gateway):
        policies[LIMITS_POLICY] = ("BackendTrafficPolicy", limits)
    objects = [
        _build(ENVOY_API, kind, name, gateway, {"targetRefs": [listener_target(gateway)], **spec})
        for name, (kind, spec) in policies.items()
    ]
    if callback_host is not None:
        objects.append(
            _build(GATEWAY_API, "HTTPRoute", LOGIN_ROUTE, gateway, _build_login_route(gateway, callback_host))
        )
    return objects


def _build(api_version: str, kind: str, name: str, gateway: Gateway, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": gateway.namespace,
        "labels": names.labels(),
        "annotations": {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _build_login(cluster: ClusterSpec, callback_host: str) -> dict[str, Any]:
    """Return the login that all hosts share.

    Envoy Gateway rejects an `oidc` that skips requests with a token, unless the same policy has a `jwt` that checks the token.
    """
    jwt = {} if cluster.oidc.cli_client_id is None else {"jwt": build_jwt(cluster)}
    return {"oidc": build_oidc(cluster, callback_host), **jwt}


def _build_login_route(gateway: Gateway, callback_host: str) -> dict[str, Any]:
    """Return the route of the callback host. Envoy answers the callback, and the listener denies all other requests."""
    redirect = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 302}}
    matches = [{"path": {"type": "PathPrefix", "value": "/"}}]
    return {
        "parentRefs": [listener_target(gateway)],
        "hostnames": [callback_host],
        "rules": [{"matches": matches, "filters": [redirect]}],
    }


def _build_limits(gateway: Gateway) -> dict[str, Any]:
    """Return the declared limits of requests, except the limit of their duration, which each HTTPRoute contains."""
    limits: dict[str, Any] = {}
    if gateway.timeouts.idle is not None:
        limits["timeout"] = {"http": {"streamIdleTimeout": format_duration(gateway.timeouts.idle)}}
    if gateway.requests_per_second is not None:
        rate = {"requests": gateway.requests_per_second, "unit": "Second"}
        limits["rateLimit"] = {"local": {"rules": [{"limit": rate}]}}
    return limits

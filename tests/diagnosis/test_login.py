"""The declared login of a cluster against the discovery document of its provider."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.diagnosis.healthy import line

from allotment.declared.kinds.cluster import Oidc
from allotment.diagnosis.login import DiscoveryDocument, DiscoveryResponse, diagnose_login

URL = "https://id.acme.dev"
DECLARED: dict[str, Any] = {
    "issuer": URL,
    "clientID": "allotment",
    "clientSecretRef": {"name": "oidc", "namespace": "edge"},
    "jwksURI": f"{URL}/keys",
    "endpoints": {"authorization": f"{URL}/authorize", "token": f"{URL}/token", "endSession": f"{URL}/logout"},
    "scopes": ["groups", "offline_access"],
}
DOCUMENT = DiscoveryDocument(
    issuer=URL,
    authorization_endpoint=f"{URL}/authorize",
    token_endpoint=f"{URL}/token",
    end_session_endpoint=f"{URL}/logout",
    jwks_uri=f"{URL}/keys",
    scopes_supported=("openid", "groups", "offline_access"),
    id_token_signing_alg_values_supported=("RS256",),
)
ENDPOINTS: dict[str, str] = DECLARED["endpoints"]
THE_DOCUMENT = "the provider's discovery document"


def report_lines(declared: dict[str, Any], response: DiscoveryResponse, tenants: tuple[str, ...] = ()) -> list[str]:
    oidc = Oidc.model_validate({**DECLARED, **declared})
    return [line(diagnosis) for diagnosis in diagnose_login(oidc, response, tenants)]


def test_a_login_as_the_provider_describes_it() -> None:
    assert report_lines({}, DiscoveryResponse(DOCUMENT, clock_lead=60), ("ml-vision",)) == [
        f"ok [login] spec.oidc: agrees with {URL}/.well-known/openid-configuration"
    ]


def test_a_default_address_of_keys_may_be_right() -> None:
    document = msgspec.structs.replace(DOCUMENT, jwks_uri=f"{URL}/.well-known/jwks.json")
    assert report_lines({"jwksURI": None}, DiscoveryResponse(document)) == [
        f"ok [login] spec.oidc: agrees with {URL}/.well-known/openid-configuration"
    ]


def test_a_provider_that_does_not_answer_is_skipped_and_its_clock_is_checked() -> None:
    response = DiscoveryResponse(failure="it answers 503", clock_lead=-75.4)
    assert report_lines({}, response) == [
        f"skipped [login] spec.oidc: can't be compared with {URL}/.well-known/openid-configuration: it answers 503",
        "warning [login] clock of the provider: is 75 s behind the cluster's clock, and the Gateway tolerates 60 s: tokens are"
        " not valid yet, or expire too early or too late -> synchronize the clocks of the nodes, then the clock of the provider",
    ]


CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        "another issuer",
        {},
        {"issuer": f"{URL}/"},
        [
            f"error [login] spec.oidc.issuer: is {URL}, but {THE_DOCUMENT} has issuer {URL}/: the Gateway accepts only tokens"
            f" with exactly the declared issuer -> write issuer: {URL}/"
        ],
    ),
    (
        "no endpoints",
        {"endpoints": None},
        {},
        [
            "warning [login] spec.oidc.endpoints: isn't declared: Envoy Gateway reads the endpoints from the provider whenever"
            " an object changes, and denies everybody if the provider doesn't answer -> write endpoints: {authorization:"
            f" {URL}/authorize, token: {URL}/token, endSession: {URL}/logout}}"
        ],
    ),
    (
        "no endpoints, and no logout at the provider",
        {"endpoints": None},
        {"end_session_endpoint": None},
        [
            "warning [login] spec.oidc.endpoints: isn't declared: Envoy Gateway reads the endpoints from the provider whenever"
            " an object changes, and denies everybody if the provider doesn't answer -> write endpoints: {authorization:"
            f" {URL}/authorize, token: {URL}/token}}"
        ],
    ),
    (
        "no endpoints on either side",
        {"endpoints": None},
        {"token_endpoint": None},
        [
            "warning [login] spec.oidc.endpoints: isn't declared: Envoy Gateway reads the endpoints from the provider whenever"
            " an object changes, and denies everybody if the provider doesn't answer -> ask the provider for its authorization"
            " and token endpoints, and declare them"
        ],
    ),
    (
        "another authorization endpoint",
        {},
        {"authorization_endpoint": f"{URL}/auth"},
        [
            f"error [login] spec.oidc.endpoints.authorization: is {URL}/authorize, but {THE_DOCUMENT} has"
            f" authorization_endpoint {URL}/auth: nobody can log in -> write authorization: {URL}/auth"
        ],
    ),
    (
        "a token endpoint that the provider doesn't have",
        {},
        {"token_endpoint": None},
        [
            f"error [login] spec.oidc.endpoints.token: is {URL}/token, but {THE_DOCUMENT} has no token_endpoint: nobody can"
            " log in -> ask the provider for the address"
        ],
    ),
    (
        "another logout",
        {},
        {"end_session_endpoint": f"{URL}/end"},
        [
            f"warning [login] spec.oidc.endpoints.endSession: is {URL}/logout, but {THE_DOCUMENT} has end_session_endpoint"
            f" {URL}/end: a logout may not end the session at the provider -> write endSession: {URL}/end"
        ],
    ),
    (
        "a logout that the provider doesn't have",
        {},
        {"end_session_endpoint": None},
        [
            f"warning [login] spec.oidc.endpoints.endSession: is {URL}/logout, but {THE_DOCUMENT} has no end_session_endpoint:"
            " a logout may not end the session at the provider -> remove the field"
        ],
    ),
    (
        "a logout that isn't declared",
        {"endpoints": {"authorization": ENDPOINTS["authorization"], "token": ENDPOINTS["token"]}},
        {},
        [f"ok [login] spec.oidc: agrees with {URL}/.well-known/openid-configuration"],
    ),
    (
        "another address of the keys",
        {},
        {"jwks_uri": f"{URL}/certs"},
        [
            f"error [login] spec.oidc.jwksURI: is {URL}/keys, but {THE_DOCUMENT} has jwks_uri {URL}/certs: nobody can log in"
            f" -> write jwksURI: {URL}/certs"
        ],
    ),
    (
        "a default address of the keys that is wrong",
        {"jwksURI": None},
        {},
        [
            f"error [login] spec.oidc.jwksURI: isn't declared, so the Gateway reads the keys at {URL}/.well-known/jwks.json,"
            f" but {THE_DOCUMENT} has jwks_uri {URL}/keys: nobody can log in -> write jwksURI: {URL}/keys"
        ],
    ),
    (
        "tokens that no key verifies",
        {},
        {"id_token_signing_alg_values_supported": ("none", "HS256")},
        [
            f"error [login] spec.oidc: {THE_DOCUMENT} has id_token_signing_alg_values_supported none, HS256: the Gateway can't"
            " verify such tokens with public keys, so nobody can log in -> configure the provider to sign ID tokens by RS256"
            " or ES256"
        ],
    ),
    (
        "tokens that some keys verify",
        {},
        {"id_token_signing_alg_values_supported": ("HS256", "ES256")},
        [f"ok [login] spec.oidc: agrees with {URL}/.well-known/openid-configuration"],
    ),
    (
        "a scope that the provider doesn't have",
        {"scopes": ["teams", "offline_access"]},
        {},
        [
            f"warning [login] spec.oidc.scopes: has teams, but {THE_DOCUMENT} has scopes_supported openid, groups,"
            " offline_access: the provider may ignore such a scope or refuse the login -> try a login, and remove the scope if"
            " it fails"
        ],
    ),
    (
        "many scopes, and words for a terminal among them",
        {"scopes": ["teams"]},
        {"scopes_supported": ("\x1b[2J", *(f"s{number}" for number in range(30)))},
        [
            f"warning [login] spec.oidc.scopes: has teams, but {THE_DOCUMENT} has scopes_supported \\x1b[2J,"
            f" {', '.join(f's{number}' for number in range(19))}, 11 more: the provider may ignore such a scope or refuse the"
            " login -> try a login, and remove the scope if it fails"
        ],
    ),
    (
        "no refresh token",
        {"scopes": ["groups"]},
        {},
        [
            "warning [login] spec.oidc.scopes: lacks offline_access, which the provider supports: without a refresh token, a"
            " session ends when its ID token expires -> write scopes: [groups, offline_access]"
        ],
    ),
    (
        "a provider that lists no scopes",
        {"scopes": ["teams"]},
        {"scopes_supported": None},
        [f"ok [login] spec.oidc: agrees with {URL}/.well-known/openid-configuration"],
    ),
]


@pytest.mark.parametrize(("declared", "document", "lines"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_a_difference_is_one_line(declared: dict[str, Any], document: dict[str, Any], lines: list[str]) -> None:
    assert report_lines(declared, DiscoveryResponse(msgspec.structs.replace(DOCUMENT, **document))) == lines


GROUPS = "spec.oidc.scopes: lacks groups, but the Members of 2 tenants name groups (ml-vision first)"


@pytest.mark.parametrize(
    ("scopes", "claims", "expected"),
    [
        (
            ("groups",),
            None,
            f"warning [login] {GROUPS}: logins have no groups unless the provider always adds them to ID tokens -> write"
            " scopes: [offline_access, groups]",
        ),
        (
            ("openid",),
            ("sub",),
            f"skipped [login] {GROUPS}, and {THE_DOCUMENT} has neither a scope nor a claim of this name: it is unknown whether"
            " ID tokens contain groups -> decode an ID token; if it has no groups, configure them at the provider",
        ),
        (("openid",), ("sub", "groups"), ""),
        (None, ("sub", "groups"), ""),
    ],
)
def test_groups_that_nobody_requests(
    scopes: tuple[str, ...] | None, claims: tuple[str, ...] | None, expected: str
) -> None:
    supported = None if scopes is None else (*scopes, "offline_access")
    document = msgspec.structs.replace(DOCUMENT, scopes_supported=supported, claims_supported=claims)
    declared = {"scopes": ["offline_access"]}
    lines = report_lines(declared, DiscoveryResponse(document), ("ml-vision", "solo-ada"))
    assert [text for text in lines if "groups" in text] == ([expected] if expected else [])
    assert not [text for text in report_lines(declared, DiscoveryResponse(document)) if "groups" in text]


def test_a_clock_that_is_ahead() -> None:
    assert report_lines({}, DiscoveryResponse(DOCUMENT, clock_lead=61))[1:] == [
        "warning [login] clock of the provider: is 61 s ahead of the cluster's clock, and the Gateway tolerates 60 s: tokens are"
        " not valid yet, or expire too early or too late -> synchronize the clocks of the nodes, then the clock of the provider"
    ]

"""Compares the declared login of a cluster with the discovery document of the identity provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from allotment.declared.kinds.cluster import Oidc
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.problems import escape_unprintable, pluralize

TOPIC = "login"
SUBJECT = "spec.oidc"
MAX_CLOCK_LEAD = 60  # seconds that Envoy tolerates when it checks the validity of a token
_MAX_URL_LENGTH = 253  # characters: the limit of a declared URL
_MAX_SCOPES = 20  # maximum number of values in a message
_DOCUMENT = "the provider's discovery document"
_KEY_ALGORITHMS = ("RS", "ES", "PS", "EdDSA")  # public keys verify these signatures; a shared secret verifies HS256


class DiscoveryDocument(msgspec.Struct, frozen=True):
    """The fields of a discovery document that a login needs; None stands for an absent field."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    end_session_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    claims_supported: tuple[str, ...] | None = None
    id_token_signing_alg_values_supported: tuple[str, ...] | None = None


class DiscoveryResponse(NamedTuple):
    """The response of an identity provider to a request for its discovery document.

    If there is no `document`, `failure` is the reason. `clock_lead` is the time in seconds by which the provider's clock
    is ahead of the cluster's clock; None if the response has no time.
    """

    document: DiscoveryDocument | None = None
    failure: str = ""
    clock_lead: float | None = None


def discovery_url(issuer: str) -> str:
    """Return the URL of an issuer's discovery document."""
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def diagnose_login(oidc: Oidc, response: DiscoveryResponse, group_tenants: Sequence[str]) -> list[Diagnosis]:
    """Return a diagnosis of each difference between the declared login and the provider.

    `group_tenants` are the tenants of the cluster that grant access to groups.
    """
    url = discovery_url(oidc.issuer)
    document = response.document
    if document is None:
        diagnoses = [skipped(SUBJECT, f"can't be compared with {url}: {response.failure}")]
    else:
        diagnoses = [
            *_check_issuer(oidc, document),
            *_check_endpoints(oidc, document),
            *_check_keys(oidc, document),
            *_check_algorithms(document),
            *_check_scopes(oidc, document),
            *_check_groups(oidc, document, group_tenants),
        ] or [ok(SUBJECT, f"agrees with {url}")]
    diagnoses += _check_clock(response.clock_lead)
    return [msgspec.structs.replace(diagnosis, topic=TOPIC) for diagnosis in diagnoses]


def _check_issuer(oidc: Oidc, document: DiscoveryDocument) -> Iterator[Diagnosis]:
    if document.issuer != oidc.issuer:
        value = _format_url(document.issuer)
        yield error(
            f"{SUBJECT}.issuer",
            f"is {oidc.issuer}, but {_DOCUMENT} has issuer {value}: the Gateway accepts only tokens with exactly the"
            " declared issuer",
            f"write issuer: {value}",
        )


def _check_endpoints(oidc: Oidc, document: DiscoveryDocument) -> Iterator[Diagnosis]:
    endpoints = oidc.endpoints
    if endpoints is None:
        yield warning(
            f"{SUBJECT}.endpoints",
            "isn't declared: Envoy Gateway reads the endpoints from the provider whenever an object changes, and denies"
            " everybody if the provider doesn't answer",
            _endpoints_advice(document),
        )
        return
    for field, declared, key, value in (
        ("authorization", endpoints.authorization, "authorization_endpoint", document.authorization_endpoint),
        ("token", endpoints.token, "token_endpoint", document.token_endpoint),
    ):
        if declared != value:
            yield error(
                f"{SUBJECT}.endpoints.{field}",
                f"is {declared}, but {_DOCUMENT} has {_format_entry(key, value)}: nobody can log in",
                _field_advice(field, value),
            )
    if endpoints.end_session is not None and endpoints.end_session != document.end_session_endpoint:
        value = document.end_session_endpoint
        yield warning(
            f"{SUBJECT}.endpoints.endSession",
            f"is {endpoints.end_session}, but {_DOCUMENT} has {_format_entry('end_session_endpoint', value)}: a logout may"
            " not end the session at the provider",
            _field_advice("endSession", value) if value else "remove the field",
        )


def _endpoints_advice(document: DiscoveryDocument) -> str:
    """Return advice that has the YAML of the document's endpoints.

    If the document lacks a required endpoint, the advice is to ask the provider.
    """
    if not (document.authorization_endpoint and document.token_endpoint):
        return "ask the provider for its authorization and token endpoints, and declare them"
    fields = {
        "authorization": document.authorization_endpoint,
        "token": document.token_endpoint,
        "endSession": document.end_session_endpoint,
    }
    text = ", ".join(f"{field}: {_format_url(value)}" for field, value in fields.items() if value)
    return f"write endpoints: {{{text}}}"


def _check_keys(oidc: Oidc, document: DiscoveryDocument) -> Iterator[Diagnosis]:
    declared, value = oidc.effective_jwks_uri, document.jwks_uri
    if declared != value:
        state = f"is {declared}" if oidc.jwks_uri else f"isn't declared, so the Gateway reads the keys at {declared}"
        yield error(
            f"{SUBJECT}.jwksURI",
            f"{state}, but {_DOCUMENT} has {_format_entry('jwks_uri', value)}: nobody can log in",
            _field_advice("jwksURI", value),
        )


def _check_algorithms(document: DiscoveryDocument) -> Iterator[Diagnosis]:
    algorithms = document.id_token_signing_alg_values_supported
    if algorithms is not None and not any(algorithm.startswith(_KEY_ALGORITHMS) for algorithm in algorithms):
        yield error(
            SUBJECT,
            f"{_DOCUMENT} has id_token_signing_alg_values_supported {_format_list(algorithms)}: the Gateway can't verify"
            " such tokens with public keys, so nobody can log in",
            "configure the provider to sign ID tokens by RS256 or ES256",
        )


def _check_scopes(oidc: Oidc, document: DiscoveryDocument) -> Iterator[Diagnosis]:
    supported = document.scopes_supported
    if supported is None:
        return
    subject = f"{SUBJECT}.scopes"
    if unsupported := [scope for scope in oidc.scopes if scope not in supported]:
        yield warning(
            subject,
            f"has {_format_list(unsupported)}, but {_DOCUMENT} has scopes_supported {_format_list(supported)}: the"
            " provider may ignore such a scope or refuse the login",
            "try a login, and remove the scope if it fails",
        )
    if "offline_access" in supported and "offline_access" not in oidc.scopes:
        yield warning(
            subject,
            "lacks offline_access, which the provider supports: without a refresh token, a session ends when its ID token"
            " expires",
            _scopes_advice(oidc, "offline_access"),
        )


def _check_groups(oidc: Oidc, document: DiscoveryDocument, tenants: Sequence[str]) -> Iterator[Diagnosis]:
    if not tenants or "groups" in oidc.scopes:
        return
    subject = f"{SUBJECT}.scopes"
    message = f"lacks groups, but the Members of {pluralize(len(tenants), 'tenant')} name groups ({tenants[0]} first)"
    if "groups" in (document.scopes_supported or ()):
        yield warning(
            subject,
            f"{message}: logins have no groups unless the provider always adds them to ID tokens",
            _scopes_advice(oidc, "groups"),
        )
    elif "groups" not in (document.claims_supported or ()):
        yield skipped(
            subject,
            f"{message}, and {_DOCUMENT} has neither a scope nor a claim of this name: it is unknown whether ID tokens"
            " contain groups",
            "decode an ID token; if it has no groups, configure them at the provider",
        )


def _check_clock(lead: float | None) -> Iterator[Diagnosis]:
    if lead is not None and abs(lead) > MAX_CLOCK_LEAD:
        direction = "ahead of" if lead > 0 else "behind"
        yield warning(
            "clock of the provider",
            f"is {abs(lead):.0f} s {direction} the cluster's clock, and the Gateway tolerates {MAX_CLOCK_LEAD} s: tokens are"
            " not valid yet, or expire too early or too late",
            "synchronize the clocks of the nodes, then the clock of the provider",
        )


def _scopes_advice(oidc: Oidc, scope: str) -> str:
    return f"write scopes: [{', '.join((*oidc.scopes, scope))}]"


def _field_advice(field: str, value: str | None) -> str:
    return f"write {field}: {_format_url(value)}" if value else "ask the provider for the address"


def _format_entry(key: str, value: str | None) -> str:
    return f"{key} {_format_url(value)}" if value else f"no {key}"


def _format_url(url: str) -> str:
    return escape_unprintable(url, _MAX_URL_LENGTH)


def _format_list(values: Iterable[str]) -> str:
    """Return the first values of a list, separated by commas; `none` if the list is empty."""
    items = [escape_unprintable(value, 64) for value in values]
    more = [f"{len(items) - _MAX_SCOPES} more"] if len(items) > _MAX_SCOPES else []
    return ", ".join(items[:_MAX_SCOPES] + more) or "none"

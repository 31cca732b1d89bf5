"""Logs a person in at the identity provider of a cluster, and returns valid ID tokens for the URLs of tenants."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from allotment.adapters.header_values import can_be_in_header
from allotment.adapters.oidc.callback_server import CallbackServer
from allotment.adapters.oidc.provider import TokenRejected, find_endpoints, request_tokens
from allotment.adapters.oidc.token_store import LoginKey, StoredTokens, TokenStore
from allotment.declared.kinds.cluster import Cluster
from allotment.problems import OperationRefused, escape_unprintable, hide_in_errors, quote_value

LOGIN_SECONDS = 300.0
# A token is refreshed if it expires within these seconds, so that it is still valid when a request arrives.
MIN_VALID_SECONDS = 30
_END_OF_TIME = 253_402_300_800  # seconds since the epoch until the year 10000
_SECRET_BYTES = 32
_MAX_TOKEN_LENGTH = 32_768  # characters; Envoy accepts headers of at most 60 KiB


class LoginOptions(NamedTuple):
    """How a person logs in. `show_url` shows the URL of the login to the person, or opens it.

    `port` is the port for the callback; 0 selects a free port. `seconds` limits the time of the login.
    """

    show_url: Callable[[str], None]
    port: int = 0
    seconds: float = LOGIN_SECONDS


class IdentityClaims(NamedTuple):
    """The claims of an ID token that describe the person, and the expiry in seconds since the epoch."""

    subject: str
    expires_at: float


def log_in(cluster: Cluster, repository: str, options: LoginOptions) -> IdentityClaims:
    """Log a person in with a browser, store the tokens, and return the person's claims. Raises OperationRefused.

    The merged declarations of the repository at the URL `repository` declare the cluster.
    """
    oidc, client_id = cluster.spec.oidc, find_client_id(cluster)
    endpoints = find_endpoints(oidc)
    state, nonce, verifier = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(3))
    with CallbackServer(state, options.port) as server:
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": server.redirect_uri,
            "scope": " ".join(dict.fromkeys(["openid", *oidc.scopes])),
            "state": state,
            "nonce": nonce,
            "code_challenge": _encode(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        options.show_url(f"{endpoints.authorization}{'&' if '?' in endpoints.authorization else '?'}{urlencode(query)}")
        try:
            response = server.wait(options.seconds)
        except TimeoutError:
            raise OperationRefused(
                f"nobody logged in within {options.seconds:.0f} s: run the command again, and open its URL"
            ) from None
    if "code" not in response:
        reason = ": ".join(filter(None, (response.get("error", "no code"), response.get("error_description"))))
        raise OperationRefused(f"{oidc.issuer} refused the login: {escape_unprintable(reason, 200)}")
    hide_in_errors(response["code"], verifier)
    form = {
        "grant_type": "authorization_code",
        "code": response["code"],
        "redirect_uri": query["redirect_uri"],
        "client_id": client_id,
        "code_verifier": verifier,
    }
    tokens, claims = _check_response(cluster, endpoints.token, request_tokens(endpoints.token, form), nonce=nonce)
    store = TokenStore.open_default()
    with store.lock():
        store.write(_find_key(cluster, repository), tokens)
    return claims


def read_token(cluster: Cluster, repository: str) -> str:
    """Return a valid ID token of the person for the URLs of a cluster of a repository, and refresh it if necessary.

    Raises OperationRefused if the person must log in with `allot login`, or if the cluster admits no programs.
    """
    key, store = _find_key(cluster, repository), TokenStore.open_default()
    tokens = _read_stored(cluster, store, key)
    if tokens is not None and _is_valid(tokens):
        return tokens.id_token
    if tokens is None:
        raise OperationRefused(f"there is no login for cluster {cluster.name}: run `allot login {cluster.name}`")
    with store.lock():  # a refresh token is often for one use, so two processes must not use it at the same time
        tokens = _read_stored(cluster, store, key)
        if tokens is None or not _is_valid(tokens):
            tokens = _refresh(cluster, tokens)
            store.write(key, tokens)
    return tokens.id_token


def remove_tokens(cluster: Cluster, repository: str) -> bool:
    """Remove the stored tokens of a cluster of a repository. Return whether there were any."""
    key, store = _find_key(cluster, repository), TokenStore.open_default()
    if store.read(key) is None:
        return False
    with store.lock():
        store.write(key, None)
    return True


def find_client_id(cluster: Cluster) -> str:
    """Return the client ID of `allot login` in a cluster. Raises OperationRefused if the cluster admits no programs."""
    client_id = cluster.spec.oidc.cli_client_id
    if client_id is None:
        raise OperationRefused(
            f"cluster {cluster.name} admits only browsers: the platform team can declare spec.oidc.cliClientID in"
            f" clusters/{cluster.name}/cluster.yaml; `allot explain Cluster.spec.oidc.cliClientID` explains it"
        )
    return client_id


def _find_key(cluster: Cluster, repository: str) -> LoginKey:
    return LoginKey(repository, cluster.name, cluster.spec.oidc.issuer, find_client_id(cluster), cluster.spec.domain)


def _read_stored(cluster: Cluster, store: TokenStore, key: LoginKey) -> StoredTokens | None:
    """Return the stored tokens; None if there are none, or if the declared token endpoint did not issue them."""
    tokens, endpoints = store.read(key), cluster.spec.oidc.endpoints
    is_elsewhere = tokens is not None and endpoints is not None and tokens.token_endpoint != endpoints.token
    return None if is_elsewhere else tokens


def _is_valid(tokens: StoredTokens) -> bool:
    return tokens.expires_at - time.time() > MIN_VALID_SECONDS and can_be_in_header(tokens.id_token)


def _refresh(cluster: Cluster, tokens: StoredTokens | None) -> StoredTokens:
    remedy = f"run `allot login {cluster.name}`"
    if tokens is None or not tokens.refresh_token:
        raise OperationRefused(f"your login for cluster {cluster.name} has expired: {remedy}")
    form = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh_token,
        "client_id": find_client_id(cluster),
    }
    try:
        response = request_tokens(tokens.token_endpoint, form)
    except TokenRejected as error:
        raise OperationRefused(f"your login for cluster {cluster.name} has ended ({error}): {remedy}") from None
    if "id_token" not in response:
        raise OperationRefused(f"{cluster.spec.oidc.issuer} refreshes no ID token: {remedy}")
    subject = _decode_claims(tokens.id_token).get("sub")
    # A provider that rotates no refresh tokens returns none.
    renewed = {"refresh_token": tokens.refresh_token} | response
    refreshed, _ = _check_response(cluster, tokens.token_endpoint, renewed, subject=subject)
    return refreshed


def _check_response(
    cluster: Cluster, endpoint: str, response: dict[str, Any], *, nonce: str | None = None, subject: object = None
) -> tuple[StoredTokens, IdentityClaims]:
    """Return the tokens of a response, and the claims of its ID token. Raises OperationRefused for a wrong claim.

    TLS protects the response, and the Gateway verifies the signature of the token.
    """
    oidc, client_id = cluster.spec.oidc, find_client_id(cluster)
    token, refresh_token = response.get("id_token"), response.get("refresh_token")
    hide_in_errors(*(text for text in (token, refresh_token) if isinstance(text, str)))
    if not isinstance(token, str) or not can_be_in_header(token) or len(token) > _MAX_TOKEN_LENGTH:
        raise OperationRefused(
            f"{oidc.issuer} returned no ID token, or one of more than {_MAX_TOKEN_LENGTH:,} characters"
        )
    claims = _decode_claims(token)
    audience, expiry = claims.get("aud"), claims.get("exp", 0)
    audiences = audience if isinstance(audience, list) else [audience]
    problems = {
        f"iss is {quote_value(claims.get('iss'))}, must be {oidc.issuer}": claims.get("iss") != oidc.issuer,
        f"aud is {quote_value(audience)}, must contain {client_id}": client_id not in audiences,
        f"azp is {quote_value(claims.get('azp'))}, must be {client_id}": claims.get("azp", client_id) != client_id,
        "nonce is not that of this login": nonce is not None
        and not hmac.compare_digest(str(claims.get("nonce")).encode("utf-8", "surrogatepass"), nonce.encode()),
        "sub names another person than the login": subject is not None and claims.get("sub") != subject,
        "it has expired, or has no valid exp: compare the clocks of this machine and of the provider": not (
            _is_number(expiry) and time.time() < expiry < _END_OF_TIME
        ),
    }
    for problem, is_present in problems.items():
        if is_present:
            raise OperationRefused(f"the ID token of {oidc.issuer} is refused: {problem}")
    tokens = StoredTokens(token, float(expiry), endpoint, refresh_token if isinstance(refresh_token, str) else "")
    return tokens, IdentityClaims(str(claims.get("sub", "")), tokens.expires_at)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decode_claims(token: str) -> dict[str, Any]:
    """Return the claims of a JSON Web Token; empty if it is none."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")

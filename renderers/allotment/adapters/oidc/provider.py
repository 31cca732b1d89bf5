"""Sends requests to an identity provider: for its endpoints, and for tokens."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3

from allotment.adapters.http_connections import create_connection_pool
from allotment.adapters.http_responses import CONNECT_SECONDS, ApiUnavailable, error_text, read_body
from allotment.adapters.request_limit import limit_request
from allotment.declared.kinds.cluster import Oidc
from allotment.diagnosis.login import discovery_url
from allotment.problems import OperationRefused, escape_unprintable

_FORM_TYPE = "application/x-www-form-urlencoded"
_READ_SECONDS = 10.0
_REQUEST_SECONDS = 30.0  # of the whole request
_MAX_BYTES = 1 << 20  # bytes of a response; usual responses have some 5 KB


class ProviderEndpoints(NamedTuple):
    """The URLs of a provider that a login needs."""

    authorization: str
    token: str


class TokenRejected(OperationRefused):
    """The provider issues no tokens. `code` is its error code, such as `invalid_grant`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def find_endpoints(oidc: Oidc) -> ProviderEndpoints:
    """Return the declared endpoints, or those of the provider's discovery document. Raises OperationRefused."""
    if oidc.endpoints is not None:
        return ProviderEndpoints(oidc.endpoints.authorization, oidc.endpoints.token)
    url = discovery_url(oidc.issuer)
    status, document = _request("GET", url)
    if status != HTTPStatus.OK:
        raise OperationRefused(f"{url} answers {status}: the platform team can declare spec.oidc.endpoints")
    if document.get("issuer") != oidc.issuer:
        raise OperationRefused(f"{url} names another issuer than {oidc.issuer}: `allot doctor --cluster` compares them")
    endpoints = ProviderEndpoints(*(str(document.get(f"{name}_endpoint")) for name in ProviderEndpoints._fields))
    if not all(endpoint.startswith("https://") for endpoint in endpoints):
        raise OperationRefused(f"{url} lacks an https:// address in authorization_endpoint or token_endpoint")
    return endpoints


def request_tokens(endpoint: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the response of the token endpoint to a form. Raises TokenRejected, or OperationRefused without a response."""
    status, response = _request("POST", endpoint, form)
    if status != HTTPStatus.OK:
        code = str(response.get("error") or status)
        reason = ": ".join(str(part) for part in (code, response.get("error_description")) if part)
        raise TokenRejected(f"{endpoint} issues no token: {escape_unprintable(reason, 200)}", code)
    return response


def _request(method: str, url: str, form: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of a response. A redirect is not followed, because it could lead elsewhere."""
    try:
        with limit_request(_REQUEST_SECONDS), create_connection_pool(url) as pool:
            answer = pool.request(
                method,
                url,
                body=urlencode(form) if form is not None else None,
                headers={"Accept": "application/json"} | ({"Content-Type": _FORM_TYPE} if form is not None else {}),
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=_READ_SECONDS),
                preload_content=False,
                retries=False,
                redirect=False,
            )
            body = read_body(answer, _READ_SECONDS, _MAX_BYTES)
    except ApiUnavailable as error:
        raise OperationRefused(f"{url} doesn't answer: {error}") from None
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise OperationRefused(f"{url} doesn't answer: {error_text(error)}") from None
    try:
        content = msgspec.json.decode(body)  # unlike json, refuses lone surrogates, which nothing can encode
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        return answer.status, content
    if answer.status == HTTPStatus.OK:
        raise OperationRefused(f"{url} answers with something else than a JSON object")
    return answer.status, {}

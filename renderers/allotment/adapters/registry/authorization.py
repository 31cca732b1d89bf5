"""Answers the challenge of a registry: with a person's login, or with a token that its token server issues."""

from __future__ import annotations

import base64
import json
import re
from http import HTTPStatus
from urllib.parse import urlencode

from allotment.adapters.registry.connection import RegistryError, base_url, send_request
from allotment.problems import escape_unprintable, hide_in_errors

_PARAMETER = re.compile(r'([A-Za-z]{1,20})="([^"]{0,2000})"')
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_MAX_CHALLENGE = 8192  # characters of a WWW-Authenticate header


def authorize(challenge: str, host: str, repository: str, login: str) -> str:
    """Return the Authorization header that answers a WWW-Authenticate header. Raises RegistryError.

    `login` is `user:password`, or empty. The token permits only pulls from `repository`, also if the challenge names other scopes.
    """
    scheme, _, rest = challenge[:_MAX_CHALLENGE].strip().partition(" ")
    if scheme.lower() == "basic" and login:
        return _basic(login)
    if scheme.lower() != "bearer":
        raise RegistryError(login_message(host, repository, login))
    parameters = {name.lower(): value for name, value in _PARAMETER.findall(rest)}
    realm = parameters.get("realm", "")
    if not realm.startswith(("https://", f"{base_url(host)}/")):
        raise RegistryError(
            f"registry {host} names the token server {escape_unprintable(realm, 200)!r}, which is not an https://"
            " address: use a registry that answers with HTTPS only"
        )
    query = {"service": parameters.get("service", ""), "scope": f"repository:{repository}:pull"}
    separator = "&" if "?" in realm else "?"
    url = f"{realm}{separator}{urlencode({key: value for key, value in query.items() if value})}"
    response = send_request("GET", url, {"Authorization": _basic(login)} if login else {})
    if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise RegistryError(login_message(host, repository, login))
    return f"Bearer {_read_token(response.status, response.body, host)}"


def login_message(host: str, repository: str, login: str) -> str:
    """Return the message for a registry that permits no pull, with or without a login."""
    if login:
        return (
            f"registry {host} permits no pull of {repository} with the login in the Docker configuration: check the name,"
            f" or log in again: docker login {host}"
        )
    return (
        f"registry {host} permits no pull of {repository} without a login: check the name, or log in: docker login {host}"
        " (a credential helper is not asked; only `auths` in config.json)"
    )


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def _read_token(status: int, body: bytes, host: str) -> str:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if status == HTTPStatus.OK and isinstance(document, dict):
        token = document.get("token") or document.get("access_token")
        if isinstance(token, str) and _TOKEN.fullmatch(token):
            hide_in_errors(token)
            return token
    raise RegistryError(f"the token server of registry {host} answers {status} without a token: try again later")

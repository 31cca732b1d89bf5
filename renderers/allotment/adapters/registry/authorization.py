"""Answers the challenge of a registry: with a person's login from the configuration file of Docker, or with a token that its
token server issues.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from allotment.adapters.registry.connection import RegistryError, base_url, send_request
from allotment.declared.image_reference import DOCKER_HUB
from allotment.problems import escape_unprintable, hide_in_errors

_PARAMETER = re.compile(r'([A-Za-z]{1,20})="([^"]{0,2000})"')
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_MAX_CHALLENGE = 8192  # characters of a WWW-Authenticate header
_MAX_CONFIG_BYTES = 1 << 20  # bytes of the configuration file of Docker; a usual file has less than 1 KB
_HUB_HOSTS = ("index.docker.io", "registry-1.docker.io")


def find_login(host: str) -> str:
    """Return the login for a registry as `user:password`; empty if the configuration file of Docker has none.

    The file is $DOCKER_CONFIG/config.json or ~/.docker/config.json. Credential helpers are not asked. An unreadable file
    counts as a file without logins.
    """
    auths = _read_config().get("auths")
    if not isinstance(auths, dict):
        return ""
    login = next((_decode_login(entry) for key, entry in auths.items() if _host_of_key(key) == host), "")
    hide_in_errors(login.partition(":")[2], base64.b64encode(login.encode()).decode("ascii"))
    return login


def _read_config() -> dict[str, Any]:
    folder = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    try:
        with (Path(folder) / "config.json").open("rb") as file:
            config = json.loads(file.read(_MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def _host_of_key(key: str) -> str:
    host = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
    return DOCKER_HUB if host in _HUB_HOSTS else host


def _decode_login(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    if isinstance(auth := entry.get("auth"), str) and auth:
        try:
            login = base64.b64decode(auth, validate=True).decode("utf-8").rstrip("\0")
        except (binascii.Error, ValueError):
            return ""
        return login if ":" in login else ""
    user, password = entry.get("username"), entry.get("password")
    return f"{user}:{password}" if isinstance(user, str) and isinstance(password, str) and user else ""


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

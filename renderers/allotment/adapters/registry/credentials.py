"""Reads a person's logins at registries from the configuration file of Docker."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import Any

import msgspec

from allotment.adapters.checkout_paths import home_folder
from allotment.adapters.credential_files import read_credential_file
from allotment.declared.image_reference import DOCKER_HUB
from allotment.problems import OperationRefused, hide_in_errors

_HUB_HOSTS = ("index.docker.io", "registry-1.docker.io")


def find_login(host: str) -> str:
    """Return the login for a registry as `user:password`; empty if the file has none.

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
    try:
        folder = os.environ.get("DOCKER_CONFIG") or home_folder() / ".docker"
        config = msgspec.json.decode(read_credential_file(Path(folder) / "config.json"))
    except (OperationRefused, ValueError, RecursionError):
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

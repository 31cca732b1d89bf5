"""Finds the login of Argo CD's command line: the URL of a server, and the token of its user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from yaml import YAMLError

from allotment.adapters.checkout_paths import config_folder, home_folder
from allotment.adapters.credential_files import load_yaml, read_credential_file
from allotment.adapters.header_values import can_be_in_header
from allotment.problems import OperationRefused, hide_in_errors, quote_value


class ArgoCDLogin(NamedTuple):
    """The URL of an Argo CD server without a final slash, and a token.

    `verifies` is False if the login was made with --insecure: then the certificate of the server isn't verified.
    """

    url: str
    token: str
    verifies: bool = True


def find_login(declared_url: str) -> ArgoCDLogin | None:
    """Return the login for the Argo CD at `declared_url`, or that of the current context if `declared_url` is empty.

    The environment variables of the `argocd` command precede its configuration file: ARGOCD_SERVER, ARGOCD_AUTH_TOKEN and
    ARGOCD_CONFIG_DIR. Returns None without a login. Raises OperationRefused if the configuration file can't be read, if no
    header can contain the token, or if no server has the URL.
    """
    login = _find_login(declared_url)
    if login is None:
        return None
    if not _normalize_address(login.url):
        raise OperationRefused(
            f"{quote_value(login.url)} is no URL of a server: correct ARGOCD_SERVER, or log in again with argocd login"
        )
    token = login.token.strip()
    hide_in_errors(token)
    if not can_be_in_header(token):
        raise OperationRefused(
            "the token for Argo CD has a character that a header can't have: correct ARGOCD_AUTH_TOKEN, or log in again with argocd login"
        )
    return login._replace(token=token)


def _find_login(declared_url: str) -> ArgoCDLogin | None:
    token, server = os.environ.get("ARGOCD_AUTH_TOKEN", "").strip(), os.environ.get("ARGOCD_SERVER", "")
    if token and server:  # without ARGOCD_SERVER, a hostile checkout could name the server that gets the token
        return ArgoCDLogin(f"https://{server.removeprefix('https://')}".rstrip("/"), token)
    path = find_config_file()
    config = _read_config(path) if path is not None else {}
    for context in _list_contexts(config, declared_url):
        servers = {str(each.get("server")): each for each in _list_entries(config, "servers")}
        tokens = {str(each.get("name")): str(each.get("auth-token") or "") for each in _list_entries(config, "users")}
        address, token = str(context.get("server")), tokens.get(str(context.get("user")), "")
        if address in servers and token:
            return _build_login(address, servers[address], token)
    return None


def find_config_file() -> Path | None:
    """Return the configuration file of the `argocd` command; None if there is none.

    Raises OperationRefused if the file's folder is in a work tree.
    """
    folder = os.environ.get("ARGOCD_CONFIG_DIR")
    folders = [Path(folder)] if folder else [config_folder("argocd"), home_folder() / ".argocd"]
    return next((path for path in (each / "config" for each in folders) if path.is_file()), None)


def _read_config(path: Path) -> dict[str, Any]:
    text = read_credential_file(path, "remove it, and log in again with argocd login")
    try:
        config = load_yaml(text)
    except YAMLError:
        raise OperationRefused(
            f"{path}, the configuration of argocd, is no YAML: log in again with argocd login"
        ) from None
    return config if isinstance(config, dict) else {}


def _list_entries(config: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = config.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _list_contexts(config: dict[str, Any], declared_url: str) -> list[dict[str, Any]]:
    """Return the contexts for the declared server, the current context first; without a URL, the current context."""
    current = config.get("current-context")
    contexts = sorted(_list_entries(config, "contexts"), key=lambda context: context.get("name") != current)
    if not declared_url:
        return [context for context in contexts if context.get("name") == current]
    address = _normalize_address(declared_url)
    return [context for context in contexts if _normalize_address(str(context.get("server"))) == address]


def _normalize_address(url: str) -> str:
    """Return host and port of a URL or of an address such as argocd.example:443; the default port is omitted."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
    except ValueError:  # no server has this URL
        return ""
    host = parts.netloc.rpartition("@")[2].lower()
    return host.removesuffix(":80" if parts.scheme == "http" else ":443")


def _build_login(address: str, server: dict[str, Any], token: str) -> ArgoCDLogin:
    scheme = "http" if server.get("plain-text") is True else "https"
    root = str(server.get("grpc-web-root-path") or "").strip("/")
    url = f"{scheme}://{address}" + (f"/{root}" if root else "")
    return ArgoCDLogin(url.rstrip("/"), token, server.get("insecure") is not True)

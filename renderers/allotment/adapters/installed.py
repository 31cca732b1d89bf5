"""Finds the address that the running program was installed from: a Git commit, a wheel, or a checkout's remote and
commit."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from allotment.problems import OperationRefused

_SCP_URL = re.compile(r"(?P<user>[A-Za-z0-9._-]+)@(?P<host>[A-Za-z0-9.-]+):(?P<path>[^/].*)")


def installed_address() -> str:
    """Return the address of the running program, with its commit or hash; empty if the address is unknown.

    pip records the address: https://packaging.python.org/en/latest/specifications/direct-url/
    """
    try:
        recorded = json.loads(metadata.distribution("allotment").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    return _pinned_address(recorded, str(_member(recorded, "url")))


def _member(recorded: Any, name: str) -> Any:
    """Return a member of a mapping; an empty string if it is missing or `recorded` is no mapping."""
    return recorded.get(name, "") if isinstance(recorded, dict) else ""


def _pinned_address(recorded: Any, url: str) -> str:
    if version := _member(recorded, "vcs_info"):
        return f"git+{without_password(url)}@{_member(version, 'commit_id')}"
    if archive := _member(recorded, "archive_info"):
        digest = _member(_member(archive, "hashes"), "sha256")
        return f"{without_password(url)}#sha256={digest}" if digest else ""
    if url.startswith("file://"):
        return checkout_address(Path(unquote(urlsplit(url).path)))
    return ""


def checkout_address(folder: Path) -> str:
    """Return the address of a checkout's commit at its remote `origin`; empty if no remote-tracking branch contains the
    commit."""
    from allotment.adapters.git.commands import GitCommands, GitFailed

    try:
        git = GitCommands(folder)
        url, commit = git.url_of("origin"), git.run_text("rev-parse", "--verify", "HEAD")
        is_pushed = bool(git.run_text("for-each-ref", "--contains", commit, "--count=1", "refs/remotes/origin"))
    except (OperationRefused, GitFailed, OSError):
        return ""
    return f"git+{without_password(url)}@{commit}" if url and is_pushed else ""


def without_password(url: str) -> str:
    """Return a URL in pip's syntax, without its password. Only an ssh:// URL keeps its user.

    The short form of scp, `user@host:path`, becomes an ssh:// URL.
    """
    if short := _SCP_URL.fullmatch(url):
        return f"ssh://{short['user']}@{short['host']}/{short['path']}"
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    user = user.partition(":")[0] if parts.scheme == "ssh" else ""
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}" if user else host))

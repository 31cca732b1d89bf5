"""Connects to the forge of a repository, such as GitHub or GitLab.

The module of each kind of forge implements the Protocol `Forge`, and is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from allotment.declared.forges import FORGES
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:  # an HTTP client takes 0.2 s to import, and some callers only need the names of the kinds
    from allotment.adapters.forge.forge import Forge, Token


def connect(kind: str, url: str, token: Token, api: str | None = None) -> Forge:
    """Return the forge of the repository at `url`. `api` is the URL of the forge's API; None for the default URL.

    Raises OperationRefused if the URL names no repository.
    """
    parts = urlsplit(url)
    path = parts.path.strip("/").removesuffix(".git")
    if not parts.hostname or path.count("/") < 1:
        raise OperationRefused(f"{quote_value(url)} names no repository of a forge: write https://HOST/OWNER/NAME")
    forge: Forge = import_module(f"{__name__}.{FORGES[kind].module}").connect(
        f"{parts.scheme}://{parts.netloc}", path, token, api
    )
    return forge


def head_ref(kind: str, number: int) -> str:
    """Return the ref of a pull request's head."""
    return FORGES[kind].head.format(number=number)

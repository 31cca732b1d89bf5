"""What a source of declarations is: a folder or a commit, asked scope by scope, read as bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from allotment.declared.layout import Scope
from allotment.problems import Problem

MAX_FILES = 150_000


class ScopeFiles(NamedTuple):
    """The files of a scope, sorted, and what may not lie among them, found without opening a file.

    `stamp` is what `is_unchanged` takes later; None where there is no telling. `content_hash` is the content's own key, where
    the source knows it without reading.
    """

    paths: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    stamp: Any = None
    content_hash: str | None = None


class Source(Protocol):
    """Where declarations are read from."""

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the scopes that have a folder, sorted, and what lies beside them."""
        ...

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return a scope's files, with a stamp if wanted."""
        ...

    def is_unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether a scope certainly is as it was when it was stamped."""
        ...

    def read(self, path: str) -> bytes:
        """Return a listed file's bytes; of one that is larger than a declaration may be, a part that still is."""
        ...


def content_key(files: Iterable[tuple[str, str]]) -> str:
    """Return the key of a scope's content from its sorted (path, blob id)."""
    text = "\n".join(f"{path}\t{blob}" for path, blob in files)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def path_problem(path: str, message: str, rule: str) -> Problem:
    """Return a problem of a path itself, which ends with a slash where it is a folder."""
    displayed_path = path.encode("utf-8", "backslashreplace").decode()
    return Problem(displayed_path, 1, 1, "(folder)" if path.endswith("/") else "(file)", message, rule)

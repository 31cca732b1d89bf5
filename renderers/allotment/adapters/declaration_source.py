"""The interface of a source of declarations: a folder or a commit, listed by scope and read as bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from allotment.declared.layout import Scope
from allotment.problems import Problem

MAX_FILES = 150_000


class ScopeFiles(NamedTuple):
    """The files of a scope, sorted, and the problems of paths that need no file to be opened.

    `stamp` is the later argument of `is_unchanged`; None if a change could not be detected. `content_hash` is the key
    of the content, if the source knows it without reading the files.
    """

    paths: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    stamp: Any = None
    content_hash: str | None = None


class Source(Protocol):
    """A source of declarations."""

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the scopes that have a folder, sorted, and the problems of other paths beside them."""
        ...

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return a scope's files, with a stamp on request."""
        ...

    def is_unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether a scope is certainly unchanged since it was stamped."""
        ...

    def read(self, path: str) -> bytes:
        """Return the bytes of a listed file. Of a file beyond the size limit of a declaration, return a part that is
        still too large."""
        ...


def content_key(files: Iterable[tuple[str, str]]) -> str:
    """Return the key of a scope's content from its sorted pairs of path and blob id."""
    text = "\n".join(f"{path}\t{blob}" for path, blob in files)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def path_problem(path: str, message: str, rule: str) -> Problem:
    """Return a problem of a path itself. The path of a folder ends with a slash."""
    displayed_path = path.encode("utf-8", "backslashreplace").decode()
    return Problem(displayed_path, 1, 1, "(folder)" if path.endswith("/") else "(file)", message, rule)

"""The interface of a source of declarations, such as a folder or a commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from allotment.declared.layout import Scope
from allotment.problems import Problem

MAX_FILES = 150_000
MAX_DEPTH = 8  # folders
_DECLARATION_ENDINGS = (".yaml", "/README.md")  # of the files that are declared or allowed beside declarations
RACY_SECONDS = 2  # a file that changed this recently may change again without a new timestamp


class ScopeFiles(NamedTuple):
    """The sorted paths of a scope's files, and the problems that can be found without reading the files.

    `stamp` records the state of the files; the caller can later pass it to `is_unchanged`. It is None if `is_unchanged`
    could overlook a change of the files. It may be None if the caller didn't request a stamp, or if there are problems.
    `content_hash` is the `content_key` of the files; None if the source would have to read the files to compute it.
    """

    paths: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    stamp: Any = None
    content_hash: str | None = None


class Source(Protocol):
    """A source of declarations."""

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the sorted scopes that have a folder, and a problem for each path that belongs to no scope."""
        ...

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return a scope's files. `stamped` requests a stamp (`ScopeFiles`)."""
        ...

    def is_unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether a scope is certainly unchanged since `files` returned this stamp."""
        ...

    def read(self, path: str) -> bytes:
        """Return the bytes of a listed file.

        If the file exceeds the size limit of a declaration, the returned bytes may differ from its content, but they
        exceed the limit too.
        """
        ...


def content_key(files: Iterable[tuple[str, str]]) -> str:
    """Return a hash of a scope's content. `files` are the sorted pairs of path and blob id of the scope's files."""
    text = "\n".join(f"{path}\t{blob}" for path, blob in files)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def can_be_declaration(path: str) -> bool:
    """Return whether a path can be that of a declaration or a README.md. A name that starts with a dot is that of another program."""
    return path.endswith(_DECLARATION_ENDINGS) and not path.rpartition("/")[2].startswith(".")


def path_problem(path: str, message: str, rule: str) -> Problem:
    """Return a problem with a path, not with the content at the path. The path of a folder ends with a slash."""
    displayed_path = path.encode("utf-8", "backslashreplace").decode()
    return Problem(displayed_path, 1, 1, "(folder)" if path.endswith("/") else "(file)", message, rule)

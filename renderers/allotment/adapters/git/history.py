"""Searches commits and files for a text, with Git's own search."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.adapters.git.commands import READ_SETTINGS
from allotment.adapters.git.repository import Repository

MAX_COMMITS = 1000  # results of a search
_MAX_PATHS = 1000  # paths of a search, because the length of a command line is limited


def find_files_with(repository: Repository, commit: str, pattern: str, folders: Iterable[str]) -> list[str]:
    """Return the paths of the files in some folders of a commit that have a line that matches `pattern`.

    `pattern` is a POSIX extended regular expression.
    """
    options = ("-l", "-z", "-E", "--full-name", "-e", pattern)
    ended = repository.git.run("grep", *options, commit, "--", *folders, settings=READ_SETTINGS)
    names = ended.stdout.decode("utf-8", "surrogateescape").split("\0")
    return [name.partition(":")[2] for name in names if name]


def find_first_change(repository: Repository, commit: str, pattern: str, paths: Iterable[str]) -> str | None:
    """Return the oldest ancestor that changed how often some files match `pattern`; None if there is none.

    The search follows only commits that changed `paths`, and leaves out merge commits.
    """
    names = sorted(paths)[:_MAX_PATHS]
    if not names:
        return None
    options = ("--format=%H", "--no-renames", "--pickaxe-regex", f"-S{pattern}", "--topo-order")
    commits = _list_words(repository, *options, f"--max-count={MAX_COMMITS}", commit, "--", *names)
    return commits[-1] if commits else None


def list_commits_with_message(repository: Repository, commit: str, pattern: str) -> list[str]:
    """Return the ancestors with a line in their message that matches `pattern`, the oldest ancestor first.

    `pattern` is a POSIX extended regular expression.
    """
    options = ("--format=%H", "--topo-order", "--extended-regexp", f"--grep={pattern}")
    return _list_words(repository, *options, f"--max-count={MAX_COMMITS}", commit)[::-1]


def _list_words(repository: Repository, *arguments: str) -> list[str]:
    return repository.git.run_text("log", *arguments, settings=READ_SETTINGS).split()

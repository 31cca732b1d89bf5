"""Searches commits and files for a text, and lists the commits that changed files, with Git's own commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from allotment.adapters.git.commands import READ_SETTINGS
from allotment.adapters.git.repository import Repository

MAX_COMMITS = 1000  # results of a search
_TIME = re.compile(r"[0-9]{1,20}")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
MAX_TIME = 253_370_764_800  # the start of the year 9999, because a pushed commit can have any date
# Attributes of the checkout select no program of the person.
_LOG_OPTIONS = ("--no-show-signature", "--no-ext-diff", "--no-textconv")
_FIRST_PARENT_OPTIONS = ("--first-parent", "--diff-merges=first-parent", "--no-renames")
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
    """Return the oldest commit on the line of first parents that changed how often some files match `pattern`, or None.

    A merge counts with its changes against its first parent. A commit of a pull request may be reverted in the same pull
    request, so nobody reviewed it.
    """
    names = sorted(paths)[:_MAX_PATHS]
    if not names:
        return None
    options = (*_FIRST_PARENT_OPTIONS, "--format=%H", "--no-patch", "--pickaxe-regex", f"-S{pattern}", "--topo-order")
    commits = _list_words(repository, *options, f"--max-count={MAX_COMMITS}", commit, "--", *names)
    return commits[-1] if commits else None


def list_commits_with_message(repository: Repository, commit: str, pattern: str) -> Iterator[str]:
    """Yield the merged commits with a line in their message that matches `pattern`, the oldest commit first.

    `was_merged` defines which commits are merged. `pattern` is a POSIX extended regular expression.
    """
    options = ("--format=%H", "--topo-order", "--extended-regexp", f"--grep={pattern}")
    commits = _list_words(repository, *options, f"--max-count={MAX_COMMITS}", commit)[::-1]
    return (each for each in commits if was_merged(repository, each, commit))


def was_merged(repository: Repository, commit: str, tip: str) -> bool:
    """Return whether a commit is on the line of first parents of `tip`, or in a branch that was merged there with its change.

    A commit was not merged if a later commit of its branch reverted its change.
    """
    if is_on_first_parents(repository, commit, tip):
        return True
    options = ("--merges", "--format=%H", f"{commit}..{tip}")
    descendants = set(_list_words(repository, "--ancestry-path", *options))
    line = _list_words(repository, "--first-parent", *options)
    merge = next((each for each in reversed(line) if each in descendants), None)
    if merge is None:
        return False
    plain = ("--no-renames", "--no-ext-diff", "--no-textconv")
    listed = repository.git.run(
        "diff-tree", "-r", "-z", "--no-commit-id", "--name-only", *plain, commit, settings=READ_SETTINGS
    )
    paths = [path for path in listed.stdout.decode("utf-8", "surrogateescape").split("\0") if path]
    compared = repository.git.run(
        "diff", "--quiet", *plain, commit, merge, "--", *paths[:_MAX_PATHS], settings=READ_SETTINGS
    )
    return compared.exit_code == 0


def _list_words(repository: Repository, *arguments: str) -> list[str]:
    return repository.git.run_text("log", *_LOG_OPTIONS, *arguments, settings=READ_SETTINGS).split()


class CommitRecord(NamedTuple):
    """A commit with the files that it changed against its first parent.

    `time` is in seconds since 1970, and 0 if the commit has no valid date. Each file has the status A, M, D or T of Git, and its path.
    """

    commit: str
    time: int
    author: str
    subject: str
    files: tuple[tuple[str, str], ...]


def list_first_parents(
    repository: Repository, commit: str, folders: Iterable[str], most: int, since: str = ""
) -> list[CommitRecord]:
    """Return the newest commits on the line of first parents that changed files in `folders`, the newest first.

    On a branch with merges, each of them is a merge, or a commit that somebody pushed to the branch. `since` is a commit; the
    result leaves out this commit and its ancestors.
    """
    paths = list(folders)
    commits = (commit, f"^{since}") if since else (commit,)
    options = (*_FIRST_PARENT_OPTIONS, "--no-show-signature", "-z")
    limit = f"--max-count={most}"
    about = _run_log(
        repository, *options, "--no-patch", limit, "--format=%H%x00%ct%x00%an%x00%s", *commits, "--", *paths
    )
    changed = _run_log(repository, *options, "--name-status", limit, "--format=%H", *commits, "--", *paths)
    files = _parse_files(changed.split("\0"))
    fields = about.split("\0")
    return [
        CommitRecord(
            fields[at], _parse_time(fields[at + 1]), fields[at + 2], fields[at + 3], tuple(files.get(fields[at], ()))
        )
        for at in range(0, len(fields) - 3, 4)
    ]


def list_first_parent_times(repository: Repository, commit: str) -> dict[str, int]:
    """Return the time of each commit on the line of first parents, in seconds since 1970, the oldest commit first.

    A commit can have a date before that of its parent, or none. Its time is not before that of its parent.
    """
    text = repository.git.run_text("rev-list", "--first-parent", "--timestamp", commit, settings=READ_SETTINGS)
    pairs = [line.split() for line in reversed(text.splitlines())]
    times = accumulate((_parse_time(time) for time, _ in pairs), max)
    return dict(zip((name for _, name in pairs), times, strict=True))


def is_on_first_parents(repository: Repository, commit: str, descendant: str) -> bool:
    """Return whether a commit is on the line of first parents of another commit."""
    if commit == descendant:
        return True
    ended = repository.git.run(
        "rev-list", "--first-parent", "--parents", descendant, f"^{commit}", settings=READ_SETTINGS
    )
    lines = ended.stdout.decode("ascii").splitlines()
    return bool(lines) and lines[-1].split()[1:2] == [commit]


def _parse_time(text: str) -> int:
    return min(int(text), MAX_TIME) if _TIME.fullmatch(text) else 0


def _parse_files(words: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the changed files of each commit. After the name of a commit, a status and a path follow for each file."""
    files: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        text = word.strip("\n")
        if _COMMIT.fullmatch(text):
            current = files.setdefault(text, [])
        elif text:
            current.append((text[0], next(rest, "")))
    return files


def _run_log(repository: Repository, *arguments: str) -> str:
    ended = repository.git.run("log", *_LOG_OPTIONS, *arguments, settings=READ_SETTINGS)
    return ended.stdout.decode("utf-8", "surrogateescape")

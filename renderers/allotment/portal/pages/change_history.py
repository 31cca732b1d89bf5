"""Describes the merges that changed declarations, and the changes of a resource's state."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment.declared.layout import DeclarationPath, Scope, parse_path, scope_of

MAX_STATE_CHANGES = 100  # on the page of a tenant
_ACTIONS = {"A": "added", "M": "changed", "D": "removed", "T": "changed"}
_PULL_REQUEST = re.compile(r"(?:\(|pull request (?:'[^']*' \()?)#([0-9]{1,9})\b")


class FileChange(NamedTuple):
    """The change of a declaration. `action` is added, changed or removed."""

    kind: str
    name: str
    action: str

    @property
    def text(self) -> str:
        """The change in words, such as `GPUInstance webui added`."""
        return f"{self.kind} {self.name} {self.action}"


class Merge(NamedTuple):
    """A merge, or a commit that somebody pushed to the branch. `time` is in seconds since 1970.

    `changes` has the changed declarations of each scope. `pull_request` is the number in the subject; 0 if it has none.
    """

    commit: str
    time: int
    author: str
    subject: str
    pull_request: int
    changes: Mapping[Scope, tuple[FileChange, ...]]


class StateChange(NamedTuple):
    """A change of the state of a resource in a cluster. `time` is RFC 3339."""

    cluster: str
    kind: str
    name: str
    source: str
    target: str
    reason: str
    time: str


class StateHistory(NamedTuple):
    """The newest changes of state of a tenant's resources, sorted by time.

    `starts` has the time since when it is complete for a cluster, in seconds since 1970, if changes before this time are missing.
    """

    changes: tuple[StateChange, ...]
    starts: Mapping[str, int]


def describe_merge(commit: str, time: int, author: str, subject: str, files: Iterable[tuple[str, str]]) -> Merge:
    """Return a merge. Each file has its status A, M, D or T of Git, and its path."""
    changes: dict[Scope, list[FileChange]] = defaultdict(list)
    for status, path in files:
        parsed = parse_path(path)
        name, kind = (parsed.name, parsed.kind.name) if isinstance(parsed, DeclarationPath) else (path, "File")
        changes[scope_of(path)].append(FileChange(kind, name, _ACTIONS.get(status, "changed")))
    match = _PULL_REQUEST.search(subject)
    number = int(match[1]) if match else 0
    return Merge(commit, time, author, subject, number, {scope: tuple(changes[scope]) for scope in changes})


def group_merges(merges: Iterable[Merge], most: int) -> dict[str, Sequence[Merge]]:
    """Return the newest merges of each tenant, at most `most`. A merge has only the changes of the tenant."""
    groups: dict[str, list[Merge]] = defaultdict(list)
    for merge in merges:
        for scope, changes in merge.changes.items():
            if scope.kind == "tenant" and len(groups[scope.name]) < most:
                groups[scope.name].append(merge._replace(subject="", author="", changes={scope: changes}))
    return dict(groups)

"""The changed files of a command that edits declarations, and their description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ChangeSet(NamedTuple):
    """A change of declarations.

    `title` is the subject of the commit and the title of the pull request, in the imperative mood. `files` maps each
    changed path to its new content, or to None if the file is removed. `resources` names the changed resources, such as
    `GPUInstance solo-ada/webui`, sorted. `notes` are messages for the user that the plan of the change does not
    contain. `reason` is the reason of the author in one line, for the commit and the pull request.
    """

    title: str
    files: Mapping[str, bytes | None]
    resources: tuple[str, ...]
    notes: tuple[str, ...] = ()
    reason: str = ""


def merge_change_sets(change_sets: list[ChangeSet], title: str) -> ChangeSet:
    """Return one change with the files of all changes. No two of them may change the same file.

    `title` is the title of several changes; a single change keeps its own.
    """
    files: dict[str, bytes | None] = {}
    for change_set in change_sets:
        assert not files.keys() & change_set.files.keys(), change_set.title
        files |= change_set.files
    resources = sorted({resource for change_set in change_sets for resource in change_set.resources})
    notes = tuple(dict.fromkeys(note for change_set in change_sets for note in change_set.notes))
    return ChangeSet(change_sets[0].title if len(change_sets) == 1 else title, files, tuple(resources), notes)

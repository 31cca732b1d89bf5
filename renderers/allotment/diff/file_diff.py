"""Collect the files that a change modifies: their number, the content of some files, and a checksum of all files."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from allotment.declared.inventory import compute_blob_id
from allotment.manifests import paths
from allotment.output_part import Part

FileStep = tuple[str, str | None, str | None]  # path, blob ID before, blob ID after


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A changed file, with its content before and after the change; None if the file does not exist."""

    path: str
    before: bytes | None
    after: bytes | None


class FilesOutput(Part, frozen=True):
    """The numbers of changed files.

    `declared` counts declarations, and `outside` counts files outside the declarations. The other fields count rendered
    files. `markers` counts the folder markers among the rendered files: files that only keep a folder in Git.
    """

    declared: int
    outside: int
    added: int
    changed: int
    removed: int
    markers: int

    @property
    def total(self) -> int:
        """Return the number of all changed rendered files."""
        return self.added + self.changed + self.removed

    @property
    def object_files(self) -> int:
        """Return the number of changed rendered files that are not folder markers."""
        return self.total - self.markers


NO_FILES = FilesOutput(0, 0, 0, 0, 0, 0)


def plan_checksum(steps: Iterable[FileStep]) -> str:
    """Return the checksum of the paths of all changed files, declared or rendered, with their old and new blob IDs."""
    return f"sha256:{hashlib.sha256(json.dumps(sorted(steps)).encode()).hexdigest()}"


@dataclass(slots=True)
class RenderedFileDiff:
    """Collects changed rendered files: a FileStep for each, and the content of the first `max_diffs` of them.

    Folder markers are collected separately, without their content.
    """

    max_diffs: int
    steps: list[FileStep] = field(default_factory=list)
    markers: list[FileStep] = field(default_factory=list)
    diffs: list[FileDiff] = field(default_factory=list)

    def add_changes(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
        """Add the files that differ between `before` and `after`. Files with the programs of Jobs come last.

        The content of a folder marker is not collected, because it follows from the other files in the folder.
        """
        for path in sorted(before.keys() | after.keys(), key=lambda path: (paths.is_programs(path), path)):
            old, new = before.get(path), after.get(path)
            if old == new:
                continue
            old_blob, new_blob = (None if data is None else compute_blob_id(data) for data in (old, new))
            if paths.is_marker(path):
                self.markers.append((path, old_blob, new_blob))
            else:
                self.steps.append((path, old_blob, new_blob))
                if len(self.diffs) < self.max_diffs:
                    self.diffs.append(FileDiff(path, old, new))

    def merge(self, more: RenderedFileDiff) -> None:
        """Add all files of another collection."""
        self.steps += more.steps
        self.markers += more.markers
        self.diffs += more.diffs[: max(0, self.max_diffs - len(self.diffs))]

    def count_files(self, declared: int, outside: int) -> FilesOutput:
        """Return the numbers of changed files. `declared` and `outside` are the numbers of files that are not rendered."""
        kinds = Counter(
            "added" if before is None else "removed" if after is None else "changed"
            for _, before, after in (*self.steps, *self.markers)
        )
        return FilesOutput(declared, outside, kinds["added"], kinds["changed"], kinds["removed"], len(self.markers))

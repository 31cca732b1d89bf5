"""The files that a change writes otherwise: counted, some with their texts, and the checksum of all of them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

FileStep = tuple[str, str | None, str | None]  # a path, and its blob before and after


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A file that changes, with its text before and after (None where there is none)."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class FileCounts:
    """How many rendered files are added, changed and removed; `markers` counts those of them that only say that something
    beside them changed."""

    added: int
    changed: int
    removed: int
    markers: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.added + self.changed + self.removed

    @property
    def object_files(self) -> int:
        """Those that hold objects, not only a folder's marker."""
        return self.total - self.markers


NO_FILES = FileCounts(0, 0, 0, 0)


def plan_checksum(steps: Iterable[FileStep]) -> str:
    """Return the checksum of what a plan changes: every file, declared or rendered, with its blob before and after."""
    return f"sha256:{hashlib.sha256(json.dumps(sorted(steps)).encode()).hexdigest()}"


@dataclass(slots=True)
class RenderedFileDiff:
    """Rendered files that change, gathered: each one's step, and the texts of the first `max_diffs`; of the folders' markers
    their steps alone."""

    max_diffs: int
    steps: list[FileStep] = field(default_factory=list)
    markers: list[FileStep] = field(default_factory=list)
    diffs: list[FileDiff] = field(default_factory=list)

    def add_file(
        self, path: str, before: bytes | None, after: bytes | None, blobs: tuple[str | None, str | None]
    ) -> None:
        """Note a file that changes."""
        self.steps.append((path, *blobs))
        if len(self.diffs) < self.max_diffs:
            self.diffs.append(FileDiff(path, before, after))

    def merge(self, more: RenderedFileDiff) -> None:
        """Note all that another one has."""
        self.steps += more.steps
        self.markers += more.markers
        self.diffs += more.diffs[: max(0, self.max_diffs - len(self.diffs))]

    def count_files(self) -> FileCounts:
        """Return how many files change, and how."""
        kinds = Counter(
            "added" if before is None else "removed" if after is None else "changed"
            for _, before, after in (*self.steps, *self.markers)
        )
        return FileCounts(kinds["added"], kinds["changed"], kinds["removed"], len(self.markers))

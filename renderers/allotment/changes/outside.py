"""Files that a change writes outside the declarations. Nothing is rendered from them, but some decide more than any
declaration: which program reads those, what CI runs, whom a forge asks to approve.

Which these are is told by their paths alone: what they say is read by other programs than this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from allotment.declared.forges import FORGES

Written = Literal["added", "changed", "removed"]
Decides = Literal["program", "ci", "approvals", "hooks", "machine", "setup", ""]
WORDS: dict[Decides, str] = {
    "program": "which program runs",
    "ci": "what runs in CI",
    "approvals": "whom the forge asks to approve, or what it shows them",
    "hooks": "what runs when somebody commits",
    "machine": "what runs on a person's machine",
    "setup": "what Argo CD and `allot run` are set up with",
}
MOST_OUTSIDE = 40  # files that a plan names of each thing that they decide, and of the others; all are counted

_FORGES = frozenset(f".{name.lower()}" for name in FORGES)
_CI = frozenset((".woodpecker", ".circleci", ".buildkite", ".tekton"))
_CI_FILES = (
    ".gitlab-ci.", ".woodpecker.", ".drone.", "jenkinsfile", "azure-pipelines.", "bitbucket-pipelines.", ".travis.", ".cirrus.",
    "renovate.json", ".renovaterc", ".gitmodules",
)  # fmt: skip
# Who approves, and which files a forge folds away before them.
_APPROVALS = frozenset(("codeowners", ".gitattributes"))
_HOOKS = frozenset((".husky", ".githooks"))
_HOOKS_FILES = (".pre-commit-config.", ".pre-commit-hooks.", "lefthook.", ".lefthook.")
# An editor's settings name programs that it starts, as its tasks do.
_MACHINE = frozenset((".vscode", ".idea", ".devcontainer"))
_MACHINE_FILES = (".devcontainer.", ".envrc", ".mise.", "mise.", ".tool-versions")
_FOR_PEOPLE = (".md", ".markdown")
_FOR_PROGRAMS = "copilot-instructions"  # written as for people, and followed by what reviews


@dataclass(frozen=True, slots=True)
class OutsideFile:
    """A file outside the declarations that is written otherwise, and what it decides: a key of WORDS, or nothing."""

    path: str
    written: Written
    decides: Decides = ""


@dataclass(frozen=True, slots=True)
class Outside:
    """The files outside the declarations that a change writes: the first of each kind, what decides most first, and how many
    there are of each."""

    files: tuple[OutsideFile, ...] = ()
    counts: tuple[tuple[Decides, int], ...] = ()

    @property
    def total(self) -> int:
        """All of them."""
        return sum(count for _, count in self.counts)

    @property
    def decisive(self) -> Iterator[tuple[Decides, list[OutsideFile], int]]:
        """What they decide, each with the first of the files that do, and how many more do."""
        for decides, count in self.counts:
            if decides:
                named = [file for file in self.files if file.decides == decides]
                yield decides, named, count - len(named)

    @property
    def others(self) -> tuple[list[OutsideFile], int]:
        """The first of the files that decide nothing, and how many more there are."""
        named = [file for file in self.files if not file.decides]
        return named, dict(self.counts).get("", 0) - len(named)


NOTHING_OUTSIDE = Outside()


def outside_of(written_files: Iterable[tuple[str, Written]]) -> Outside:
    """Return what some files outside the declarations are, by their paths from the declarations' folder."""
    groups: dict[Decides, list[OutsideFile]] = {decision: [] for decision in (*WORDS, "")}
    for path, written in sorted(written_files):
        decides = decided_by(path)
        groups[decides].append(OutsideFile(path, written, decides))
    named = [file for files in groups.values() for file in files[:MOST_OUTSIDE]]
    return Outside(tuple(named), tuple((decision, len(files)) for decision, files in groups.items() if files))


def decided_by(path: str) -> Decides:
    """Return what a file decides. How a name is written doesn't count, as on a file system that tells no cases apart."""
    parts = [part for part in path.casefold().split("/") if part != ".."]
    top, name = parts[0], parts[-1]
    if top == ".allot":
        return "program"
    if name in _APPROVALS:
        return "approvals"
    if top in _CI or name.startswith(_CI_FILES):
        return "ci"
    if top in _FORGES and (not name.endswith(_FOR_PEOPLE) or name.startswith(_FOR_PROGRAMS)):
        return "ci"
    if top in _HOOKS or name.startswith(_HOOKS_FILES):
        return "hooks"
    if not _MACHINE.isdisjoint(parts) or name.startswith(_MACHINE_FILES):
        return "machine"
    if top == "argo" and not name.endswith(_FOR_PEOPLE):
        return "setup"
    return ""

"""Files that a change writes outside the declarations. Nothing is rendered from them, but some decide more than any
declaration: which program reads those, what CI runs, whom a forge asks to approve.

Which these are is told by their paths alone: what they say is read by other programs than this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from allotment.declared.forges import FORGES
from allotment.output_part import Part

FileAction = Literal["added", "changed", "removed"]
DecisionTopic = Literal["program", "ci", "approvals", "hooks", "machine", "setup", ""]
TOPIC_TEXT: dict[DecisionTopic, str] = {
    "program": "which program runs",
    "ci": "what runs in CI",
    "approvals": "whom the forge asks to approve, or what it shows them",
    "hooks": "what runs when somebody commits",
    "machine": "what runs on a person's machine",
    "setup": "what Argo CD and `allot run` are set up with",
}
MAX_SHOWN_PER_TOPIC = 40  # files that a plan names of each thing that they decide, and of the others; all are counted

_FORGE_FOLDERS = frozenset(f".{name.lower()}" for name in FORGES)
_CI_FOLDERS = frozenset((".woodpecker", ".circleci", ".buildkite", ".tekton"))
_CI_FILES = (
    ".gitlab-ci.", ".woodpecker.", ".drone.", "jenkinsfile", "azure-pipelines.", "bitbucket-pipelines.", ".travis.", ".cirrus.",
    "renovate.json", ".renovaterc", ".gitmodules",
)  # fmt: skip
# Who approves, and which files a forge folds away before them.
_APPROVAL_FILES = frozenset(("codeowners", ".gitattributes"))
_HOOK_FOLDERS = frozenset((".husky", ".githooks"))
_HOOK_FILES = (".pre-commit-config.", ".pre-commit-hooks.", "lefthook.", ".lefthook.")
# An editor's settings name programs that it starts, as its tasks do.
_MACHINE_FOLDERS = frozenset((".vscode", ".idea", ".devcontainer"))
_MACHINE_FILES = (".devcontainer.", ".envrc", ".mise.", "mise.", ".tool-versions")
_DOCUMENT_SUFFIXES = (".md", ".markdown")
_AGENT_INSTRUCTIONS = "copilot-instructions"  # written as for people, and followed by what reviews


class OtherFile(Part, frozen=True):
    """A file that changes outside the declarations, and what it decides: which program runs, what runs in CI, whom the forge
    asks to approve or shows them, what runs when somebody commits (hooks) or on a person's machine, what Argo CD and
    `allot run` are set up with; or nothing."""

    path: str
    action: FileAction = msgspec.field(name="written")
    topic: DecisionTopic = msgspec.field(name="decides")


@dataclass(frozen=True, slots=True)
class OtherFiles:
    """The files outside the declarations that a change writes: the first of each kind, what decides most first, and how many
    there are of each."""

    files: tuple[OtherFile, ...] = ()
    counts: tuple[tuple[DecisionTopic, int], ...] = ()

    @property
    def total(self) -> int:
        """All of them."""
        return sum(count for _, count in self.counts)

    @property
    def decisive_topics(self) -> Iterator[tuple[DecisionTopic, list[OtherFile], int]]:
        """What they decide, each with the first of the files that do, and how many more do."""
        for decides, count in self.counts:
            if decides:
                named = [file for file in self.files if file.topic == decides]
                yield decides, named, count - len(named)

    @property
    def undecisive_files(self) -> tuple[list[OtherFile], int]:
        """The first of the files that decide nothing, and how many more there are."""
        named = [file for file in self.files if not file.topic]
        return named, dict(self.counts).get("", 0) - len(named)


NO_OTHER_FILES = OtherFiles()


def group_other_files(written_files: Iterable[tuple[str, FileAction]]) -> OtherFiles:
    """Return what some files outside the declarations are, by their paths from the declarations' folder."""
    groups: dict[DecisionTopic, list[OtherFile]] = {decision: [] for decision in (*TOPIC_TEXT, "")}
    for path, written in sorted(written_files):
        decides = decision_topic(path)
        groups[decides].append(OtherFile(path, written, decides))
    named = [file for files in groups.values() for file in files[:MAX_SHOWN_PER_TOPIC]]
    return OtherFiles(tuple(named), tuple((decision, len(files)) for decision, files in groups.items() if files))


def decision_topic(path: str) -> DecisionTopic:
    """Return what a file decides. How a name is written doesn't count, as on a file system that tells no cases apart."""
    parts = [part for part in path.casefold().split("/") if part != ".."]
    top, name = parts[0], parts[-1]
    if top == ".allot":
        return "program"
    if name in _APPROVAL_FILES:
        return "approvals"
    if top in _CI_FOLDERS or name.startswith(_CI_FILES):
        return "ci"
    if top in _FORGE_FOLDERS and (not name.endswith(_DOCUMENT_SUFFIXES) or name.startswith(_AGENT_INSTRUCTIONS)):
        return "ci"
    if top in _HOOK_FOLDERS or name.startswith(_HOOK_FILES):
        return "hooks"
    if not _MACHINE_FOLDERS.isdisjoint(parts) or name.startswith(_MACHINE_FILES):
        return "machine"
    if top == "argo" and not name.endswith(_DOCUMENT_SUFFIXES):
        return "setup"
    return ""

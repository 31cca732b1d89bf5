"""Classify the files that a change adds, changes or removes outside the declarations.

No manifest depends on these files. But some of them are more dangerous than any declaration, because they affect the
program that reads the declarations, the jobs in CI, or the approvals in the forge. The classification uses only the
paths, because the content is for programs other than Allotment.
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
    "approvals": "how the forge requests or displays approvals",
    "hooks": "what runs at a commit",
    "machine": "what runs on a person's machine",
    "setup": "the setup of Argo CD and `allot run`",
}
MAX_SHOWN_PER_TOPIC = 40  # a plan names at most this many files per topic

_FORGE_FOLDERS = frozenset(f".{name.lower()}" for name in FORGES)
_CI_FOLDERS = frozenset((".woodpecker", ".circleci", ".buildkite", ".tekton"))
_CI_FILES = (
    ".gitlab-ci.", ".woodpecker.", ".drone.", "jenkinsfile", "azure-pipelines.", "bitbucket-pipelines.", ".travis.", ".cirrus.",
    "renovate.json", ".renovaterc", ".gitmodules",
)  # fmt: skip
# CODEOWNERS names approvers, and .gitattributes decides which files a forge collapses in a review.
_APPROVAL_FILES = frozenset(("codeowners", ".gitattributes"))
_HOOK_FOLDERS = frozenset((".husky", ".githooks"))
_HOOK_FILES = (".pre-commit-config.", ".pre-commit-hooks.", "lefthook.", ".lefthook.")
# The settings and tasks of an editor name programs that the editor starts.
_MACHINE_FOLDERS = frozenset((".vscode", ".idea", ".devcontainer"))
_MACHINE_FILES = (".devcontainer.", ".envrc", ".mise.", "mise.", ".tool-versions")
_DOCUMENT_SUFFIXES = (".md", ".markdown")
_AGENT_INSTRUCTIONS = "copilot-instructions"  # AI agents that review changes follow the text of this file


class OtherFile(Part, frozen=True):
    """A file that a change adds, changes or removes outside the declarations.

    `decides` is the topic that the file affects: the pinned version of Allotment, CI, approvals in the forge, commit
    hooks, programs on a person's machine, or the setup of Argo CD and `allot run`. `decides` is empty for any other
    file.
    """

    path: str
    action: FileAction = msgspec.field(name="written")
    topic: DecisionTopic = msgspec.field(name="decides")


@dataclass(frozen=True, slots=True)
class OtherFiles:
    """The files that a change writes outside the declarations.

    `files` has the first files of each topic, the most important topic first. `counts` has the number of all files by
    topic.
    """

    files: tuple[OtherFile, ...] = ()
    counts: tuple[tuple[DecisionTopic, int], ...] = ()

    @property
    def total(self) -> int:
        """Return the number of files."""
        return sum(count for _, count in self.counts)

    @property
    def decisive_topics(self) -> Iterator[tuple[DecisionTopic, list[OtherFile], int]]:
        """Yield each topic, its files in `files`, and the number of its files that `files` omits."""
        for decides, count in self.counts:
            if decides:
                named = [file for file in self.files if file.topic == decides]
                yield decides, named, count - len(named)

    @property
    def undecisive_files(self) -> tuple[list[OtherFile], int]:
        """Return the first files without a topic, and the number of further files without a topic."""
        named = [file for file in self.files if not file.topic]
        return named, dict(self.counts).get("", 0) - len(named)


NO_OTHER_FILES = OtherFiles()


def group_other_files(written_files: Iterable[tuple[str, FileAction]]) -> OtherFiles:
    """Return files outside the declarations, grouped by topic. Paths are relative to the folder of the declarations."""
    groups: dict[DecisionTopic, list[OtherFile]] = {decision: [] for decision in (*TOPIC_TEXT, "")}
    for path, written in sorted(written_files):
        decides = decision_topic(path)
        groups[decides].append(OtherFile(path, written, decides))
    named = [file for files in groups.values() for file in files[:MAX_SHOWN_PER_TOPIC]]
    return OtherFiles(tuple(named), tuple((decision, len(files)) for decision, files in groups.items() if files))


def decision_topic(path: str) -> DecisionTopic:
    """Return the topic of a file. Case is ignored, as on a case-insensitive file system."""
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

"""Compare the files that two versions of `allot init` generate."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from allotment.declared.forges import FORGES
from allotment.problems import pluralize
from allotment.starter.program import FOLDER

# People edit these files after `allot init`, so an upgrade does not change them.
_USER_FILES = ("README.md", ".gitignore")
# The diff of these files shows only the number of changed lines.
_LONG_FILES = ("schemas/", f"{FOLDER}/requirements.lock")


def generated_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return, from the files of a new repository, the generated files that nobody edits by hand."""
    return {path: data for path, data in files.items() if path not in _USER_FILES and is_generated(path)}


def is_generated(path: str) -> bool:
    """Return True if `allot init` generates the file for any forge, and if nobody edits the file by hand."""
    own = (*(forge.workflow for forge in FORGES.values()), ".pre-commit-config.yaml", ".vscode/settings.json")
    return path in own or path.startswith((f"{FOLDER}/", "schemas/"))


def diff_files(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> dict[str, str]:
    """Return the diff of each changed file, as `diff -u` prints it; for long files only the number of changed lines."""
    return {
        path: _diff_file(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    }


def _diff_file(path: str, old: bytes | None, new: bytes | None) -> str:
    before, after = (_text_lines(data) for data in (old, new))
    names = (f"a/{path}" if old is not None else "/dev/null", f"b/{path}" if new is not None else "/dev/null")
    lines = list(difflib.unified_diff(before, after, *names, lineterm=""))
    if not path.startswith(_LONG_FILES):
        return "\n".join(lines)
    more, fewer = (sum(line.startswith(sign) for line in lines[2:]) for sign in "+-")
    change = "added" if old is None else "removed" if new is None else "changed"
    return f"{path}: {change}, {pluralize(more, 'line')} more, {fewer} fewer"


def _text_lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()

"""The answers to the questions of commands that wrote files, in Git's folder of the work tree.

If a person repeats such a command with --commit, --push or --pr, the command uses the answers of the first time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allotment.adapters.folder_source import write_file
from allotment.adapters.git.repository import Repository

_RECORD = "allotment-answers.json"
_MAX_ANSWERS = 20


def read_answers(root: Path, path: str) -> dict[str, Any]:
    """Return the options of the command that created a file in the folder; empty if the file is absent or of another origin."""
    if not (root / path).exists():
        return {}
    answers = _read_record(Repository(root)).get(path)
    return answers if isinstance(answers, dict) else {}


def write_answers(root: Path, path: str, answers: Mapping[str, Any]) -> None:
    """Record the options of a command that creates a file. Only the newest records stay."""
    repository = Repository(root)
    record = _read_record(repository)
    record.pop(path, None)
    newest = dict([*record.items(), (path, dict(answers))][-_MAX_ANSWERS:])
    write_file(repository.git.work_tree_data / _RECORD, json.dumps(newest).encode())


def _read_record(repository: Repository) -> dict[str, Any]:
    try:
        value = json.loads((repository.git.work_tree_data / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

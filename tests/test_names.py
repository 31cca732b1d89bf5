"""Identifiers name their content: `one`, `found`, `several` and `there` are not names, nor is a bare participle or adverb."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conftest import PROJECT

VAGUE = frozenset({"one", "found", "several", "there"})
# The program has none of these either. `again` is missing: a log event has a key of that name.
PARTICIPLES = frozenset(
    "told made kept settled taken placed known granted said given shown seen wanted held asked beside apart things thing".split()
)
EXEMPT = "renderers/allotment/programs/"  # the hash of these files is part of a ConfigMap's name
# The most uses that a file may have. Lower a number when uses go away; never raise one or add a file.
REMAINING = {
    "tests/adapters/test_file_cache.py": 3,
    "tests/adapters/test_installed.py": 2,
    "tests/cli/test_contract.py": 1,
    "tests/cli/test_declared_to_running.py": 11,
    "tests/cli/test_doctor.py": 32,
    "tests/cli/test_retained_status.py": 13,
    "tests/controlplane/bed.py": 1,
    "tests/controlplane/fixtures.py": 1,
    "tests/controlplane/world.py": 1,
    "tests/declared/test_edit_version.py": 5,
    "tests/diagnosis/healthy.py": 2,
    "tests/diagnosis/test_cluster.py": 17,
    "tests/diagnosis/test_nodes.py": 1,
    "tests/diff/test_declaration_diff.py": 2,
    "tests/diff/test_field_diff.py": 2,
    "tests/e2e/cloud.py": 2,
    "tests/e2e/node/cloud/test_reasons.py": 6,
    "tests/e2e/node/test_world.py": 1,
    "tests/e2e/oracle.py": 2,
    "tests/e2e/test_faults.py": 6,
    "tests/e2e/test_health.py": 4,
    "tests/e2e/test_isolation.py": 2,
    "tests/e2e/test_report.py": 2,
    "tests/e2e/test_rollout.py": 2,
    "tests/e2e/test_sharing.py": 4,
    "tests/e2e/test_storage.py": 2,
    "tests/e2e/test_watching.py": 2,
    "tests/observed/test_rollout.py": 2,
    "tests/observed/test_wait_goals.py": 4,
    "tests/rules/test_availability.py": 11,
    "tests/rules/test_sources.py": 4,
    "tests/services/publish/test_publisher.py": 5,
    "tests/services/publish/test_release.py": 12,
    "tests/services/reporter/test_removed.py": 3,
}


def names(tree: ast.AST) -> Iterator[str]:
    """Yield each identifier that a tree binds or uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def count_names(path: Path, unwanted_names: frozenset[str]) -> int:
    """Return how often a file has one of some identifiers."""
    counts = Counter(names(ast.parse(path.read_text(encoding="utf-8"))))
    return sum(counts[name] for name in unwanted_names)


def count_in_files(folders: Iterable[str], unwanted_names: frozenset[str]) -> dict[str, int]:
    """Return by file how often it has one of some identifiers, without the files that have none."""
    paths = [path for folder in folders for path in (PROJECT / folder).rglob("*.py")]
    counts = {path.relative_to(PROJECT).as_posix(): count_names(path, unwanted_names) for path in paths}
    assert len(paths) > 300
    return {path: count for path, count in counts.items() if count and not path.startswith(EXEMPT)}


def test_identifiers_are_not_vague() -> None:
    assert count_in_files(("renderers", "tests"), VAGUE) == REMAINING


def test_program_has_no_participles_as_names() -> None:
    assert count_in_files(("renderers",), PARTICIPLES) == {}

"""`allot init --upgrade`: the generated files become those of this version, and nothing else is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot
from tests.support.new_repository import COMMIT, IMAGE, files, init
from tests.support.published import git

NEWER = f"allotment @ git+https://git.acme.dev/allotment@{40 * 'b'}"
PIN = f"+allotment @ git+https://git.acme.dev/allotment@{40 * 'b'}"


@pytest.fixture
def cloud(allot: Allot, tmp_path: Path) -> Path:
    """Return a new repository with one commit, and a schema, a workflow and a README that are not those of this version."""
    folder = tmp_path / "gpus"
    init(allot, folder)
    (folder / ".github/workflows/allot.yaml").write_text("on: push\n")
    (folder / "schemas/Gone.schema.json").write_text("{}\n")
    (folder / "schemas/Tenant.schema.json").write_text("{}\n")
    (folder / "README.md").write_text("Ours.\n")
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "Begin")


def upgrade(allot: Allot, folder: Path, *more: str, program: str = NEWER) -> Any:
    return allot("init", "--upgrade", folder, "--program", program, *more)


def test_init_upgrade_updates_generated_files_and_shows_a_diff(allot: Allot, cloud: Path, tmp_path: Path) -> None:
    before = files(cloud)
    result = upgrade(allot, cloud)
    assert (result.code, result.err) == (0, "")
    assert PIN in result.out.splitlines()
    assert "-on: push" in result.out.splitlines()
    assert "schemas/Gone.schema.json: removed, 0 lines more, 1 fewer" in result.out.splitlines()
    assert result.out.endswith(f"{cloud}: 4 files changed; check `git diff`, and open a pull request\n")
    init(allot, tmp_path / "new", program=NEWER)
    after, new = files(cloud), files(tmp_path / "new")
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed == {
        ".allot/program.lock",
        ".github/workflows/allot.yaml",
        "schemas/Gone.schema.json",
        "schemas/Tenant.schema.json",
    }
    assert {path: after.get(path) for path in changed} == {path: new.get(path) for path in changed}
    commit(cloud)
    assert upgrade(allot, cloud).out == f"{cloud}: the generated files are up to date\n"


def test_a_dry_run_writes_nothing(allot: Allot, cloud: Path) -> None:
    before = files(cloud)
    result = upgrade(allot, cloud, "--dry-run")
    assert (result.code, result.out.splitlines()[-1]) == (0, f"{cloud}: 4 files would change; run it without --dry-run")
    output = json.loads(upgrade(allot, cloud, "--dry-run", "-o", "json").out)
    assert PIN in output["changes"][".allot/program.lock"].splitlines()
    assert files(cloud) == before


def test_init_upgrade_refuses_to_overwrite_uncommitted_changes(allot: Allot, cloud: Path) -> None:
    (cloud / ".github/workflows/allot.yaml").write_text("on: [push]\n")
    before = files(cloud)
    result = upgrade(allot, cloud)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "allot: .github/workflows/allot.yaml has changes that are not committed: commit them first, or show the difference with --dry-run\n"
    )
    assert files(cloud) == before


def test_init_upgrade_overwrites_neither_ignored_nor_foreign_files(allot: Allot, cloud: Path) -> None:
    (cloud / ".gitignore").write_text(".vscode/\n.allot/venv/\n")
    git(cloud, "rm", "-q", "--cached", ".vscode/settings.json")
    for path in (".allot/venv/x", "schemas/own/Ours.schema.json"):
        (cloud / path).parent.mkdir()
        (cloud / path).write_text("ours\n")
    commit(cloud)
    (cloud / ".vscode/settings.json").write_text("{}\n")
    before = files(cloud)
    result = upgrade(allot, cloud)
    assert (result.code, ".vscode/settings.json has changes that are not committed" in result.err) == (2, True)
    assert files(cloud) == before
    (cloud / ".vscode/settings.json").unlink()
    assert upgrade(allot, cloud).code == 0
    assert {path: files(cloud)[path] for path in (".allot/venv/x", "schemas/own/Ours.schema.json")} == {
        ".allot/venv/x": "ours\n",
        "schemas/own/Ours.schema.json": "ours\n",
    }


@pytest.mark.parametrize("place", ["linked folder", "linked file", "folder", "file"])
def test_nothing_is_written_where_something_else_is_in_the_place(
    place: str, allot: Allot, cloud: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    if place == "linked folder":
        shutil.rmtree(cloud / "schemas")
        (cloud / "schemas").symlink_to(outside)
    elif place == "linked file":
        (cloud / ".pre-commit-config.yaml").unlink()
        (cloud / ".pre-commit-config.yaml").symlink_to(outside / "x")
    elif place == "folder":
        (cloud / ".pre-commit-config.yaml").unlink()
        (cloud / ".pre-commit-config.yaml").mkdir()
    else:
        shutil.rmtree(cloud / ".allot")
        (cloud / ".allot").write_text("")
    commit(cloud)
    before = files(cloud)
    result = upgrade(allot, cloud)
    assert (result.code, ": remove it first" in result.err) == (2, True)
    assert files(cloud) == before
    assert list(outside.iterdir()) == []


def test_an_image_needs_no_pins(allot: Allot, cloud: Path) -> None:
    assert upgrade(allot, cloud, program=IMAGE).code == 0
    assert not list((cloud / ".allot").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--program", COMMIT, "--cluster", "eu-1"), "--cluster: only for a new repository"),
        (("--program", COMMIT, "--sample"), "--sample: only for a new repository"),
        ((), "--program: '' names nothing that stays the same"),
    ],
)
def test_init_upgrade_refuses_options_of_a_new_repository(
    arguments: tuple[str, ...], words: str, allot: Allot, cloud: Path
) -> None:
    result = allot("init", "--upgrade", cloud, *arguments)
    assert result.code == 2
    assert words in result.err


def test_a_folder_without_declarations_is_refused(allot: Allot, tmp_path: Path) -> None:
    result = upgrade(allot, tmp_path)
    assert result.code == 2
    assert "has no platform/platform.yaml: name the folder of a repository of declarations" in result.err
    assert allot("init", tmp_path / "new", "--dry-run").code == 2

"""A stamp of a folder covers names, inodes, modes, sizes and times, and a recent change has no stamp."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.adapters.git.conftest import git
from tests.support.folder_commit import commit

from allotment.adapters import folder_source
from allotment.adapters.folder_source import FolderSource, find_root, write_file
from allotment.declared.layout import PLATFORM, Scope
from allotment.problems import OperationRefused

TENANT = Scope("tenant", "solo-ada")
PERSON = ("-c", "user.name=ada", "-c", "user.email=ada@northlight.example")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a tenant with two files."""
    tenant = tmp_path / "tenants" / "solo-ada"
    (tenant / "instances").mkdir(parents=True)
    (tenant / "tenant.yaml").write_text("kind: Tenant\n")
    (tenant / "instances" / "webui.yaml").write_text("kind: GPUInstance\n")
    return tenant


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every change be an hour ago."""
    now = time.time_ns() + 3600 * 10**9
    monkeypatch.setattr(folder_source.time, "time_ns", lambda: now)


def rewrite_with_old_times(folder: Path) -> None:
    file = folder / "instances" / "webui.yaml"
    status = file.stat()
    file.write_text("kind: GPUinstance\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_folder_by_link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


CHANGES: dict[str, Callable[[Path], object]] = {
    "another content": rewrite_with_old_times,
    "a new file": lambda folder: (folder / "instances" / "second.yaml").touch(),
    "a new folder": lambda folder: (folder / "storages").mkdir(),
    "a removed file": lambda folder: (folder / "tenant.yaml").unlink(),
    "another mode": lambda folder: (folder / "tenant.yaml").chmod(0o600),
    "another name": lambda folder: (folder / "tenant.yaml").rename(folder / "members.yaml"),
    "a link to the folder": replace_folder_by_link,
}


@pytest.mark.usefixtures("later")
def test_an_unchanged_folder_has_a_valid_stamp(tmp_path: Path, folder: Path) -> None:
    stamp = FolderSource(tmp_path).files(TENANT, stamped=True).stamp
    assert FolderSource(tmp_path).is_unchanged(TENANT, stamp)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_invalidates_the_stamp(tmp_path: Path, folder: Path, change: Callable[[Path], object]) -> None:
    stamp = FolderSource(tmp_path).files(TENANT, stamped=True).stamp
    change(folder)
    assert not FolderSource(tmp_path).is_unchanged(TENANT, stamp)


def test_a_recent_change_has_no_stamp(tmp_path: Path, folder: Path) -> None:
    assert FolderSource(tmp_path).files(TENANT, stamped=True).stamp is None


@pytest.mark.usefixtures("later")
def test_a_name_of_two_lines_has_no_stamp(tmp_path: Path, folder: Path) -> None:
    (folder / "two\nlines.yaml").touch()
    assert FolderSource(tmp_path).files(TENANT, stamped=True).stamp is None


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("stamp", [None, "text", [], [1, 2], ["", ""], [["/tenant.yaml"], "token"], ["/\0", ""]])
def test_a_malformed_stamp_is_invalid(tmp_path: Path, folder: Path, stamp: object) -> None:
    assert not FolderSource(tmp_path).is_unchanged(TENANT, stamp)


@pytest.mark.usefixtures("later")
def test_the_stamp_of_another_tenant_is_invalid(tmp_path: Path, folder: Path) -> None:
    stamp = FolderSource(tmp_path).files(TENANT, stamped=True).stamp
    (tmp_path / "tenants" / "ada-two" / "instances").mkdir(parents=True)
    for path in ("tenant.yaml", "instances/webui.yaml"):
        (tmp_path / "tenants" / "ada-two" / path).write_text("kind: Tenant\n")
    assert not FolderSource(tmp_path).is_unchanged(Scope("tenant", "ada-two"), stamp)


def test_scopes_are_sorted(tmp_path: Path, folder: Path) -> None:
    for name in ("tenants/b-team", "tenants/a-team", "clusters/us-1", "clusters/eu-1", "platform"):
        (tmp_path / name).mkdir(parents=True)
    scopes, problems = FolderSource(tmp_path).scopes()
    assert (
        scopes
        == sorted(scopes)
        == [
            Scope("cluster", "eu-1"),
            Scope("cluster", "us-1"),
            PLATFORM,
            Scope("tenant", "a-team"),
            Scope("tenant", "b-team"),
            TENANT,
        ]
    )
    assert not problems


def test_files_that_are_listed_again_count_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_source, "MAX_FILES", 3)
    source = FolderSource(folder.parent.parent)
    for _ in range(5):
        listed = source.files(TENANT)
        assert (len(listed.paths), listed.problems) == (2, ())
    (folder / "members.yaml").touch()
    (folder / "instances" / "second.yaml").touch()
    (problem,) = source.files(TENANT).problems
    assert "more than 3 files" in problem.message


@pytest.mark.parametrize("target", ["outside", "absent/outside"])
def test_write_file_follows_no_link_with_the_name_of_its_temporary_file(target: str, tmp_path: Path) -> None:
    """A stranger may have committed the link."""
    path = tmp_path / "webui.yaml"
    path.write_text("old")
    path.chmod(0o640)
    (tmp_path / ".webui.yaml.allotment-new").symlink_to(tmp_path / target)
    write_file(path, b"new")
    assert (path.read_bytes(), path.is_symlink(), path.stat().st_mode & 0o777) == (b"new", False, 0o640)
    assert [each.name for each in tmp_path.iterdir()] == ["webui.yaml"]


def test_write_file_creates_a_file_with_the_mode_of_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        write_file(tmp_path / "new.yaml", b"new")
    finally:
        os.umask(umask)
    assert (tmp_path / "new.yaml").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("place", ["tenants/mallory", "gpus"])
def test_find_root_refuses_a_submodule(place: str, tmp_path: Path) -> None:
    """Its origin is the stranger's. The outer repository need not hold declarations: the submodule may have replaced them."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for repository in (theirs, ours):
        git(tmp_path, "init", "-q", str(repository))
    (theirs / "platform").mkdir()
    (theirs / "platform/platform.yaml").touch()
    git(theirs, "add", "--all")
    git(theirs, *PERSON, "commit", "-q", "-m", "a")
    git(ours, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(theirs), place)
    assert find_root(theirs / "platform") == theirs
    with pytest.raises(
        OperationRefused, match="is a submodule of another repository, and a stranger may have added it"
    ):
        find_root(ours / place / "platform")


def test_find_root_accepts_a_linked_work_tree_in_a_folder_named_modules(tmp_path: Path) -> None:
    """It has the origin of the person."""
    clone, linked = tmp_path / "modules/gpus", tmp_path / "linked"
    git(tmp_path, "init", "-q", str(clone))
    (clone / "platform").mkdir()
    (clone / "platform/platform.yaml").touch()
    git(clone, "add", "--all")
    git(clone, *PERSON, "commit", "-q", "-m", "a")
    git(clone, "worktree", "add", "-q", str(linked))
    assert find_root(linked / "platform") == linked


def test_a_platform_folder_that_is_a_link_has_no_files(tmp_path: Path) -> None:
    """It may lead to the declarations of another clone."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/platform.yaml").touch()
    (tmp_path / "platform").symlink_to("other")
    files = FolderSource(tmp_path).files(PLATFORM)
    assert (files.paths, [problem.message for problem in files.problems]) == ((), ["is not a folder: remove it"])


def everything(source: FolderSource) -> tuple[object, ...]:
    """Return the scopes of a folder, their files, and all problems."""
    scopes, problems = source.scopes()
    return scopes, problems, [source.files(scope)[:2] for scope in scopes]


IGNORED = (".DS_Store", ".webui.yaml.swp", "webui.yaml~", ".idea/workspace.xml", ".#webui.lock", "._webui.yaml")


@pytest.mark.parametrize(
    "place", ["tenants", "tenants/solo-ada", "tenants/solo-ada/instances", "clusters/eu-1", "platform"]
)
@pytest.mark.parametrize("name", IGNORED)
def test_a_file_that_git_ignores_is_no_problem_unless_it_is_tracked(name: str, place: str, sample: Path) -> None:
    """A folder of a system or an editor has such files, and no pull request has them."""
    commit(sample)
    before = everything(FolderSource(sample))
    file = sample / place / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"\0")
    assert everything(FolderSource(sample)) != before
    (sample / ".git/info/exclude").write_text(".DS_Store\n*.swp\n*~\n.idea/\n.#*\n._*\n")
    assert everything(FolderSource(sample)) == before
    git(sample, "add", "--force", "--", str(file))
    assert everything(FolderSource(sample)) != before


def test_a_declaration_that_git_ignores_counts(sample: Path) -> None:
    commit(sample)
    (sample / ".git/info/exclude").write_text("*.yaml\n")
    before = everything(FolderSource(sample))
    (sample / "tenants/solo-ada/instances/mine.yaml").write_text("a: 1\n")
    assert everything(FolderSource(sample)) != before


@pytest.mark.parametrize("name", [".#webui", ".#webui.yaml"])
def test_a_link_that_git_ignores_is_no_problem(name: str, sample: Path) -> None:
    commit(sample)
    before = everything(FolderSource(sample))
    (sample / "tenants/solo-ada" / name).symlink_to("ada@laptop.1234")
    assert everything(FolderSource(sample)) != before
    (sample / ".git/info/exclude").write_text(".#*\n")
    assert everything(FolderSource(sample)) == before

"""Pages are written into a folder, and nothing of somebody else is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.adapters.page_folder import MARKER, PageFolder
from allotment.problems import OperationRefused


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {MARKER}


def test_only_changed_pages_are_written(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "site")
    assert folder.write("a/b.html", b"1")
    before = (tmp_path / "site/a/b.html").stat().st_ino
    assert not folder.write("a/b.html", b"1")
    assert (tmp_path / "site/a/b.html").stat().st_ino == before
    assert folder.write("a/b.html", b"2")
    assert (tmp_path / "site/a/b.html").read_bytes() == b"2"
    assert list_files(tmp_path / "site") == {"a/b.html"}


def test_pages_that_are_gone_are_removed_with_their_folders(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path)
    for path in ("index.html", "a/b.html", "c/d/e.html"):
        folder.write(path, b"1")
    assert folder.remove_others({"index.html"}) == 2
    assert list_files(tmp_path) == {"index.html"}
    assert not (tmp_path / "c").exists()
    PageFolder(tmp_path)  # the folder is still ours


def test_some_pages_are_removed_with_their_folders(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path)
    for path in ("index.html", "a/b.html", "a/c.html", "d/e/f.html"):
        folder.write(path, b"1")
    assert folder.remove({"a/b.html", "d/e/f.html", "never.html"}) == 2
    assert list_files(tmp_path) == {"index.html", "a/c.html"}
    assert not (tmp_path / "d").exists()


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(OperationRefused, match="did not write"):
        PageFolder(tmp_path)
    assert list_files(tmp_path) == {"notes.txt"}


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OperationRefused, match="is a link"):
        PageFolder(tmp_path / "link")


def test_page_folder_removes_paths_that_block_a_page(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "site")
    folder.write("a", b"1")
    assert folder.write("a/b/c.html", b"2")
    assert folder.write("a/b", b"3")
    assert (tmp_path / "site/a/b").read_bytes() == b"3"
    assert list_files(tmp_path / "site") == {"a/b"}


def test_links_are_removed_before_pages_are_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = PageFolder(tmp_path / "site")
    folder.write("b/page.html", b"1")
    (folder.out / "a").symlink_to(outside)
    (folder.out / "b/link.html").symlink_to(outside / "page.html")
    (folder.out / "c").symlink_to(tmp_path / "nothing")
    assert folder.remove_links() == 3
    assert folder.write("a/page.html", b"1")
    assert list(outside.iterdir()) == []
    assert list_files(folder.out) == {"a/page.html", "b/page.html"}


def test_a_link_to_a_folder_at_the_path_of_a_page_is_replaced(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = PageFolder(tmp_path / "site")
    (folder.out / "index.html").symlink_to(outside)
    assert folder.write("index.html", b"1")
    assert not (folder.out / "index.html").is_symlink()
    assert outside.exists()


@pytest.mark.parametrize("remove", [PageFolder.remove_links, lambda folder: folder.remove_others([], below="a")])
def test_a_folder_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Callable[[PageFolder], int]
) -> None:
    folder = PageFolder(tmp_path / "site")
    folder.write("a/page.html", b"1")
    scan = os.scandir

    def refuse(path: str) -> Any:
        if path.endswith("/a"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", refuse)
        with pytest.raises(OperationRefused, match="Permission denied"):
            remove(folder)


def test_a_marker_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / "site" / MARKER).symlink_to(tmp_path / "victim")
    with pytest.raises(OperationRefused, match="can't be written"):
        PageFolder(tmp_path / "site")
    assert (tmp_path / "victim").read_bytes() == b"mine"


def test_a_page_that_is_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine", encoding="utf-8")
    folder = PageFolder(tmp_path / "site")
    (tmp_path / "site/a.html").symlink_to(tmp_path / "secret")
    folder.write("a.html", b"2")
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "site/a.html").is_symlink()


def test_a_link_to_a_folder_is_removed_and_its_files_stay(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "site")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "page.html").write_bytes(b"theirs")
    (folder.out / "link").symlink_to(outside)
    assert folder.remove_others([]) == 1
    assert not (folder.out / "link").exists()
    assert (outside / "page.html").read_bytes() == b"theirs"


def test_the_files_of_some_folders_stay(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "site")
    for path in ("tenants/a/index.html", "tenants/ab/index.html", "old.html"):
        folder.write(path, b"page")
    assert folder.remove_others([], ["tenants/a"]) == 2
    assert [path.name for path in (folder.out / "tenants").iterdir()] == ["a"]


def test_the_files_of_other_folders_stay(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "site")
    for path in ("tenants/a/index.html", "tenants/b/index.html", "tenants/index.html", "index.html"):
        folder.write(path, b"page")
    assert folder.remove_others(["tenants/index.html"], ["tenants/a"], below="tenants") == 1
    assert folder.remove_others([], below="provider") == 0
    assert list_files(folder.out) == {"tenants/a/index.html", "tenants/index.html", "index.html"}


def test_one_process_builds_pages_at_a_time(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "site")
    with folder.lock(), pytest.raises(OperationRefused, match="another process writes"), PageFolder(folder.out).lock():
        pass
    with folder.lock():
        folder.write("index.html", b"page")


def test_a_folder_without_its_marker_can_not_be_locked(tmp_path: Path) -> None:
    folder = PageFolder(tmp_path / "site")
    (folder.out / MARKER).unlink()
    with pytest.raises(OperationRefused, match="No such file"), folder.lock():
        pass

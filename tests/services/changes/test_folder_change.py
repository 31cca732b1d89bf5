"""A change is written to a folder as a whole or not at all, and never outside the folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.published import Place

from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused
from allotment.services.changes.folder_change import FolderChange

OLD, NEW = "tenants/solo-ada/tenant.yaml", "tenants/solo-ada/instances/new.yaml"


@pytest.fixture
def change(published: Place) -> Iterator[FolderChange]:
    """Return the change of a clone of the sample."""
    with Repository(published.root) as repository:
        yield FolderChange(published.root, repository)


def contents(root: Path) -> dict[str, bytes]:
    """Return the content of every file of a tenant."""
    return {path.name: path.read_bytes() for path in (root / "tenants/solo-ada").rglob("*") if path.is_file()}


def test_files_are_written_and_removed(published: Place, change: FolderChange) -> None:
    before = (published.root / OLD).read_bytes()
    change.write({OLD: None, NEW: b"new\n"}, {OLD: before, NEW: None})
    assert not (published.root / OLD).exists()
    assert (published.root / NEW).read_bytes() == b"new\n"
    change.check({OLD: b"", NEW: b""})  # the own changes


def test_a_file_that_changed_meanwhile_stops_all(published: Place, change: FolderChange) -> None:
    before = contents(published.root)
    with pytest.raises(OperationRefused, match=f"^{re.escape(OLD)} has changed meanwhile"):
        change.write({NEW: b"new\n", OLD: b"x"}, {NEW: None, OLD: b"what was read"})
    assert contents(published.root) == before


def test_a_file_that_cannot_be_written_stops_all(published: Place, change: FolderChange) -> None:
    before = contents(published.root)
    blocked = f"{NEW.removesuffix('new.yaml')}{'n' * 245}.yaml"
    with pytest.raises(OperationRefused, match="can't be written: File name too long"):
        change.write({OLD: b"x", blocked: b"new\n"}, {OLD: (published.root / OLD).read_bytes(), blocked: None})
    assert contents(published.root) == before


def test_no_file_is_written_through_a_symbolic_link(published: Place, change: FolderChange, tmp_path: Path) -> None:
    (published.root / "tenants/solo-ada/snapshots").symlink_to(tmp_path)
    (published.root / "tenants/solo-ada/link.yaml").symlink_to(tmp_path / "target")
    for path, message in (
        ("tenants/solo-ada/snapshots/new.yaml", "tenants/solo-ada/snapshots is not a folder"),
        ("tenants/solo-ada/link.yaml", "tenants/solo-ada/link.yaml is not a regular file"),
    ):
        with pytest.raises(OperationRefused, match=f"^{message}"):
            change.check({path: b"new\n"})


def test_a_failure_at_the_second_file_restores_the_first(
    published: Place, change: FolderChange, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(published.root)
    replace, calls = os.replace, list[Path]()

    def fail_at_second(source: Path, target: Path) -> None:
        calls.append(target)
        if [path.name for path in calls if path.suffix == ".yaml"] == ["new.yaml", "tenant.yaml"]:
            calls.clear()
            raise OSError(28, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_at_second)
    with pytest.raises(OperationRefused, match=r"tenant\.yaml can't be written: No space left on device"):
        change.write({NEW: b"new\n", OLD: b"x"}, {NEW: None, OLD: (published.root / OLD).read_bytes()})
    assert contents(published.root) == before

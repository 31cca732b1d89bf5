"""What was found fine before: written when enough of it is new, and never half believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.adapters.file_cache import FileCache, cache_folder, is_large


@pytest.mark.parametrize(("stored", "new", "written"), [(0, 1, True), (99, 1, True), (200, 1, False), (200, 3, True)])
def test_file_cache_saves_after_enough_new_values(stored: int, new: int, written: bool) -> None:
    before = FileCache.load("here", "key")
    for number in range(stored):
        before.put(f"tenant-{number}", ["fine"])
    before.save()
    memory = FileCache.load("here", "key")
    assert len(memory.values) == stored
    for number in range(new):
        memory.put(f"tenant-{number}", ["fine", "again"])
    memory.save()
    values = FileCache.load("here", "key").values
    assert [values.get(f"tenant-{number}") == ["fine", "again"] for number in range(new)] == [written] * new


def test_file_cache_saves_after_a_removal_of_values() -> None:
    memory = FileCache.load("here", "key")
    for number in range(200):
        memory.put(f"tenant-{number}", ["fine"])
    memory.save()
    memory.keep_only({"tenant-1"})
    memory.save()
    assert list(FileCache.load("here", "key").values) == ["tenant-1"]


def test_a_cache_in_a_work_tree_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger may have committed it. A relative path of the variable would lead into the current folder."""
    default = cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "clone/.cache"))
    memory = FileCache.load("here", "key")
    memory.put("tenant-1", ["fine"])
    memory.save()
    assert list(FileCache.load("here", "key").values) == ["tenant-1"]
    (tmp_path / "clone/.git").mkdir()
    assert (FileCache.load("here", "key").values, FileCache.load("here", "key").path) == ({}, None)
    with pytest.raises(OSError, match="here"):
        FileCache.read_first_fields("here")
    assert not is_large("here")
    monkeypatch.setenv("XDG_CACHE_HOME", ".cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default != cache_folder() == tmp_path / ".cache/allotment"


@pytest.mark.parametrize("damage", ["empty", "one line", "cut", "other value"])
def test_a_damaged_cache_is_empty(damage: str) -> None:
    memory = FileCache.load("here", "key")
    memory.put("tenant-1", ["fine"])
    memory.save()
    assert memory.path is not None
    data = memory.path.read_bytes()
    damaged = {"empty": b"", "one line": data.replace(b"\n", b""), "cut": data[:-1], "other value": data[:-3] + b"]}\n"}
    memory.path.write_bytes(damaged[damage])
    assert FileCache.load("here", "key").values == {}


def test_a_cache_of_another_key_is_empty() -> None:
    memory = FileCache.load("here", "key")
    memory.put("tenant-1", ["fine"])
    memory.save()
    assert FileCache.load("here", "other key").values == {}
    assert FileCache.load("here", "key").values == {"tenant-1": ["fine"]}

"""The hash of the program changes with each edit of its source, and is computed once for each state of the source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conftest import hash_source

from allotment.adapters import file_cache

HOUR = 3600 * 10**9


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a small program, in place of Allotment's."""
    folder = tmp_path / "program"
    (folder / "rules").mkdir(parents=True)
    (folder / "main.py").write_text("limit = 1\n")
    (folder / "rules" / "quota.py").write_text("quota = 1\n")
    monkeypatch.setattr(file_cache, "_PACKAGE", folder)
    monkeypatch.setattr(file_cache, "_hash_source", hash_source)
    return folder


def count_hashes(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return a list that grows with each computation of the hash of the source."""
    calls: list[list[str]] = []
    hash_source = file_cache._hash_source

    def counting(paths: list[str]) -> str:
        calls.append(paths)
        return hash_source(paths)

    monkeypatch.setattr(file_cache, "_hash_source", counting)
    return calls


def let_time_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    now = file_cache.time.time_ns()
    monkeypatch.setattr(file_cache.time, "time_ns", lambda: now + HOUR)


def test_the_source_is_hashed_once(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_time_pass(monkeypatch)
    calls = count_hashes(monkeypatch)
    assert file_cache.program_key() == file_cache.program_key()
    assert len(calls) == 1


def test_a_recent_edit_is_not_trusted(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_hashes(monkeypatch)
    assert file_cache.program_key() == file_cache.program_key()
    assert len(calls) == 2


def test_an_edit_with_the_old_size_and_time_changes_the_key(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_time_pass(monkeypatch)
    old = file_cache.program_key()
    file = program / "rules" / "quota.py"
    status = file.stat()
    file.write_text("quota = 2\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file_cache.program_key() != old


def test_new_moved_and_removed_files_change_the_key(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_time_pass(monkeypatch)
    keys = [file_cache.program_key()]
    (program / "rules" / "stock.yaml").write_text("stock: 1\n")
    keys.append(file_cache.program_key())
    (program / "rules" / "stock.yaml").rename(program / "stock.yaml")
    (program / "stock.yaml").write_text("stock: 2\n")
    keys.append(file_cache.program_key())
    (program / "main.py").unlink()
    keys.append(file_cache.program_key())
    assert len(set(keys)) == len(keys)


def test_bytecode_is_no_source(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_time_pass(monkeypatch)
    old = file_cache.program_key()
    (program / "__pycache__").mkdir()
    (program / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"code")
    (program / "__pycache__" / "main.py").write_text("no source")
    assert file_cache.program_key() == old

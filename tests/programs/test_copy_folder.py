"""A copy from one mounted volume to another: everything as it was, whenever it was killed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.programs.volumes import content, killed_at, tree

from allotment.programs import ending, volume
from allotment.programs.copy_folder import copy

JOB = "clone--prepare-0123456789-1"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a volume with everything on it."""
    root = tmp_path / "source"
    root.mkdir()
    tree(root)
    return root


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return an empty volume."""
    root = tmp_path / "target"
    (root / volume.OWN).mkdir(parents=True)
    return root


def test_everything_is_as_it_was(source: Path, target: Path) -> None:
    copy(str(source), str(target))
    assert content(target) == content(source)
    assert os.path.samefile(target / "models" / "readme.txt", target / "models" / "again.txt")
    assert (target / "sparse").stat().st_blocks * 512 < 1024 * 1024


def test_copy_completes_a_partial_copy_and_preserves_complete_files(source: Path, target: Path) -> None:
    copy(str(source), str(target))
    inode = (target / "models" / "sdxl" / "weights.safetensors").stat().st_ino
    (target / "run.sh").unlink()
    (target / "none").write_text("half")
    copy(str(source), str(target))
    assert content(target) == content(source)
    assert (target / "models" / "sdxl" / "weights.safetensors").stat().st_ino == inode


def test_copy_replaces_target_entries_of_another_type(source: Path, target: Path) -> None:
    (target / "models").symlink_to("/nowhere")
    (target / "run.sh").mkdir()
    (target / "run.sh" / "inner").write_text("x")
    (target / "latest").write_text("a file")
    copy(str(source), str(target))
    assert content(target) == content(source)


@pytest.mark.process
def test_killed_at_every_step_it_is_complete_after_the_next_start(source: Path, tmp_path: Path) -> None:
    step, wanted = 1, content(source)
    while True:
        target = tmp_path / f"target-{step}"
        target.mkdir()

        def work(target: Path = target) -> None:
            volume.fill(str(target), JOB, lambda: copy(str(source), str(target)))

        killed = killed_at(step, work)
        if killed and volume.is_complete(str(target), JOB):
            assert content(target) == wanted, step
        assert not killed_at(10**9, work)
        assert content(target) == wanted, step
        assert volume.is_complete(str(target), JOB)
        if not killed:
            break
        step += 1
    assert step > 60


def test_copy_skips_a_pipe_and_reports_the_omission(
    source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(source / "pipe")
    copy(str(source), str(target))
    assert not (target / "pipe").exists()
    result = capsys.readouterr()
    assert "left out, no file: 'pipe'" in result.err
    assert "1 left out" in result.out


def test_a_preparation_of_the_source_is_not_the_copys(source: Path, target: Path) -> None:
    volume.complete(str(source), "another job")
    (source / "lost+found").mkdir()
    copy(str(source), str(target))
    assert not volume.is_complete(str(target), "another job")
    assert not (target / "lost+found").exists()


def test_a_file_system_that_does_not_know_its_holes(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "lseek", refuses)
    copy(str(source), str(target))
    assert content(target) == content(source)


def test_a_source_that_is_cut_while_it_is_read(source: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    with pytest.raises(ending.Failed, match="was cut while it was read") as failure:
        copy(str(source), str(target))
    assert failure.value.status == ending.SOURCE_UNREADABLE


def test_a_file_that_can_not_be_read(source: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuses(path: str, *more: int) -> int:
        if str(path).endswith("run.sh"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *more)

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(ending.Failed, match="can't be read: Permission denied"):
        copy(str(source), str(target))

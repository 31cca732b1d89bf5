"""A volume's lock and marker: one writer, and a marker only on what is complete."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import PROJECT

from allotment.programs import ending, texts, volume

JOB = "models--prepare-0123456789-1"


def test_it_is_filled_once(tmp_path: Path) -> None:
    times: list[str] = []
    volume.fill(str(tmp_path), JOB, lambda: times.append("first"))
    volume.fill(str(tmp_path), JOB, lambda: times.append("again"))
    assert times == ["first"]


def test_what_only_an_attempt_needs_goes_with_its_end(tmp_path: Path) -> None:
    own = tmp_path / volume.OWN

    def work() -> None:
        for name in ("part", "part-0123", "fetched"):
            (own / name).write_bytes(b"x")

    volume.fill(str(tmp_path), JOB, work)
    assert sorted(one.name for one in own.iterdir()) == ["lock", "prepared"]


def test_another_attempt_fills_it_again_and_what_failed_is_not_complete(tmp_path: Path) -> None:
    volume.fill(str(tmp_path), JOB, lambda: None)

    def fails() -> None:
        assert not volume.is_complete(str(tmp_path), JOB)
        raise ending.Failed(ending.CHECKSUM_MISMATCH, "no")

    with pytest.raises(ending.Failed):
        volume.fill(str(tmp_path), f"{JOB[:-1]}2", fails)
    assert not volume.is_complete(str(tmp_path), JOB)
    assert not volume.is_complete(str(tmp_path), f"{JOB[:-1]}2")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"job": 1}', '"models"'], ids=repr)
def test_a_marker_that_is_none_counts_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / ".allotment").mkdir()
    (tmp_path / ".allotment" / "prepared").write_text(text)
    assert not volume.is_complete(str(tmp_path), JOB)


def test_two_at_once_and_a_lock_that_goes_with_its_process(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    holder = subprocess.Popen(
        [sys.executable, "-m", "allotment.programs.hold", f"--volume={tmp_path}", f"--ready={ready}"], cwd=PROJECT
    )
    try:
        until = time.monotonic() + 20
        while not ready.exists() and time.monotonic() < until:
            time.sleep(0.02)
        with pytest.raises(ending.Failed) as failure, volume.held(str(tmp_path), 0.2):
            pass
        assert failure.value.status == ending.LOCKED
    finally:
        holder.kill()
        holder.wait()
    with volume.held(str(tmp_path), 5):
        pass


def test_a_holder_ends_when_it_is_asked_to_and_takes_the_marker_away(tmp_path: Path) -> None:
    volume.fill(str(tmp_path), JOB, lambda: None)
    ready = tmp_path / "ready"
    run = [sys.executable, "-m", "allotment.programs.hold", f"--volume={tmp_path}", f"--ready={ready}"]
    holder = subprocess.Popen(run, cwd=PROJECT)
    until = time.monotonic() + 20
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not volume.is_complete(str(tmp_path), JOB)
    holder.terminate()
    assert holder.wait(10) == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ending.Failed(ending.ADDRESS_REFUSED, "no"), 73),
        (OSError(errno.ENOSPC, "No space left on device"), 75),
        (OSError(errno.EIO, "Input/output error"), 1),
    ],
    ids=str,
)
def test_it_ends_by_what_went_wrong(error: Exception, status: int) -> None:
    def work() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        volume.run(work)
    assert ended.value.code == status


@pytest.mark.parametrize("program", ["hold", "seal", "copy_folder", "copy_shared", "fetch_url", "fetch_s3"])
def test_a_configmap_has_all_that_a_program_needs(tmp_path: Path, program: str) -> None:
    """Python with nothing installed, started as a pod starts it."""
    (tmp_path / "programs").mkdir()
    for name, text in texts(program).items():
        (tmp_path / "programs" / name).write_text(text)
    run = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import programs.{program}",
    ]
    subprocess.run(run, check=True, capture_output=True)


def test_a_volume_is_sealed(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "allotment.programs.seal", f"--volume={tmp_path}", f"--job={JOB}"]
    subprocess.run(run, check=True, cwd=PROJECT)
    assert volume.is_complete(str(tmp_path), JOB)
    subprocess.run([*run[:-1], "--job=other", "--alone"], check=True, cwd=PROJECT)
    assert volume.is_complete(str(tmp_path), "other")

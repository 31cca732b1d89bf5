"""A volume's lock and marker: one writer, and a marker only on what is complete. What began on it decides who may begin."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import PROJECT
from tests.programs.volumes import files, filled_by, killed_at, remembered
from tests.support.waiting import eventually

from allotment.programs import ending, texts, volume
from allotment.programs.check import check

JOB = "models--prepare-0123456789-1"
NEXT = "models--prepare-0123456789-2"
THIRD = "models--prepare-abcdef0123-1"


def program(name: str, root: Path, *arguments: str, job: str = JOB) -> list[str]:
    """Return the command that runs a program of ours on a volume."""
    return [sys.executable, "-m", f"allotment.programs.{name}", f"--volume={root}", f"--job={job}", *arguments]


def status_of(name: str, root: Path, *arguments: str, job: str = JOB) -> int:
    """Return how a program of ours ends, run here; what would end in a traceback fails the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", program(name, root, *arguments, job=job)[2:])
        try:
            importlib.import_module(f"allotment.programs.{name}").main()
        except SystemExit as ended:
            return int(ended.code or 0)
    return 0


def status_of_holder(root: Path, ready: Path, job: str = JOB) -> int:
    """Return how the sidecar ends that never gets ready: it blocks signals, so it runs in a process of its own."""
    run = program("hold", root, f"--ready={ready}", job=job)
    return subprocess.run(run, cwd=PROJECT, capture_output=True, check=False, timeout=60).returncode


@contextmanager
def holding(root: Path, ready: Path, job: str = JOB) -> Iterator[subprocess.Popen[bytes]]:
    """Run the sidecar until the block ends, which begins once it is ready."""
    holder = subprocess.Popen(program("hold", root, f"--ready={ready}", job=job), cwd=PROJECT)
    try:
        eventually(ready.exists, "the sidecar to be ready", 20, pause=0.02)
        yield holder
    finally:
        holder.kill()
        holder.wait()


def refused(root: Path, job: str) -> int:
    """Return the status by which a volume refuses a Job, and see that it is as it was."""
    before = remembered(root), files(root)
    with pytest.raises(ending.Failed) as failure:
        volume.fill(str(root), job, lambda: pytest.fail("it was filled again"))
    with pytest.raises(ending.Failed) as check_failure:
        check(str(root), job)
    assert check_failure.value.status == failure.value.status
    assert (remembered(root), files(root)) == before
    return failure.value.status


def test_fill_runs_the_work_of_a_job_once(tmp_path: Path) -> None:
    times: list[str] = []
    volume.fill(str(tmp_path), JOB, lambda: times.append("first"))
    volume.fill(str(tmp_path), JOB, lambda: times.append("again"))
    assert times == ["first"]


def test_fill_removes_the_temporary_files_of_an_attempt(tmp_path: Path) -> None:
    own = tmp_path / volume.OWN

    def work() -> None:
        for name in ("part", "part-0123", "fetched"):
            (own / name).write_bytes(b"x")

    volume.fill(str(tmp_path), JOB, work)
    assert sorted(path.name for path in own.iterdir()) == ["begun", "lock", "prepared"]


def test_another_attempt_fills_it_again_and_what_failed_is_not_complete(tmp_path: Path) -> None:
    volume.fill(str(tmp_path), JOB, lambda: None)

    def fails() -> None:
        assert not volume.is_complete(str(tmp_path), JOB)
        raise ending.Failed(ending.CHECKSUM_MISMATCH, "no")

    with pytest.raises(ending.Failed):
        volume.fill(str(tmp_path), NEXT, fails)
    assert not volume.is_complete(str(tmp_path), JOB)
    assert not volume.is_complete(str(tmp_path), NEXT)
    assert refused(tmp_path, JOB) == ending.SUPERSEDED
    filled_by(tmp_path, NEXT, "again")
    assert remembered(tmp_path) == {"begun": [JOB, NEXT], "prepared": {"job": NEXT}}


def test_fill_refuses_a_job_that_began_before_another_job(tmp_path: Path) -> None:
    for job in (JOB, NEXT, THIRD):
        filled_by(tmp_path, job)
    assert [refused(tmp_path, job) for job in (JOB, NEXT)] == [ending.SUPERSEDED] * 2
    filled_by(tmp_path, THIRD, "not again")
    assert files(tmp_path) == {"model": THIRD.encode()}
    assert remembered(tmp_path) == {"begun": [JOB, NEXT, THIRD], "prepared": {"job": THIRD}}


def test_a_volume_from_before_the_list_remembers_by_its_marker(tmp_path: Path) -> None:
    filled_by(tmp_path, JOB)
    (tmp_path / ".allotment" / "begun").unlink()
    assert status_of("check", tmp_path) == ending.ALREADY_COMPLETE
    filled_by(tmp_path, NEXT)
    assert remembered(tmp_path) == {"begun": [JOB, NEXT], "prepared": {"job": NEXT}}
    assert refused(tmp_path, JOB) == ending.SUPERSEDED


def test_fill_counts_a_job_that_an_older_program_finished(tmp_path: Path) -> None:
    """They come back with the branch: what they run lies in it."""
    filled_by(tmp_path, JOB)
    (tmp_path / ".allotment" / "prepared").write_text(json.dumps({"job": NEXT}))
    assert refused(tmp_path, JOB) == ending.SUPERSEDED
    filled_by(tmp_path, THIRD)
    assert remembered(tmp_path)["begun"] == [JOB, NEXT, THIRD]


def test_a_clone_brings_its_sources_memory_along_and_is_filled_by_its_own_job(tmp_path: Path) -> None:
    filled_by(tmp_path, JOB)
    filled_by(tmp_path, NEXT)
    twin = "twin--prepare-0123456789-1"
    assert status_of("check", tmp_path, job=twin) == 0
    assert status_of("seal", tmp_path, "--alone", job=twin) == 0
    assert files(tmp_path) == {"model": NEXT.encode()}
    assert remembered(tmp_path) == {"begun": [JOB, NEXT, twin], "prepared": {"job": twin}}


def test_fill_remembers_the_newest_jobs_up_to_the_limit(tmp_path: Path) -> None:
    own = tmp_path / ".allotment"
    own.mkdir()
    names = [f"{'m' * 40}--prepare-0123456789-{number}" for number in range(volume.MOST_BEGUN)]
    (own / "begun").write_text(json.dumps(names))
    filled_by(tmp_path, JOB)
    assert remembered(tmp_path)["begun"] == [*names[1:], JOB]
    assert (own / "begun").stat().st_size < volume.MOST_BYTES
    assert refused(tmp_path, names[5]) == ending.SUPERSEDED


@pytest.mark.process
def test_killed_at_every_step_of_a_second_filling(tmp_path: Path) -> None:
    """After each the first Job's return is harmless: its data is there untouched, or it is refused. The second ends whole."""
    step = 1
    while True:
        root = tmp_path / str(step)
        root.mkdir()
        filled_by(root, JOB)
        killed = killed_at(step, lambda root=root: filled_by(root, NEXT))
        if volume.is_complete(str(root), JOB):
            assert files(root) == {"model": JOB.encode()}
            filled_by(root, JOB, "not again")
            assert files(root) == {"model": JOB.encode()}
        else:
            assert refused(root, JOB) == ending.SUPERSEDED
        assert not killed_at(10**9, lambda root=root: filled_by(root, NEXT))
        assert files(root) == {"model": NEXT.encode()}
        assert remembered(root) == {"begun": [JOB, NEXT], "prepared": {"job": NEXT}}
        assert refused(root, JOB) == ending.SUPERSEDED
        if not killed:
            break
        step += 1
    assert step > 15


@pytest.mark.process
def test_killed_at_every_step_around_a_program_that_is_not_ours(tmp_path: Path) -> None:
    """The pod of an image source: check, hold, the image's program, seal; killed anywhere it runs again from the beginning."""

    def pod(root: Path) -> None:
        try:
            check(str(root), NEXT)
            with volume.held(str(root)):
                volume.expect_due(str(root), NEXT)
                volume.begin(str(root), NEXT)
                (root / "model").write_text(NEXT)
                volume.complete(str(root), NEXT)
        except ending.Failed as failure:
            assert failure.status == ending.ALREADY_COMPLETE

    step = 1
    while True:
        root = tmp_path / str(step)
        root.mkdir()
        filled_by(root, JOB)
        killed = killed_at(step, lambda root=root: pod(root))
        if volume.is_complete(str(root), NEXT) or not volume.is_complete(str(root), JOB):
            assert refused(root, JOB) == ending.SUPERSEDED
        else:
            assert files(root) == {"model": JOB.encode()}
        assert not killed_at(10**9, lambda root=root: pod(root))
        assert files(root) == {"model": NEXT.encode()}
        assert remembered(root) == {"begun": [JOB, NEXT], "prepared": {"job": NEXT}}
        if not killed:
            break
        step += 1
    assert step > 15


MARKERS = ["", "{", "[]", "null", '{"job": 1}', '{"job": ""}', '{"job": "A b"}', '"models"', "[" * 99_999, "\xff"]
LISTS = ["", "{", "[]", "null", "{}", "7", '["a", 1]', '[""]', '["A b"]', f'"{JOB}"', "[" * 99_999, "\xff"]


@pytest.mark.parametrize("text", MARKERS, ids=range(len(MARKERS)))
def test_a_marker_that_cannot_be_read_is_none_but_keeps_out_whom_it_may_name(tmp_path: Path, text: str) -> None:
    filled_by(tmp_path, JOB)
    marker = tmp_path / ".allotment" / "prepared"
    marker.write_bytes(text.encode("latin-1"))
    assert not volume.is_complete(str(tmp_path), JOB)
    assert refused(tmp_path, JOB) == 1, "it may be complete: nobody says that another has begun since"
    filled_by(tmp_path, NEXT)
    assert remembered(tmp_path) == {"begun": [JOB, NEXT], "prepared": {"job": NEXT}}
    marker.write_bytes(text.encode("latin-1"))
    (tmp_path / ".allotment" / "begun").unlink()
    assert refused(tmp_path, THIRD) == 1


@pytest.mark.parametrize("text", LISTS, ids=range(len(LISTS)))
def test_a_list_that_cannot_be_read_lets_nobody_write_over_what_is_complete(tmp_path: Path, text: str) -> None:
    filled_by(tmp_path, JOB)
    begun = tmp_path / ".allotment" / "begun"
    begun.write_bytes(text.encode("latin-1"))
    filled_by(tmp_path, JOB, "not again")
    assert files(tmp_path) == {"model": JOB.encode()}
    assert refused(tmp_path, NEXT) == 1
    begun.unlink()
    filled_by(tmp_path, NEXT)
    assert remembered(tmp_path) == {"begun": [JOB, NEXT], "prepared": {"job": NEXT}}


@pytest.mark.parametrize("text", LISTS, ids=range(len(LISTS)))
def test_a_list_that_cannot_be_read_is_made_anew_where_nothing_is_complete(tmp_path: Path, text: str) -> None:
    (tmp_path / ".allotment").mkdir()
    (tmp_path / ".allotment" / "begun").write_bytes(text.encode("latin-1"))
    filled_by(tmp_path, JOB)
    assert remembered(tmp_path) == {"begun": [JOB], "prepared": {"job": JOB}}


def a_link(path: Path) -> None:
    path.symlink_to(path.parent.parent.parent / "outside")


def a_huge_file(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(64 * 1024**3)


@pytest.mark.parametrize("lay", [a_link, a_huge_file, os.mkfifo, Path.mkdir], ids=["link", "huge", "pipe", "folder"])
@pytest.mark.parametrize("name", ["prepared", "begun", "prepared.new", "begun.new", "lock"])
def test_check_and_seal_write_nothing_outside_despite_a_tenants_files(
    tmp_path: Path, name: str, lay: Callable[[Path], None]
) -> None:
    root, outside = tmp_path / "volume", tmp_path / "outside"
    (root / ".allotment").mkdir(parents=True)
    outside.write_text(json.dumps({"job": JOB}))
    lay(root / ".allotment" / name)
    (root / "model").write_text("a tenant's")
    assert not volume.is_complete(str(root), JOB)
    for called in ("check", "seal"):
        assert status_of(called, root) in (0, 1), called
    assert status_of("seal", root, "--alone", job=NEXT) in (0, 1)
    assert outside.read_text() == json.dumps({"job": JOB})
    assert files(root) == {"model": b"a tenant's"}


@pytest.mark.parametrize("own", ["link", "file"])
def test_a_folder_of_ours_that_is_none(tmp_path: Path, own: str) -> None:
    root, outside = tmp_path / "volume", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    if own == "link":
        (root / ".allotment").symlink_to(outside)
    else:
        (root / ".allotment").write_text("x")
    for called in ("check", "seal"):
        assert status_of(called, root) == 1
    assert status_of("seal", root, "--alone") == 1
    assert list(outside.iterdir()) == []


@pytest.mark.process
def test_two_at_once_and_a_lock_that_goes_with_its_process(tmp_path: Path) -> None:
    with holding(tmp_path, tmp_path / "ready"):
        with pytest.raises(ending.Failed) as failure, volume.held(str(tmp_path), 0.2):
            pass
        assert failure.value.status == ending.LOCKED
    with volume.held(str(tmp_path), 5):
        pass


@pytest.mark.process
def test_a_holder_ends_when_it_is_asked_to_and_takes_the_marker_away(tmp_path: Path) -> None:
    volume.fill(str(tmp_path), JOB, lambda: None)
    with holding(tmp_path, tmp_path / "ready", NEXT) as holder:
        assert remembered(tmp_path) == {"begun": [JOB, NEXT]}
        holder.terminate()
        assert holder.wait(10) == 0


@pytest.mark.process
def test_a_program_that_is_not_ours_never_begins_on_what_is_complete_or_another_has_begun(tmp_path: Path) -> None:
    root, ready = tmp_path / "volume", tmp_path / "ready"
    root.mkdir()
    assert status_of("check", root) == 0
    with holding(root, ready):
        (root / "model").write_text("the image's")
        assert status_of("seal", root) == 0
    before = remembered(root)
    assert before == {"begun": [JOB], "prepared": {"job": JOB}}
    assert status_of("check", root) == ending.ALREADY_COMPLETE
    assert status_of_holder(root, ready) == ending.ALREADY_COMPLETE
    assert not ready.exists(), "what an earlier run of it said holds no more"
    assert remembered(root) == before

    filled_by(root, NEXT)
    before = remembered(root)
    assert status_of("check", root) == ending.SUPERSEDED
    assert status_of_holder(root, ready) == ending.SUPERSEDED
    assert not ready.exists()
    assert status_of("seal", root) == ending.SUPERSEDED, "what it would mark is another's"
    assert remembered(root) == before


@pytest.mark.process
def test_seal_completes_the_volume_despite_changes_to_the_program_folder(tmp_path: Path) -> None:
    """It may copy a whole volume's content onto this one, with what we wrote there, or sweep everything away."""
    root, ready = tmp_path / "volume", tmp_path / "ready"
    root.mkdir()
    filled_by(root, JOB)
    with holding(root, ready, NEXT):
        (root / ".allotment" / "begun").write_text('["others--prepare-0123456789-1"]')
        (root / ".allotment" / "prepared").write_text('{"job": "others--prepare-0123456789-1"}')
        assert status_of("seal", root, job=NEXT) == 0
    assert volume.is_complete(str(root), NEXT)
    with holding(root, ready, THIRD):
        for path in (root / ".allotment").iterdir():
            path.unlink()
        (root / ".allotment").rmdir()
        assert status_of("seal", root, job=THIRD) == 0
    assert remembered(root) == {"begun": [THIRD], "prepared": {"job": THIRD}}


def test_a_check_notes_the_job_and_takes_nothing_away(tmp_path: Path) -> None:
    """Without room for that it ends its pod; the sidecar after it couldn't."""
    filled_by(tmp_path, JOB)
    assert status_of("check", tmp_path, job=NEXT) == 0
    assert remembered(tmp_path) == {"begun": [JOB, NEXT], "prepared": {"job": JOB}}
    filled_by(tmp_path, JOB, "not again")
    assert files(tmp_path) == {"model": JOB.encode()}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ending.Failed(ending.ADDRESS_REFUSED, "no"), 73),
        (OSError(errno.ENOSPC, "No space left on device"), 75),
        (OSError(errno.EIO, "Input/output error"), 1),
    ],
    ids=str,
)
def test_run_exits_with_the_status_of_the_error(error: Exception, status: int) -> None:
    def work() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        volume.run(work)
    assert ended.value.code == status


@pytest.mark.process
@pytest.mark.parametrize("program", ["check", "hold", "seal", "copy_folder", "copy_shared", "fetch_url", "fetch_s3"])
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
    assert status_of("seal", tmp_path) == 0
    assert volume.is_complete(str(tmp_path), JOB)
    assert status_of("seal", tmp_path, "--alone", job="other") == 0
    assert volume.is_complete(str(tmp_path), "other")


def everything(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return inode, time of change and content of every file on a volume, ours too."""
    return {
        str(path.relative_to(root)): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fetch_url", ("--url=https://files.invalid/model", "--sha256=", "--path=model")),
        ("fetch_s3", ("--endpoint=https://s3.invalid", "--bucket=b", "--prefix=", "--region=r")),
        ("copy_shared", ("--source=http://files.invalid/",)),
        ("copy_folder", ("--source=/nothing-is-here",)),
        ("seal", ("--alone",)),
        ("check", ()),
    ],
)
def test_a_job_that_runs_again_writes_nothing_on_a_complete_volume(
    tmp_path: Path, name: str, arguments: tuple[str, ...]
) -> None:
    """The Job was deleted by hand, and Argo CD makes it again. It asks no source either: none of these exists."""
    root = tmp_path / "volume"
    root.mkdir()
    filled_by(root, JOB)
    before = everything(root)
    status = ending.ALREADY_COMPLETE if name == "check" else 0
    assert status_of(name, root, *arguments) == status
    assert everything(root) == before
    step = 1
    while killed_at(step, lambda: _run(name, root, *arguments)):
        assert everything(root) == before
        step += 1
    assert step > 1
    assert everything(root) == before


def _run(name: str, root: Path, *arguments: str) -> None:
    assert status_of(name, root, *arguments) in (0, ending.ALREADY_COMPLETE)

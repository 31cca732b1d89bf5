"""Blobs that are written one by one: the bytes that were given, in one pack, and nothing after an error."""

from __future__ import annotations

import time

import pytest
from tests.adapters.git.conftest import SAID, git

from allotment.adapters.git.blob_writer import BlobWriter
from allotment.adapters.git.commits import write_commit
from allotment.adapters.git.repository import Repository
from allotment.declared.inventory import compute_blob_id
from allotment.problems import OperationRefused

TEXTS = [b"", b"\n", b"done\n", b"blob\ndata 3\nabc\n", b"\0\xff" * 70_000, *(b"%d\n" % n for n in range(300))]


def packs(repository: Repository) -> list[str]:
    return sorted(path.name for path in (repository.git.objects_folder / "pack").iterdir())


def test_blobs_lie_in_one_pack_and_a_commit_can_name_them(repository: Repository) -> None:
    writer = BlobWriter(repository)
    for text in TEXTS:
        writer.write(text)
    writer.close()
    blobs = [compute_blob_id(text) for text in TEXTS]
    assert repository.read_all(blobs) == TEXTS
    assert len([name for name in packs(repository) if name.endswith(".pack")]) == 1
    commit = write_commit(repository, [], {f"{n}.yaml": blob for n, blob in enumerate(blobs)}, SAID)
    assert {path: repository.read(blob) for path, blob in repository.listing(commit).items()} == {
        f"{n}.yaml": text for n, text in enumerate(TEXTS)
    }
    assert git(repository.folder, "fsck", "--strict") == f"dangling commit {commit}"


def test_a_writer_can_go_on_after_it_was_closed(repository: Repository) -> None:
    writer = BlobWriter(repository)
    writer.close()
    assert packs(repository) == []
    for text in (b"1\n", b"2\n"):
        writer.write(text)
        writer.close()
        assert repository.read(compute_blob_id(text)) == text


def test_an_aborted_writer_stores_nothing(repository: Repository) -> None:
    writer = BlobWriter(repository)
    writer.write(b"1\n")
    writer.abort()
    writer.abort()
    assert not repository.has_object(compute_blob_id(b"1\n"))
    assert not [name for name in packs(repository) if name.endswith(".pack")]


def test_a_commit_can_name_no_missing_blob(repository: Repository) -> None:
    with pytest.raises(OperationRefused, match="Git made no commit"):
        write_commit(repository, [], {"a.yaml": compute_blob_id(b"missing")}, SAID)


def test_the_end_of_git_is_an_error(repository: Repository) -> None:
    writer = BlobWriter(repository)
    writer.write(b"1\n")
    writer._process.proc.kill()
    writer._process.proc.wait()
    with pytest.raises(OperationRefused, match="Git stored no blobs"):
        for _ in range(100):
            writer.write(b"x" * 100_000)
            time.sleep(0.01)
    writer.write(b"2\n")
    writer.close()
    assert repository.read(compute_blob_id(b"2\n")) == b"2\n"


def test_git_killed_before_the_end_is_an_error(repository: Repository) -> None:
    writer = BlobWriter(repository)
    writer.write(b"1\n")
    writer._process.proc.kill()
    writer._process.proc.wait()
    with pytest.raises(OperationRefused, match="Git stored no blobs"):
        writer.close()

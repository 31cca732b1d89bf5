"""Commits without a work tree: the bytes that were given, no ref and no file left behind, signed where Git signs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.adapters.git.conftest import SAID, git
from tests.adapters.git.malformed import write
from tests.conftest import scale_examples

from allotment.adapters.git.commits import BlobWriter, write_commit
from allotment.adapters.git.repository import Repository
from allotment.declared.inventory import compute_blob_id
from allotment.problems import OperationRefused


def files(repository: Repository, commit: str) -> dict[str, bytes]:
    return {path: repository.read(blob) for path, blob in repository.listing(commit).items()}


def hostile(repository: Repository, author: str = "x <a> 1 +0000", committer: str = "y <b@c> 1 +0000") -> str:
    tree = git(repository.folder, "mktree", "--missing")
    return write(repository.folder, "commit", f"tree {tree}\nauthor {author}\ncommitter {committer}\n\nX\n".encode())


@pytest.mark.parametrize(
    ("committer", "time"),
    [
        ("y <b@c> 1767225600 +0100", 1767225600),
        ("y <b@c> soon +0100", 0),
        ("y <b@c> 99999999999999999999 +0000", 0),
        ("y <b@c> -5 +0000", 0),
        ("y", 0),
    ],
)
def test_a_date_that_is_none_is_long_ago(committer: str, time: int, repository: Repository) -> None:
    assert repository.committed_at(hostile(repository, committer=committer)) == time


@pytest.mark.parametrize("author", ["x 1767225600 +0100", "<a> 1 +0000", "x <a> b> 1 +0000", "x <a> 1e9 +0000"])
def test_an_author_that_is_none_is_the_committer(author: str, repository: Repository) -> None:
    hostile_commit = hostile(repository, author)
    commit = write_commit(
        repository, [hostile_commit], {"a.yaml": b"1\n"}, SAID._replace(author=repository.author(hostile_commit))
    )
    assert git(repository.folder, "log", "-1", "--format=%an", commit) == "allotment"


def test_a_commit_may_have_two_parents(repository: Repository) -> None:
    base = write_commit(repository, [], {"a.yaml": b"1\n", "b.yaml": b"1\n"}, SAID)
    ours, theirs = (write_commit(repository, [base], {"a.yaml": data}, SAID) for data in (b"2\n", b"3\n"))
    both = write_commit(repository, [theirs, ours], {"a.yaml": b"4\n"}, SAID)
    assert repository.parents(both) == [theirs, ours]
    assert repository.parents(base) == []
    assert set(repository.listing(both)) == {"a.yaml", "b.yaml"}
    assert all(repository.is_ancestor(ancestor, both) for ancestor in (base, ours, theirs))


def test_a_commit_on_top_of_another(repository: Repository) -> None:
    first = write_commit(repository, [], {"a/one.yaml": b"1\n", "a/two.yaml": b"2\n", "b/c.yaml": b"3\n"}, SAID)
    second = write_commit(repository, [first], {"a/one.yaml": b"one\n", "b": None, "c/d/e.yaml": b""}, SAID)
    assert files(repository, second) == {"a/one.yaml": b"one\n", "a/two.yaml": b"2\n", "c/d/e.yaml": b""}
    assert git(repository.folder, "rev-parse", f"{second}^") == first
    assert git(repository.folder, "log", "-1", "--format=%an|%ae|%at|%cn|%s", second) == (
        "Ada Löwe|ada@northlight.example|1767225600|allotment|Publish"
    )
    assert repository.author(second) == SAID.author


def test_nothing_is_left_behind(repository: Repository) -> None:
    (repository.folder / "staged").write_text("x")
    git(repository.folder, "add", "staged")
    before = git(repository.folder, "status", "--porcelain")
    write_commit(repository, [], {"a.yaml": b"1\n"}, SAID)
    assert git(repository.folder, "for-each-ref") == ""
    assert git(repository.folder, "status", "--porcelain") == before
    assert sorted(path.name for path in repository.folder.iterdir()) == [".git", "staged"]


def test_a_folders_listing(repository: Repository) -> None:
    commit = write_commit(repository, [], {"t/a/x.yaml": b"1", "t/b/x.yaml": b"2", "z.yaml": b"3"}, SAID)
    assert set(repository.listing(commit, "t/a")) == {"t/a/x.yaml"}


@given(data=some.binary(max_size=300), name=some.sampled_from(["-rf", "a b", "ä/ö.yaml", "done", "x\ty", "a'b"]))
@settings(max_examples=scale_examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_stay_as_they_are(data: bytes, name: str, repository: Repository) -> None:
    data += b"\ndone\nreset refs/heads/main\nfrom \n"
    commit = write_commit(repository, [], {name: data}, SAID)
    assert files(repository, commit) == {name: data}
    assert git(repository.folder, "for-each-ref") == ""


@pytest.mark.parametrize("path", ["", "/etc/passwd", '"a"', "a\nM 100644 inline b", "a\0b"])
def test_a_path_that_could_be_a_command_is_a_bug_of_ours(path: str, repository: Repository) -> None:
    with pytest.raises(ValueError, match="no path of a rendered file"):
        write_commit(repository, [], {path: b"x"}, SAID)


def test_write_commit_signs_as_git_is_configured(repository: Repository, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    for setting, value in (("gpg.format", "ssh"), ("user.signingkey", str(key)), ("commit.gpgsign", "true")):
        git(repository.folder, "config", setting, value)
    commit = write_commit(repository, [], {"a.yaml": b"1"}, SAID)
    signers = tmp_path / "signers"
    signers.write_text(f"allotment@northlight.example {key.with_suffix('.pub').read_text()}")
    git(repository.folder, "-c", f"gpg.ssh.allowedSignersFile={signers}", "verify-commit", commit)
    assert repository.author(commit) == SAID.author
    key.unlink()
    with pytest.raises(OperationRefused, match=r"^Git couldn't sign the commit: [^\n]*[^\n ]$"):
        write_commit(repository, [], {"a.yaml": b"1"}, SAID)


def test_without_a_name_it_says_what_to_set(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(variable, raising=False)
    git(repository.folder, "config", "user.useConfigOnly", "true")
    with pytest.raises(OperationRefused, match=r"set user\.name and user\.email with git config"):
        write_commit(repository, [], {"a.yaml": b"1"}, SAID)


def test_a_wrong_date_of_the_committer_is_named(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "rubbish")
    with pytest.raises(OperationRefused, match=r"^Git can't name the committer: invalid date format: rubbish: set"):
        write_commit(repository, [], {"a.yaml": b"1"}, SAID)


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
    writer._process.kill()
    writer._process.wait()
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
    writer._process.kill()
    writer._process.wait()
    with pytest.raises(OperationRefused, match="Git stored no blobs"):
        writer.close()

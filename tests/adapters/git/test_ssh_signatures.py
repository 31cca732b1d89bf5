"""The signatures of commits and tags: whose they are, and what cannot be checked."""

from __future__ import annotations

import base64
import struct
import subprocess
from pathlib import Path

import pytest
from tests.support.published import git
from tests.support.signing_keys import new_key

from allotment.adapters.git.commits import write_signed_tag
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.ssh_signatures import SignaturesUnavailable


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Return a private key."""
    new_key(tmp_path, "key")
    return tmp_path / "key"


@pytest.fixture
def root(tmp_path: Path, key: Path) -> Path:
    """Return a clone with one signed commit."""
    folder = tmp_path / "clone"
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    settings = (("user.name", "Ada"), ("user.email", "ada@x"), ("gpg.format", "ssh"), ("user.signingKey", str(key)))
    for name, value in settings:
        git(folder, "config", name, value)
    git(folder, "commit", "-q", "-S", "--allow-empty", "-m", "First")
    return folder


def test_a_person_with_another_signing_program_checks_signatures(
    root: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of password managers sign, and can't verify. A TMPDIR that is gone stops Git, and not Python."""
    git(root, "config", "gpg.ssh.program", "/nonexistent/sign")
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    assert Repository(root).is_signed_by(git(root, "rev-parse", "HEAD"), public)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("kill -9 $$", "ended with status -9"),
        ("exit 127", "ended with status 127"),
        ("echo 'No user exists' >&2; exit 255", "ended with status 255 with 'No user exists'"),
        ("", "can't be started"),
    ],
)
def test_a_signature_that_can_not_be_checked_does_not_count_as_missing(
    end: str, words: str, root: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, commit = key.with_suffix(".pub").read_text(encoding="utf-8"), git(root, "rev-parse", "HEAD")
    program = tmp_path / "bin/ssh-keygen"
    program.parent.mkdir()
    if end:
        program.write_text(f'#!/bin/sh\n[ "$1" = -F ] && exit 1\n{end}\n', encoding="utf-8")
        program.chmod(0o755)
    with Repository(root) as repository:
        repository.has_commits()
        with monkeypatch.context() as patch:
            patch.setenv("PATH", str(program.parent))
            with pytest.raises(SignaturesUnavailable, match=f"signatures can't be checked: .*{words}"):
                repository.is_signed_by(commit, public)
        assert repository.is_signed_by(commit, public), "a check that failed is repeated"


@pytest.mark.parametrize("change", ["message", "second signature", "tree"])
def test_a_changed_commit_has_no_valid_signature(change: str, root: Path, key: Path) -> None:
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    data = git(root, "cat-file", "commit", "HEAD") + "\n"
    if change == "message":
        data = data.replace("First", "Second")
    elif change == "tree":
        data = data.replace(git(root, "rev-parse", "HEAD^{tree}"), "4" * 40)
    else:
        data = data.replace("\n\nFirst", "\ngpgsig x\n\nFirst")
    forged = _write_commit(root, data.encode())
    with Repository(root) as repository:
        assert repository.is_signed_by(git(root, "rev-parse", "HEAD"), public)
        assert not repository.is_signed_by(forged, public)


def test_a_signature_counts_for_the_tag_of_its_name_alone(root: Path, key: Path) -> None:
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    with Repository(root) as repository:
        tag = write_signed_tag(repository, "v1", git(root, "rev-parse", "HEAD"), "Release\n")
        assert repository.is_tag_signed_by(tag, "v1", public)
        assert not repository.is_tag_signed_by(tag, "bill/2026-11", public)


def test_words_of_a_stranger_in_a_signature_do_not_stop_the_check(root: Path, key: Path) -> None:
    """`ssh-keygen` quotes the name of an unknown hash algorithm, which is text in the signature."""

    def pack(*texts: bytes) -> bytes:
        return b"".join(struct.pack(">I", len(text)) + text for text in texts)

    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    words = b"x\nfatal: cannot run ssh-keygen: No space left on device"
    blob = b"SSHSIG" + struct.pack(">I", 1) + pack(base64.b64decode(public.split()[1]), b"git", b"", words, b"x")
    lines = [b"-----BEGIN SSH SIGNATURE-----", *_wrap(base64.b64encode(blob)), b"-----END SSH SIGNATURE-----"]
    tree = git(root, "rev-parse", "HEAD^{tree}").encode()
    person = b"Eve <eve@evil.example> 1 +0000"
    header = [b"tree " + tree, b"author " + person, b"committer " + person, b"gpgsig " + b"\n ".join(lines)]
    data = b"\n".join(header) + b"\n\nForged\n"
    with Repository(root) as repository:
        assert not repository.is_signed_by(_write_commit(root, data), public)


def _write_commit(root: Path, data: bytes) -> str:
    command = ["git", "-C", str(root), "hash-object", "-t", "commit", "-w", "--stdin", "--literally"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode().strip()


def _wrap(text: bytes) -> list[bytes]:
    return [text[at : at + 70] for at in range(0, len(text), 70)]


@pytest.mark.parametrize("place", ["after the tree", "between the parents"])
def test_a_signature_at_another_place_of_the_header_does_not_count(place: str, root: Path, key: Path) -> None:
    """Git reads no parents after another field, so the commit would lose them."""
    git(root, "commit", "-q", "-S", "--allow-empty", "-m", "Second")
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    data = git(root, "cat-file", "commit", "HEAD") + "\n"
    header, _, message = data.partition("\n\n")
    at = header.index("\ngpgsig ")
    field, rest = header[at:], header[:at]
    line = "\nparent " if place == "after the tree" else "\nauthor "
    moved = rest.replace(line, f"{field}{line}", 1)
    with Repository(root) as repository:
        assert repository.is_signed_by(git(root, "rev-parse", "HEAD"), public)
        assert not repository.is_signed_by(_write_commit(root, f"{moved}\n\n{message}".encode()), public)


def test_a_commit_of_a_repository_with_sha256_is_signed(tmp_path: Path, key: Path) -> None:
    folder = tmp_path / "sha256"
    git(tmp_path, "init", "-q", "--object-format=sha256", str(folder))
    settings = (("user.name", "Ada"), ("user.email", "ada@x"), ("gpg.format", "ssh"), ("user.signingKey", str(key)))
    for name, value in settings:
        git(folder, "config", name, value)
    git(folder, "commit", "-q", "-S", "--allow-empty", "-m", "First")
    with Repository(folder) as repository:
        public = key.with_suffix(".pub").read_text(encoding="utf-8")
        assert repository.is_signed_by(git(folder, "rev-parse", "HEAD"), public)

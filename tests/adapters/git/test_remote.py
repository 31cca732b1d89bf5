"""Refs of another repository, which only the program moves: forwards, together, and never half. Cases 32, 34, 40 and 41."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.adapters.git.conftest import SAID, git, new_repository
from tests.adapters.git.silent import silent_server
from tests.support.killed import kill_when, killed_at

from allotment.adapters import processes
from allotment.adapters.git import remote as remotes
from allotment.adapters.git.commits import write_commit
from allotment.adapters.git.remote import Remote, RemoteLocked, RemoteTimeout, tracking_ref
from allotment.adapters.git.repository import Repository
from allotment.adapters.processes import Patience
from allotment.problems import OperationRefused

BRANCH, SOURCE = "refs/heads/rendered/eu-1", "refs/allotment/source/eu-1"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


@pytest.fixture
def remote(repository: Repository, bare: Path) -> Remote:
    return Remote(repository, str(bare))


def commit(repository: Repository, parent: str | None, **files: str) -> str:
    return write_commit(
        repository, [parent] if parent else [], {f"{name}.yaml": text.encode() for name, text in files.items()}, SAID
    )


def refs(bare: Path) -> dict[str, str]:
    lines = git(bare, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split() for line in lines)


def test_refs_move_together(remote: Remote, repository: Repository, bare: Path) -> None:
    assert remote.fetch(BRANCH, SOURCE) == {}
    branch_commit, two = commit(repository, None, a="1"), commit(repository, None, source="1")
    assert remote.push({BRANCH: branch_commit, SOURCE: two})
    assert remote.fetch(BRANCH, SOURCE) == refs(bare) == {BRANCH: branch_commit, SOURCE: two}
    assert git(repository.folder, "for-each-ref") == ""


def test_a_snapshot_is_read_until_the_next_snapshot_or_push(remote: Remote, repository: Repository, bare: Path) -> None:
    first_commit = commit(repository, None, a="1")
    remote.push({BRANCH: first_commit})
    remote.take_snapshot()
    second_commit = commit(repository, first_commit, a="2")
    git(repository.folder, "push", "-q", str(bare), f"{second_commit}:{BRANCH}", f"{second_commit}:{SOURCE}")
    assert remote.look(BRANCH, SOURCE) == remote.fetch(BRANCH, SOURCE) == {BRANCH: first_commit}
    assert remote.list_below("refs/heads/") == [BRANCH]
    assert remote.without_refs().look(BRANCH) == {BRANCH: second_commit}
    remote.take_snapshot()
    assert remote.look(SOURCE) == {SOURCE: second_commit}
    third_commit = commit(repository, second_commit, a="3")
    assert remote.push({BRANCH: third_commit})
    assert remote.look(BRANCH) == {BRANCH: third_commit}


def test_fetch_with_keep_leaves_a_ref_for_each_of_two_names_of_a_commit(
    bare: Path, repository: Repository, tmp_path: Path
) -> None:
    other_repository = new_repository(tmp_path / "there")
    first_commit = commit(other_repository, None, a="1")
    Remote(other_repository, str(bare)).push({BRANCH: first_commit, SOURCE: first_commit})
    Remote(repository, str(bare), keep=True).fetch(BRANCH, SOURCE)
    assert repository.find_refs(tracking_ref(BRANCH), tracking_ref(SOURCE)) == dict.fromkeys(
        (tracking_ref(BRANCH), tracking_ref(SOURCE)), first_commit
    )


def test_fetch_stores_objects_without_a_ref(remote: Remote, bare: Path, repository: Repository, tmp_path: Path) -> None:
    other_repository = new_repository(tmp_path / "there")
    first_commit = commit(repository, None, a="1")
    assert remote.push({BRANCH: first_commit})
    assert not other_repository.has_object(first_commit)
    assert Remote(other_repository, str(bare)).fetch(BRANCH) == {BRANCH: first_commit}
    assert set(other_repository.listing(first_commit)) == {"a.yaml"}
    assert git(other_repository.folder, "for-each-ref") == ""
    assert not (other_repository.folder / ".git/FETCH_HEAD").exists()


def test_push_moves_no_ref_after_a_competing_push(
    remote: Remote, repository: Repository, bare: Path, tmp_path: Path
) -> None:
    other_repository = new_repository(tmp_path / "there")
    other = Remote(other_repository, str(bare))
    base = commit(repository, None, a="1")
    assert remote.push({BRANCH: base, SOURCE: base})
    other.fetch(BRANCH)
    mine, theirs = commit(repository, base, mine="1"), commit(other_repository, base, theirs="1")
    assert other.push({BRANCH: theirs})
    assert not remote.push({BRANCH: mine, SOURCE: mine})
    assert refs(bare) == {BRANCH: theirs, SOURCE: base}, "neither of two refs moves"
    assert remote.fetch(BRANCH) == {BRANCH: theirs}
    assert remote.push({BRANCH: commit(repository, theirs, mine="1"), SOURCE: mine})


def test_a_ref_that_stays_is_compared_too(remote: Remote, repository: Repository, bare: Path, tmp_path: Path) -> None:
    base = commit(repository, None, a="1")
    later = commit(repository, base, a="2")
    assert remote.push({BRANCH: base, SOURCE: base})
    assert remote.push({BRANCH: later})
    assert not remote.push({BRANCH: base, SOURCE: later})
    assert refs(bare) == {BRANCH: later, SOURCE: base}


@pytest.mark.parametrize("strange", ["a commit", "a blob"])
def test_push_replaces_a_foreign_ref_only_at_the_expected_object(
    remote: Remote, repository: Repository, bare: Path, strange: str
) -> None:
    base, aside = commit(repository, None, a="1"), commit(repository, None, b="1")
    source_object = aside if strange == "a commit" else git(repository.folder, "rev-parse", f"{aside}:b.yaml")
    git(repository.folder, "push", "-q", str(bare), f"{base}:{BRANCH}", f"{source_object}:{SOURCE}")
    later = commit(repository, base, a="2")
    assert not remote.push({BRANCH: later, SOURCE: later}, {SOURCE: base}), "it has moved meanwhile"
    assert not remote.push({BRANCH: aside, SOURCE: later}, {SOURCE: source_object}), "the branch is forced for nobody"
    assert refs(bare) == {BRANCH: base, SOURCE: source_object}
    assert remote.push({BRANCH: later, SOURCE: later}, {SOURCE: source_object})
    assert refs(bare) == {BRANCH: later, SOURCE: later}


@pytest.mark.parametrize("moved", ["eu-10", "eu-99"])
def test_push_detects_a_competing_push_among_many_refs(
    moved: str, remote: Remote, repository: Repository, bare: Path, tmp_path: Path
) -> None:
    """Git's words on the ref that has moved come first or last among those on all others."""
    base = commit(repository, None, a="1")
    refs = {f"refs/heads/rendered/eu-{number}": base for number in range(10, 100)}
    assert remote.push(refs)
    other_repository = new_repository(tmp_path / "there")
    other = Remote(other_repository, str(bare))
    other.fetch(*refs)
    assert other.push({f"refs/heads/rendered/{moved}": commit(other_repository, base, a="theirs")})
    mine = commit(repository, base, a="mine")
    assert not remote.push(dict.fromkeys(refs, mine))


@pytest.mark.parametrize("ref", [BRANCH, SOURCE])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_lock_that_stays_is_no_lost_race(
    ref: str, is_first: bool, remote: Remote, repository: Repository, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "_LOCK_PAUSES", (0.01, 0.02, 0.04))
    base = commit(repository, None, a="1")
    before = {} if is_first else {BRANCH: base, SOURCE: base}
    if before:
        assert remote.push(before)
    later = commit(repository, base, a="2")
    lock = bare / f"{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    with pytest.raises(RemoteLocked, match=r"the lock '.*\.lock' is held there, still after 4 tries") as caught:
        remote.push({BRANCH: later, SOURCE: later})
    assert f"{ref}.lock'" in str(caught.value)
    assert refs(bare) == before
    lock.unlink()
    assert remote.push({BRANCH: later, SOURCE: later})


def test_a_lock_of_packed_refs_keeps_no_ref_from_moving(remote: Remote, repository: Repository, bare: Path) -> None:
    base = commit(repository, None, a="1")
    assert remote.push({BRANCH: base, SOURCE: base})
    git(bare, "pack-refs", "--all")
    (bare / "packed-refs.lock").touch()
    later = commit(repository, base, a="2")
    assert remote.push({BRANCH: later, SOURCE: later})
    assert refs(bare) == {BRANCH: later, SOURCE: later}


def test_a_lock_that_goes_is_waited_for(remote: Remote, repository: Repository, bare: Path) -> None:
    base = commit(repository, None, a="1")
    assert remote.push({BRANCH: base})
    lock = bare / f"{BRANCH}.lock"
    lock.touch()
    timer = threading.Timer(0.4, lock.unlink)
    timer.start()
    assert remote.push({BRANCH: commit(repository, base, a="2")})
    timer.join()


def test_a_ref_below_another_is_no_lost_race(remote: Remote, repository: Repository) -> None:
    base = commit(repository, None, a="1")
    assert remote.push({BRANCH: base})
    with pytest.raises(OperationRefused, match=r"took no push to refs/heads/rendered/eu-1/x"):
        remote.push({f"{BRANCH}/x": base})


def test_two_first_commits_do_not_replace_each_other(
    remote: Remote, repository: Repository, bare: Path, tmp_path: Path
) -> None:
    other_repository = new_repository(tmp_path / "there")
    theirs = commit(other_repository, None, theirs="1")
    assert Remote(other_repository, str(bare)).push({BRANCH: theirs})
    assert not remote.push({BRANCH: commit(repository, None, mine="1")})
    assert refs(bare) == {BRANCH: theirs}


def test_fetch_with_keep_moves_the_ref_to_the_newest_commit(
    remote: Remote, repository: Repository, bare: Path, tmp_path: Path
) -> None:
    other_repository = new_repository(tmp_path / "there")
    first_commit = commit(repository, None, a="1")
    assert remote.push({BRANCH: first_commit})
    keeping = Remote(other_repository, str(bare), keep=True)
    assert keeping.fetch(BRANCH) == {BRANCH: first_commit}
    two = commit(repository, first_commit, a="2")
    assert remote.push({BRANCH: two})
    assert keeping.fetch(BRANCH) == {BRANCH: two}
    assert (
        git(other_repository.folder, "for-each-ref", "--format=%(refname) %(objectname)")
        == f"refs/allotment/seen/{BRANCH} {two}"
    )


def test_ancestry(repository: Repository) -> None:
    base = commit(repository, None, a="1")
    later, aside = commit(repository, base, a="2"), commit(repository, base, a="3")
    assert [repository.is_ancestor(base, candidate) for candidate in (base, later, aside)] == [True, True, True]
    assert [repository.is_ancestor(later, candidate) for candidate in (base, aside)] == [False, False]


def test_a_remote_that_says_no_is_told_with_its_words(remote: Remote, repository: Repository, bare: Path) -> None:
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho rendered branches are closed today; exit 1\n")
    hook.chmod(0o755)
    with pytest.raises(
        OperationRefused, match=r"took no push to refs/heads/rendered/eu-1: .*branches are closed today"
    ):
        remote.push({BRANCH: commit(repository, None, a="1")})


@pytest.mark.parametrize(
    "url", ["/no/such/place", "--upload-pack=touch pwned", "ext::sh -c 'exit 3'", "https://127.0.0.1:1/x.git"]
)
def test_a_remote_that_is_none_is_told(url: str, repository: Repository) -> None:
    with pytest.raises(OperationRefused, match=r"doesn't answer|this clone has no remote named '--upload-pack"):
        Remote(repository, url).fetch(BRANCH)


@pytest.mark.parametrize("named", [True, False])
def test_a_password_with_a_slash_is_not_shown(named: bool, repository: Repository) -> None:
    url = "https://me:pa/ssWord99@127.0.0.1:1/x.git"
    if named:
        git(repository.folder, "remote", "add", "origin", url)
    with pytest.raises(OperationRefused, match="write %2F for a slash") as caught:
        Remote(repository, "origin" if named else url)
    assert "ssWord99" not in str(caught.value)
    for fine in ("https://forge.example:8443/team@home/x.git", "https://forge.example/a:b/c@d"):
        assert Remote(repository, fine).url == fine


def test_a_password_is_not_shown(repository: Repository) -> None:
    remote = Remote(repository, "https://bot:s3cret@127.0.0.1:1/x.git")
    assert str(remote) == "https://127.0.0.1:1/x.git"
    for call in (lambda: remote.fetch(BRANCH), lambda: remote.push({BRANCH: commit(repository, None, a="1")})):
        with pytest.raises(OperationRefused, match=r"'https://127.0.0.1:1/x.git'") as caught:
            call()
        assert "s3cret" not in str(caught.value)


def test_hooks_of_the_checkout_do_not_run(remote: Remote, repository: Repository, tmp_path: Path) -> None:
    for name in ("pre-push", "reference-transaction", "post-index-change"):
        hook = repository.folder / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\n")
        hook.chmod(0o755)
    assert remote.push({BRANCH: commit(repository, None, a="1")})
    assert list(tmp_path.glob("ran-*")) == []


PUBLISH = """
import sys
import threading
import time
from pathlib import Path
from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
folder, url, branch, source, number = sys.argv[1:]
repository = Repository(Path(folder))
remote = Remote(repository, url)
said = CommitMessage("Publish", b"ada <ada@northlight.example> 1767225600 +0100")
tip = remote.fetch(branch).get(branch)
new = {f"folder-{n}/file.yaml": f"{number}\\n".encode() for n in range(200)}
made = write_commit(repository, [tip] if tip else [], new, said)
assert remote.push({branch: made, source: made})
"""


@pytest.mark.process
def test_a_kill_at_any_step_leaves_one_state_or_the_other(
    remote: Remote, repository: Repository, bare: Path, tmp_path: Path
) -> None:
    def published() -> str:
        """Return the number that all files have."""
        remote_refs = remote.fetch(BRANCH, SOURCE)
        assert len(set(remote_refs.values())) <= 1
        if BRANCH not in remote_refs:
            return ""
        git(bare, "fsck", "--connectivity-only", remote_refs[BRANCH])
        listing = repository.listing(remote_refs[BRANCH])
        assert (len(listing), len(set(listing.values()))) == (200, 1), "a mix of two states"
        return repository.read(next(iter(listing.values()))).decode().strip()

    def killed(step: int, number: int) -> tuple[bool, bool]:
        words = (str(repository.folder), str(bare), BRANCH, SOURCE, str(number))
        before, run = published(), killed_at(step, tmp_path / "said", "-c", PUBLISH, *words)
        after = published()
        assert after in (before, str(number))
        return run.killed, after == str(number)

    seen: list[tuple[bool, bool]] = []
    while not seen or seen[-1][0]:
        seen.append(killed(len(seen) + 1, len(seen)))
    assert len(seen) > 3, "before the commit, between commit and push"
    assert seen == [(True, False)] * (len(seen) - 1) + [(False, True)]
    kill_when(bare, "received")
    assert killed(0, 100) == (True, False)
    kill_when(bare, "committed")
    assert killed(0, 101) == (True, True)


SHORT = Patience(silent_seconds=0.5, total_seconds=1.0)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\nContent-Length: 9999\r\n\r\n"


@pytest.mark.parametrize(
    ("scheme", "first", "trickle"),
    [("http", b"", b""), ("http", HEAD, b""), ("http", HEAD, b"0"), ("git", b"", b""), ("git", b"0", b"")],
)
def test_a_remote_that_never_answers_is_left(scheme: str, first: bytes, trickle: bytes, repository: Repository) -> None:
    with silent_server(first, trickle) as port:
        url = f"{scheme}://127.0.0.1:{port}/x.git"
        remote = Remote(repository, url, look=SHORT, transfer=SHORT)
        with pytest.raises(RemoteTimeout) as caught:
            remote.fetch(BRANCH)
        with pytest.raises(RemoteTimeout, match=r"keeps git push waiting"):
            remote.push({BRANCH: commit(repository, None, a="1")})
    message = str(caught.value)
    assert message == (
        f"'{url}' keeps git ls-remote waiting: it made no progress for 0.5 seconds. See whether the server and the network"
        " to it work, then try again"
    )
    _wait_for_the_end_of(url)


def test_a_wait_for_a_silent_remote_is_told(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "NOTICE_SECONDS", 0.1)
    with silent_server() as port:
        url = f"http://user:pa55word@127.0.0.1:{port}/x.git"
        with pytest.raises(RemoteTimeout):
            Remote(repository, url, look=SHORT).look(BRANCH)
    assert caplog.messages == [f"waiting for 'http://127.0.0.1:{port}/x.git', which does not answer"]


def test_a_remote_that_never_ends_is_left(remote: Remote, repository: Repository, bare: Path) -> None:
    """Its hook writes something again and again, so that the silence is never long."""
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nwhile echo still working >&2; do sleep 0.1; done\n")
    hook.chmod(0o755)
    impatient = Remote(repository, str(bare), transfer=Patience(silent_seconds=30, total_seconds=1.0))
    with pytest.raises(RemoteTimeout, match=r"keeps git push waiting: it didn't end within 1 seconds\."):
        impatient.push({BRANCH: commit(repository, None, a="1")})
    _wait_for_the_end_of(str(bare))
    assert refs(bare) == {}


@pytest.mark.process
def test_a_slow_fetch_that_progresses_is_not_ended(repository: Repository, bare: Path, tmp_path: Path) -> None:
    """1.5 MB in parts of 20 KB, 0.04 seconds apart, take 3 seconds: longer than the silence that ends a fetch."""
    tip = commit(repository, None, **{f"f{number}": os.urandom(100_000).hex() for number in range(15)})
    assert Remote(repository, str(bare)).push({BRANCH: tip})
    slow = tmp_path / "slow"
    slow.write_text(f"#!{sys.executable}\n{SLOW_PACK}")
    slow.chmod(0o755)
    other_repository = new_repository(tmp_path / "there")
    git(other_repository.folder, "config", "remote.slow.url", str(bare))
    git(other_repository.folder, "config", "remote.slow.uploadpack", str(slow))
    assert Remote(other_repository, "slow", transfer=Patience(silent_seconds=2.0, total_seconds=60)).fetch(BRANCH) == {
        BRANCH: tip
    }
    assert other_repository.has_object(tip)


SLOW_PACK = """
import subprocess, sys, time
upload = subprocess.Popen(["git-upload-pack", *sys.argv[1:]], stdout=subprocess.PIPE)
while data := upload.stdout.read1(20_000):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    time.sleep(0.04)
"""


def _wait_for_the_end_of(text: str) -> None:
    """Wait until no process names a text; the system removes killed processes a moment later."""
    for _ in range(200):
        if not _commands_that_name(text):
            return
        time.sleep(0.05)
    assert _commands_that_name(text) == []


def _commands_that_name(text: str) -> list[bytes]:
    """Return the command lines of processes that name a text, this one left out."""
    command_lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in (words := file.read_bytes()):
                command_lines.append(words)
    return command_lines


@pytest.mark.parametrize("name", ["refs/heads/a\u2028b/refs/heads/main", "refs/tags/v1\u0085x/HEAD"])
def test_a_ref_with_a_line_separator_in_its_name_hides_no_other(
    name: str, remote: Remote, repository: Repository, bare: Path
) -> None:
    tip = commit(repository, None, a="1")
    assert remote.push({"refs/heads/main": tip})
    git(bare, "update-ref", name, tip)
    assert remote.look("refs/heads/main", "HEAD") == {"refs/heads/main": tip}
    assert set(remote.list_below("refs/")) == {"refs/heads/main", name}


def test_a_push_takes_no_tags_along(remote: Remote, repository: Repository, bare: Path) -> None:
    tip = commit(repository, None, a="1")
    git(repository.git.folder, "config", "push.followTags", "true")
    git(repository.git.folder, "-c", "user.name=a", "-c", "user.email=a@x", "tag", "-a", "-m", "Mine", "private", tip)
    assert remote.push({"refs/heads/main": tip})
    assert set(refs(bare)) == {"refs/heads/main"}


def test_a_remote_with_longer_object_ids_is_refused_in_a_sentence(tmp_path: Path) -> None:
    source = tmp_path / "source"
    git(tmp_path, "init", "-q", "--object-format=sha256", "-b", "main", str(source))
    git(
        source, "-c", "user.name=a", "-c", "user.email=a@northlight.example", "commit", "-q", "--allow-empty", "-m", "x"
    )
    remote = Remote(new_repository(tmp_path / "clone"), str(source))
    with pytest.raises(
        OperationRefused, match=r"object IDs of different lengths \(SHA-1 and SHA-256\), and Git fetches"
    ):
        remote.look("refs/heads/main")

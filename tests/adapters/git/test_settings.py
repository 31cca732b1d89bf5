"""No setting of a person changes what Allotment reads, commits, merges or pushes. Each setting is tried alone, on real Git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.adapters.git.conftest import SAID, git

from allotment.adapters.git.checkout import advance_branch
from allotment.adapters.git.commits import write_commit
from allotment.adapters.git.history import find_files_with, find_first_change, list_first_parents
from allotment.adapters.git.merge import list_changed_files, merge_tree_of
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.sandbox_repository import sandbox_repository
from allotment.adapters.git.uncommitted import differing_paths
from allotment.adapters.git.work_tree import commit_of_folder
from allotment.problems import OperationRefused

FILE = "tenants/ada/instances/webui.yaml"
SETTINGS = [
    *(f"color.{name}=always" for name in ("ui", "status", "diff", "branch")),
    *(f"core.{name}" for name in ("pager=false", "editor=false", "askPass=false", "abbrev=4", "commentChar=a")),
    *(f"core.{name}" for name in ("quotePath=true", "ignoreCase=true", "precomposeUnicode=true", "splitIndex=true")),
    *(
        f"core.{name}"
        for name in ("untrackedCache=true", "fsmonitor=true", "fsmonitor=/bin/false", "preloadIndex=false")
    ),
    *(
        f"core.{name}"
        for name in ("logAllRefUpdates=always", "logAllRefUpdates=false", "fileMode=false", "symlinks=false")
    ),
    *(
        f"core.{name}"
        for name in ("excludesFile=/nonexistent", "attributesFile=/nonexistent", "hooksPath=/nonexistent")
    ),
    *(
        f"core.{name}"
        for name in ("safecrlf=true", "sparseCheckout=false", "commitGraph=false", "multiPackIndex=false")
    ),
    *("log.showSignature=true", "log.date=relative", "log.decorate=full", "log.follow=true", "log.mailmap=true"),
    *(
        "log.showRoot=false",
        "format.pretty=oneline",
        "grep.lineNumber=true",
        "grep.fullName=true",
        "grep.patternType=perl",
    ),
    *(
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "diff.renames=copies",
        "diff.external=false",
        "diff.wordRegex=.",
    ),
    *("diff.orderFile=/nonexistent", "diff.relative=true", "diff.ignoreSubmodules=all", "diff.algorithm=patience"),
    *(
        "push.default=nothing",
        "push.default=matching",
        "push.followTags=true",
        "push.gpgSign=true",
        "push.gpgSign=if-asked",
    ),
    *("push.pushOption=ci.skip", "push.recurseSubmodules=only", "push.autoSetupRemote=true", "push.negotiate=true"),
    *("remote.origin.mirror=true", "remote.origin.push=+refs/heads/*:refs/heads/*", "remote.pushDefault=elsewhere"),
    *("remote.origin.prune=true", "remote.origin.tagOpt=--tags", "remote.origin.fetch=+refs/heads/*:refs/heads/*"),
    *("fetch.prune=true", "fetch.pruneTags=true", "fetch.all=true", "fetch.parallel=0", "fetch.output=compact"),
    *("fetch.negotiationAlgorithm=noop", "fetch.writeCommitGraph=true", "fetch.recurseSubmodules=true"),
    *("protocol.version=0", "transfer.fsckObjects=true", "transfer.bundleURI=true", "transfer.unpackLimit=1"),
    *("i18n.commitEncoding=UTF-16", "i18n.commitEncoding=klingon", "i18n.logOutputEncoding=UTF-16"),
    *("commit.verbose=true", "commit.cleanup=scissors", "commit.template=/nonexistent", "tag.gpgSign=true"),
    *("merge.ff=only", "merge.renames=false", "merge.directoryRenames=true", "merge.conflictStyle=diff3"),
    *("merge.verifySignatures=true", "merge.renormalize=true", "rerere.enabled=true", "submodule.recurse=true"),
    *("status.short=true", "status.branch=true", "status.showUntrackedFiles=no", "status.relativePaths=true"),
    *("alias.log=!false", "column.ui=always", "advice.detachedHead=true", "branch.autoSetupMerge=always"),
    *("init.defaultBranch=trunk", "init.templateDir=/nonexistent", "gc.auto=1", "feature.manyFiles=true"),
    *("index.version=4", "index.sparse=true", "pack.writeReverseIndex=true", "user.useConfigOnly=true"),
    *(
        "credential.helper=!false",
        "safe.bareRepository=explicit",
        "url.ssh://nowhere.example/.insteadOf=https://x.example/",
    ),
    "core.compression=9",
]
# Contents of a configuration that only Git itself reads correctly.
CONTENTS = {
    "another encoding in a name": b"[user]\n\tname = J\xfcrgen\n",
    "another encoding in a comment": b"# f\xfcr mich\n[core]\n",
    "a byte order mark": b"\xef\xbb\xbf[core]\n\tabbrev = 7\n",
    "a setting twice": b"[core]\n\tabbrev = 7\n[core]\n\tabbrev = 8\n",
    "a missing included file": b"[include]\n\tpath = /nonexistent\n",
    "a condition on remotes": b'[includeIf "hasconfig:remote.*.url:**/there.git"]\n\tpath = more\n',
    "a condition on branches": b'[includeIf "onbranch:main"]\n\tpath = more\n[includeIf "gitdir/i:**"]\n\tpath = more\n',
    "a value over two lines": b"[core]\n\tpager = less \\\n -R\n",
    "a setting without a value": b"[core]\n\tlogAllRefUpdates\n",
    "quotes and escapes": b'[user "a \\" b]"]\n\tname = "x \\" # ; y"\n',
    "other line ends": b"[core]\r\n\tabbrev = 7\r\n",
}


class Outcome(NamedTuple):
    """What Allotment read, and what it left in both repositories."""

    read: tuple[object, ...]
    status: str
    refs: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a clone `here` and its remote `there.git`, which has three commits on main and a side branch."""
    folder = tmp_path_factory.mktemp("settings")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")

    def run(*words: str) -> None:
        subprocess.run(["git", "-C", str(folder), *words], check=True, env=environment, capture_output=True)

    run("init", "-q", "--bare", "--initial-branch=main", "there.git")
    run("init", "-q", "--initial-branch=main", "here")
    path = folder / "here" / FILE
    path.parent.mkdir(parents=True)
    for number, branch in enumerate(("main", "main", "side", "main")):
        if number:
            run("-C", "here", "switch", "-q", *(() if branch == "main" else ("-c",)), branch)
        path.write_text(f"a: 0\nb: 0\n{'c: 1' if branch == 'side' else f'number: {number}'}\n")
        if branch == "side":
            path.with_name("räum 1.yaml").write_text("x: 1\n")
            path.write_text(path.read_text().replace("c: 1\n", "number: 1\n"))
        run("-C", "here", "add", ".")
        run("-C", "here", *identity, "commit", "-q", "--date=1767225600 +0100", "-m", f"Write {number}")
    run("-C", "here", "remote", "add", "origin", "../there.git")
    run("-C", "here", "push", "-q", "origin", "main", "side")
    return folder


def work(here: Path) -> tuple[object, ...]:
    """Read, plan, commit, fetch and push as the commands do, and return the results."""
    with Repository(here) as repository:
        main, side = (repository.resolve_named_commit(f"refs/heads/{name}") for name in ("main", "side"))
        (here / FILE).write_text("a: 5\nb: 0\nnumber: 3\n")
        (here / "tenants/ada/new.yaml").write_text("ü: 1\n")
        changed = differing_paths(repository, main, ["tenants"])
        with sandbox_repository(repository, main) as sandbox:
            folder_commit = commit_of_folder(repository, sandbox, here, main, 1 << 20)
            planned = tuple(list_changed_files(sandbox, main, folder_commit))
        merged = merge_tree_of(repository, main, side)
        history = (
            find_files_with(repository, main, "number", ["tenants"]),
            find_first_change(repository, main, "number: 3", [FILE]),
            list_first_parents(repository, main, ["tenants"], 10),
        )
        message = repository.last_message(main, "tenants/ada")
        commit = write_commit(repository, [main], {FILE: (here / FILE).read_bytes()}, SAID)
        advance_branch(repository, main, commit, [FILE])
        origin = Remote(repository, "origin", keep=True)
        listed = tuple(sorted(origin.look("refs/heads/main", "refs/heads/side").items()))
        fetched = tuple(origin.fetch("refs/heads/side").items())
        is_pushed = origin.push({"refs/heads/main": commit, "refs/heads/rendered/eu-1": side})
        content = repository.read_at(commit, FILE)
        author = repository.author(commit)
    return changed, planned, merged, history, message, listed, fetched, is_pushed, content, author, commit


def outcome_with(place: Path, folder: Path, configuration: bytes, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Return the outcome of the work with a configuration of the person, seen without this configuration."""
    shutil.copytree(place, folder, symlinks=True)
    file = folder / "gitconfig"
    file.write_bytes(configuration)
    with monkeypatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(file))
        patch.setenv("GIT_COMMITTER_DATE", "1767225600 +0000")
        read = work(folder / "here")
    status = git(folder / "here", "status", "--porcelain", "--branch")
    return Outcome(read, status, git(folder / "there.git", "show-ref"))


@pytest.fixture(scope="module")
def expected(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_COMMITTER_NAME", "allotment")
        patch.setenv("GIT_COMMITTER_EMAIL", "allotment@northlight.example")
        return outcome_with(place, tmp_path_factory.mktemp("neutral") / "copy", b"", patch)


def test_the_neutral_outcome_has_each_part(expected: Outcome) -> None:
    changed, planned, merged, *_, is_pushed, content, author, commit = expected.read
    assert changed == [FILE, "tenants/ada/new.yaml"]
    assert [change.path for change in planned] == [FILE, "tenants/ada/new.yaml"]
    assert (isinstance(merged, str), is_pushed, content) == (True, True, b"a: 5\nb: 0\nnumber: 3\n")
    assert author == SAID.author
    assert f"{commit} refs/heads/main" in expected.refs
    assert "refs/heads/rendered/eu-1" in expected.refs


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_changes_nothing(
    setting: str, place: Path, expected: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "written"
    name, _, value = (
        setting.partition("=")
        if not setting.startswith("url.")
        else ("url.ssh://nowhere.example/.insteadOf", "", "https://x.example/")
    )
    subprocess.run(["git", "config", "--file", str(file), name, value], check=True)
    assert outcome_with(place, tmp_path / "copy", file.read_bytes(), monkeypatch) == expected


@pytest.mark.parametrize("name", CONTENTS)
def test_a_configuration_in_an_odd_form_changes_nothing(
    name: str, place: Path, expected: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome_with(place, tmp_path / "copy", CONTENTS[name], monkeypatch) == expected


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        (b"[broken\n", "bad config line 1 in file"),
        (b"[user]\n\tname\n", "missing value for 'user.name'"),
        (b"[core]\n\tcompression = 99\n", "bad zlib compression level 99"),
        (b"[core]\n\tfileMode = maybe\n", "bad boolean config value 'maybe'"),
        (b"[include]\n\tpath = gitconfig\n", "exceeded maximum include depth"),
        (b"[include]\n\tpath = /\n", "Is a directory"),
    ],
)
def test_a_configuration_that_git_refuses_is_one_sentence(
    configuration: bytes, reason: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OperationRefused, match="Git can't open the repository") as refused:
        outcome_with(place, tmp_path / "copy", configuration, monkeypatch)
    assert reason in str(refused.value)


def test_a_name_in_another_encoding_is_the_committer(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NAME", "EMAIL"):
        monkeypatch.delenv(f"GIT_COMMITTER_{name}")
    configuration = b"[user]\n\tname = J\xfcrgen\n\temail = j@b\n"
    outcome = outcome_with(place, tmp_path / "copy", configuration, monkeypatch)
    commit = str(outcome.read[-1])
    stored = subprocess.run(
        ["git", "cat-file", "commit", commit], cwd=tmp_path / "copy/here", capture_output=True, check=True
    )
    assert b"\ncommitter J\xfcrgen <j@b> 1767225600 +0000\n" in stored.stdout

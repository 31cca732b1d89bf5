"""The default branch of origin says which branch counts as merged; a checked-out branch that names itself decides nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.conftest import Allot, edit
from tests.support.doctor_output import lines
from tests.support.published import Place, git
from tests.support.signing_keys import declare, new_key
from tests.support.unmerged_branch import AUTHOR, PLATFORM, check_out_branch

from allotment.adapters import forge
from allotment.adapters.git.commands import GitCommands
from allotment.problems import OperationRefused

WEBUI = "tenants/solo-ada/instances/webui.yaml"


@pytest.mark.parametrize("pushed", [True, False])
def test_publish_refuses_it(published: Place, pushed: bool) -> None:
    before, commit = published.refs(), check_out_branch(published, pushed=pushed)
    result = published.publish()
    assert (result.code, result.out) == (2, "")
    assert f"{commit[:12]} isn't in the branch main of origin" in result.err
    assert {name: tip for name, tip in published.refs().items() if name != "refs/heads/mine"} == before
    assert "allot publish will refuse this commit" in published.publish("--dry-run").err


def test_a_dry_run_of_it_asks_no_repository_that_it_names(published: Place) -> None:
    check_out_branch(published, (PLATFORM, "branch: mine", "branch: mine\n    rendered: https://127.0.0.1:9/evil"))
    result = published.publish("--dry-run")
    assert (result.code, "127.0.0.1:9" in result.out + result.err) == (0, False), result.err
    assert "allot publish will refuse this commit" in result.err


def test_a_trial_of_it_reads_no_status_that_it_names(published: Place, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "trial.git")
    trial = "--to", str(tmp_path / "trial.git")
    check_out_branch(published, (PLATFORM, "branch: mine", "branch: mine\n    status: https://127.0.0.1:9/evil"))
    for words in ([], ["--dry-run"]):
        result = published.publish(*trial, *words)
        assert (result.code, "127.0.0.1:9" in result.out + result.err) == (0, False), result.err
    git(published.root, "remote", "rename", "origin", "upstream")
    result = published.publish(*trial)
    assert (result.code, "127.0.0.1:9" in result.out + result.err) == (0, False), result.err
    assert "origin doesn't name the repository of the status branches" in result.err


def test_a_shallow_clone_of_it_asks_no_repository_that_it_names(published: Place, allot: Allot, tmp_path: Path) -> None:
    check_out_branch(published, (PLATFORM, "branch: mine", "branch: mine\n    rendered: https://127.0.0.1:9/evil"))
    url = f"file://{published.remote}"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=mine", url, str(tmp_path / "shallow"))
    refused = allot("publish", "--repo", tmp_path / "shallow")
    assert (refused.code, "may not be merged, and this clone is shallow" in refused.err) == (2, True)
    for words in ([], ["--dry-run"]):
        result = allot("publish", "--repo", tmp_path / "shallow", *words)
        assert "127.0.0.1:9" not in result.out + result.err


def test_a_trial_of_it_gets_no_signature_that_counts_elsewhere(published: Place, tmp_path: Path) -> None:
    key = new_key(tmp_path, "key")
    declare(published, key)
    published.merge()
    assert published.publish("--adopt", "--signing-key", key).code == 0
    git(tmp_path, "init", "-q", "--bare", "trial.git")
    check_out_branch(published)
    signed = published.publish("--to", str(tmp_path / "trial.git"), "--signing-key", key)
    assert (signed.code, "isn't merged, and every repository would trust its signature" in signed.err) == (2, True)
    url = git(published.root, "remote", "get-url", "origin").strip()
    git(published.root, "remote", "set-url", "origin", "https://127.0.0.1:9/x")
    signed = published.publish("--to", str(tmp_path / "trial.git"), "--signing-key", key)
    assert (signed.code, "may not be merged, because origin doesn't answer" in signed.err) == (2, True)
    production = published.publish("--to", str(published.remote))
    assert (production.code, "has a signature, so no trial may change it" in production.err) == (2, True)
    git(published.root, "remote", "set-url", "origin", url)
    production = published.publish("--to", str(published.remote))
    assert (production.code, "has a signature, so no trial may change it" in production.err) == (2, True)
    for name, value in (("commit.gpgSign", "true"), ("gpg.format", "ssh"), ("user.signingKey", str(key))):
        git(published.root, "config", name, value)
    assert published.publish("--to", str(tmp_path / "trial.git")).code == 0
    assert b"gpgsig" not in git(tmp_path / "trial.git", "cat-file", "commit", "rendered/eu-1").encode()


@pytest.mark.parametrize("command", ["status", "catalog", "bill", "wait", "recover", "instance list", "history"])
@pytest.mark.parametrize("fault", ["no origin", "no branch"])
def test_a_checkout_names_no_repository_where_nothing_counts_as_merged(
    fault: str, command: str, published: Place, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "no branch":
        edit(published.root, PLATFORM, "branch: main", "branch: release")
        published.merge()
    evil = tmp_path / "evil.git"
    git(tmp_path, "clone", "-q", "--bare", str(published.remote), str(evil))
    git(published.root, "config", f"url.{evil}.insteadOf", "https://evil.example/gpus")
    git(published.root, "checkout", "-q", "-b", "mine")
    (line,) = [text for text in (published.root / PLATFORM).read_text().splitlines() if "branch: " in text]
    hosts = f"{line}\n    rendered: https://evil.example/gpus\n    status: https://evil.example/gpus"
    edit(published.root, PLATFORM, line, hosts)
    git(published.root, *AUTHOR, "commit", "-q", "-a", "-m", "Mine")
    if fault == "no origin":
        git(published.root, "remote", "rename", "origin", "upstream")
    words = {
        "bill": ["--month", "2026-10"],
        "wait": ["solo-ada/webui", "--timeout", "1s"],
        "recover": ["solo-ada/models", "--reason", "x"],
        "history": ["solo-ada/webui"],
    }
    (tmp_path / "trace").touch()
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    result = allot(*command.split(), *words.get(command, []), "--repo", published.root)
    trace = (tmp_path / "trace").read_text()
    assert ("git" in trace or "no remote named origin" in result.err, "evil" in trace) == (True, False), result


def add_nested_declarations(place: Place) -> Path:
    """Commit declarations in a subfolder, which name their own branch, and the files of a bare repository beside them."""
    folder = place.root / "teams"
    git(place.root, "push", "-q", "origin", "main:refs/heads/evil")
    git(place.root, "fetch", "-q", "origin")
    git(place.root, "remote", "set-head", "origin", "main")
    for name in ("platform", "clusters", "tenants"):
        shutil.copytree(place.root / name, folder / name)
    edit(folder, PLATFORM, "branch: main", "branch: evil")
    (folder / "HEAD").write_text("ref: refs/heads/evil\n")
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True)
        (folder / name / ".keep").touch()
    git(place.root, "add", "-A")
    git(place.root, *AUTHOR, "commit", "-q", "-m", "Mine")
    return folder


def test_nested_declarations_choose_no_base(published: Place, allot: Allot) -> None:
    result = allot("plan", "--repo", add_nested_declarations(published))
    assert "origin/evil" not in result.out + result.err
    assert (result.code, "has no folder teams" in result.err) == (2, True)


def test_a_trial_asks_no_folder_of_the_checkout(
    published: Place, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "--bare", "trial.git")
    folder = add_nested_declarations(published)
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    trial = allot("publish", "--to", tmp_path / "trial.git", "--repo", folder)
    assert trial.code in (0, 4), trial.err
    assert f"upload-pack {folder}" not in (tmp_path / "trace").read_text()


def test_a_repository_that_one_command_names_is_not_believed_later(
    published: Place, allot: Allot, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(published.remote), "trial.git")
    words = ("commit-tree", "-m", "Status", "main^{tree}")
    commits = [git(place, *AUTHOR, *words, "-m", place.name) for place in (published.remote, tmp_path / "trial.git")]
    for place, commit in zip((published.remote, tmp_path / "trial.git"), commits, strict=True):
        git(place, "update-ref", "refs/heads/status/eu-1", commit)
    allot("status", "solo-ada", "--from", tmp_path / "trial.git", "--repo", published.root)
    assert commits[1] in git(published.root, "cat-file", "--batch-all-objects", "--batch-check")
    assert "status" not in git(published.root, "for-each-ref", "refs/allotment/seen")
    allot("status", "solo-ada", "--repo", published.root)
    assert commits[0] in git(published.root, "for-each-ref", "refs/allotment/seen"), "the declared repository"


def test_a_default_branch_names_another_branch(published: Place) -> None:
    edit(published.root, PLATFORM, "branch: main", "branch: live")
    commit = published.merge()
    git(published.root, "push", "-q", "origin", "main:live")
    assert published.publish().code == 0
    assert published.refs()["refs/allotment/source"] == commit


def test_publish_needs_an_origin_or_a_named_repository(published: Place, tmp_path: Path) -> None:
    git(published.root, "remote", "remove", "origin")
    result = published.publish()
    assert result.code == 2
    assert "this repository has no remote named origin, so no commit counts as merged" in result.err
    assert published.publish("--to", published.remote).code == 0


def test_without_the_branch_nothing_is_published_again(published: Place, allot: Allot) -> None:
    edit(published.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    git(published.root, *AUTHOR, "commit", "-q", "-a", "-m", "Mine")
    before = published.refs()
    git(published.remote, "update-ref", "-d", "refs/heads/main")
    result = published.publish()
    assert result.code == 2
    assert "origin has no branch main, so no commit counts as merged: push the branch" in result.err
    assert published.refs() == before
    status = allot("status", "--repo", published.root)
    assert status.err.startswith("declared: HEAD (origin has no branch main) at ")
    error = "error rendered branches: origin has no branch main, so no commit counts as merged: push the branch again"
    assert any(line.startswith(error) for line in lines(allot, published.root))


def test_status_and_plan_count_what_is_merged(published: Place, allot: Allot) -> None:
    git(published.root, "remote", "set-head", "origin", "main")
    main = git(published.root, "rev-parse", "main")
    check_out_branch(published, (WEBUI, "spec:\n", "spec:\n  state: Stopped\n"))
    assert allot("status", "--repo", published.root).err.startswith(f"declared: main of origin at {main[:12]}, ")
    plan = allot("plan", "--repo", published.root)
    assert "instance webui" in plan.out
    assert "spec.git" in allot("plan", "--repo", published.root, "--diffs").out + plan.out


@pytest.mark.parametrize("words", [("instance", "list"), ("storage", "list"), ("portal", "build", "--out", "{out}")])
def test_the_token_goes_to_the_merged_forge(
    published: Place, allot: Allot, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_out_branch(published, (PLATFORM, "https://github.com/northlight-example", "https://elsewhere.example/eve"))
    urls = []

    def connect(kind: str, url: str, *_: object) -> None:
        urls.append(url)
        raise OperationRefused("not in this test")

    monkeypatch.setenv("ALLOT_FORGE_TOKEN", "t0ken")
    monkeypatch.setattr(forge, "connect", connect)
    arguments = [word.format(out=tmp_path / "site") for word in words]
    allot(*arguments, "--pending", "--repo", published.root)
    assert urls == ["https://github.com/northlight-example/gpus"]


def test_a_platform_of_the_checkout_in_a_folder_of_a_tenant_decides_nothing(
    published: Place, allot: Allot, tmp_path: Path
) -> None:
    """A stranger pushed a branch `main` that is not the branch of declarations, with a repository below a tenant."""
    edit(published.root, PLATFORM, "branch: main", "branch: live")
    published.merge()
    git(published.root, "push", "-q", "origin", "main:live")
    git(published.remote, "symbolic-ref", "HEAD", "refs/heads/live")
    nested = published.root / "tenants/solo-ada"
    for folder in ("platform", "clusters"):
        shutil.copytree(published.root / folder, nested / folder)
    edit(nested, PLATFORM, "branch: live", "branch: main\n    rendered: https://127.0.0.1:9/evil")
    git(published.root, "add", "-A")
    git(published.root, *AUTHOR, "commit", "-q", "-m", "Nested")
    new_key(tmp_path, "key")
    before = published.refs()
    for is_pushed in (False, True):
        if is_pushed:
            git(published.root, "push", "-q", "origin", "HEAD:main")
            before = published.refs()
        result = allot("publish", "--repo", nested, "--signing-key", tmp_path / "key")
        assert (result.code, "127.0.0.1:9" in result.out + result.err) == (2, False), result
        assert "has no readable platform/platform.yaml in this folder, so no commit counts as merged" in result.err
        assert published.refs() == before
        closing = allot("month", "close", "2026-10", "--repo", nested, "--signing-key", tmp_path / "key")
        assert closing.code == 2
        assert "so no commit counts as merged" in closing.err


def test_a_branch_that_origin_lacks_is_not_published_where_the_checkout_says(published: Place, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "evil.git")
    check_out_branch(published, (PLATFORM, "branch: mine", f"branch: mine\n    rendered: file://{tmp_path}/evil.git"))
    git(published.remote, "update-ref", "-d", "refs/heads/main")
    new_key(tmp_path, "key")
    result = published.publish("--signing-key", str(tmp_path / "key"))
    assert (result.code, "so no commit counts as merged" in result.err) == (2, True)
    assert git(tmp_path / "evil.git", "for-each-ref") == ""


def test_a_repository_that_git_cannot_read_is_no_folder_without_origin(published: Place, allot: Allot) -> None:
    """Else the hosts of the checkout would count as merged."""
    shutil.rmtree(published.root / ".git/refs")
    opened = allot("instance", "open", "solo-ada/webui", "--repo", published.root)
    assert (opened.code, opened.out, "Git can't open the repository" in opened.err) == (2, "", True)


@pytest.mark.parametrize("is_in_environment", [True, False])
def test_a_bare_repository_in_place_of_the_folder_is_no_repository(
    is_in_environment: bool, published: Place, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request can replace the folder that a person names by the files of a bare repository, with programs of Git."""
    mono, ran = tmp_path / "mono", tmp_path / "ran"
    git(tmp_path, "init", "-q", str(mono))
    git(tmp_path, "clone", "-q", "--bare", str(published.remote), str(mono / "gpus"))
    git(mono / "gpus", "config", "core.sshCommand", f"touch {ran}; false")
    git(mono / "gpus", "remote", "set-url", "origin", "ssh://forge.evil.example/gpus")
    if is_in_environment:
        monkeypatch.setenv("ALLOT_REPO", str(mono / "gpus"))
    options = () if is_in_environment else ("--repo", mono / "gpus")
    for words in (("status",), ("bootstrap",), ("publish", "--dry-run"), ("instance", "open", "solo-ada/webui")):
        result = allot(*words, *options)
        assert (result.code != 0, ran.exists()) == (True, False), result


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_no_command_pushes_to_a_repository_of_the_checkout(
    scheme: str, published: Place, allot: Allot, tmp_path: Path
) -> None:
    """Git would run its hooks. A repository beside the work tree is the person's."""
    trial = published.root / "trial.git"
    git(tmp_path, "init", "-q", "--bare", str(trial))
    (trial / "hooks/pre-receive").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (trial / "hooks/pre-receive").chmod(0o755)
    url = f"file://{trial}" if scheme else "./trial.git"
    edit(published.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    git(published.root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Stop", WEBUI)
    refused = published.publish("--to", url)
    assert (refused.code, "is a repository in a work tree" in refused.err) == (2, True), refused
    assert not (tmp_path / "ran").exists()
    trial.rename(tmp_path / "trial.git")
    assert published.publish("--to", f"{scheme}{tmp_path}/trial.git").code == 0


def test_a_repository_in_the_environment_may_not_become_a_submodule(
    published: Place, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "outer")
    url = f"file://{published.remote}"
    git(tmp_path / "outer", "-c", "protocol.file.allow=always", "submodule", "add", "-q", "-b", "main", url, "gpus")
    monkeypatch.setenv("ALLOT_REPO", str(tmp_path / "outer/gpus"))
    refused = allot("tenant", "list")
    assert (refused.code, "is a submodule of another repository" in refused.err) == (2, True)
    assert allot("tenant", "list", "--repo", tmp_path / "outer/gpus").code == 0


def test_a_bare_repository_in_the_checkout_is_no_origin(published: Place, allot: Allot, tmp_path: Path) -> None:
    """A pull request may have its files, and Git takes such a folder for a repository."""
    nested = published.root / "tenants/solo-ada/more"
    git(tmp_path, "clone", "-q", "--bare", str(published.remote), str(nested))
    git(nested, "remote", "set-url", "origin", "ssh://git@127.0.0.1:9/evil")
    git(nested, "config", "core.sshCommand", f"touch {tmp_path}/owned; false")
    assert git(nested, "rev-parse", "--is-bare-repository") == "true", "Git finds it"
    shutil.copytree(published.root / "platform", nested / "platform")
    result = allot("status", "--repo", nested)
    assert "127.0.0.1:9" not in result.out + result.err
    assert not (tmp_path / "owned").exists()
    assert GitCommands(nested).url_of("origin") == GitCommands(published.root).url_of("origin")


@pytest.mark.parametrize("has_git", [True, False])
def test_an_unpacked_archive_is_no_repository(
    has_git: bool, sample: Path, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a bare repository in it name a program, which Git would run to fetch a missing object."""
    git(tmp_path, "init", "-q", "--bare", "stranger.git")
    shutil.copytree(tmp_path / "stranger.git", sample, dirs_exist_ok=True)
    (sample / "HEAD").write_text("1" * 40)
    settings = {
        "core.sshCommand": f"touch {tmp_path}/owned; false",
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://git@127.0.0.1:9/evil",
    }
    for name, value in settings.items():
        git(tmp_path, "config", "-f", str(sample / "config"), name, value)
    if has_git:
        (sample / ".git").mkdir()
    for command in ("validate", "status"):
        result = allot(command, "--repo", sample)
        assert "127.0.0.1:9" not in result.out + result.err
    assert not (tmp_path / "owned").exists()
    with pytest.raises(OperationRefused, match=r"is not in a Git repository|is damaged"):
        GitCommands(sample / "tenants").url_of("origin")


def test_a_clone_of_the_program_below_a_repository_of_the_home_folder_is_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    git(tmp_path, "init", "-q")
    git(tmp_path, "remote", "add", "origin", "https://dotfiles.example/me")
    git(tmp_path, "init", "-q", "--bare", "cache/clone.git")
    git(tmp_path / "cache/clone.git", "remote", "add", "origin", "https://git.example/acme/gpus")
    assert GitCommands(tmp_path / "cache/clone.git").url_of("origin") == "https://git.example/acme/gpus"
    assert GitCommands(tmp_path / "cache").url_of("origin") == "https://dotfiles.example/me"

"""Gitea of the test bed: people with tokens, who push and open pull requests; and who may not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.controlplane import processes
from tests.controlplane.gitea import ADMIN, ORGANISATION, USERS, Gitea
from tests.controlplane.web import Answered

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _trusted(gitea: Gitea, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSL_CAINFO", str(gitea.authority))


def git_output(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@northlight.example"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def git(folder: Path, *words: str) -> None:
    git_output(folder, *words)


def test_gitea_listens_on_the_loopback_only(gitea: Gitea) -> None:
    assert processes.listening(gitea.folder) == {("gitea", processes.LOOPBACK)}


def test_everybody_has_a_token(gitea: Gitea) -> None:
    for user in (ADMIN, *USERS):
        assert gitea.api("user", user=user)["login"] == user
    assert gitea.api("user")["is_admin"]
    assert not gitea.api("user", user="ada")["is_admin"]
    assert [organisation["username"] for organisation in gitea.api("user/orgs", user=ORGANISATION)] == [ORGANISATION]


def test_a_push_and_a_pull_request(gitea: Gitea, tmp_path: Path) -> None:
    gitea.api(f"orgs/{ORGANISATION}/repos", {"name": "gpus", "auto_init": True, "default_branch": "main"})
    gitea.api(f"repos/{ORGANISATION}/gpus/collaborators/ada", {"permission": "write"}, method="PUT")
    git(tmp_path, "clone", "--quiet", gitea.remote(f"{ORGANISATION}/gpus", "ada"), "work")
    work = tmp_path / "work"
    git(work, "checkout", "--quiet", "-b", "mine")
    (work / "file").write_text("text\n")
    git(work, "add", "file")
    git(work, "commit", "--quiet", "--message", "A file")
    git(work, "push", "--quiet", "origin", "mine")
    body = {"title": "A file", "head": "mine", "base": "main"}
    pull = gitea.api(f"repos/{ORGANISATION}/gpus/pulls", body, user="ada")
    assert (pull["number"], pull["user"]["login"], pull["state"]) == (1, "ada", "open")


def test_a_repository_lies_where_one_can_look_into_it(gitea: Gitea, tmp_path: Path) -> None:
    gitea.create(f"{ORGANISATION}/seen")
    url = gitea.remote(f"{ORGANISATION}/seen", ORGANISATION)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "Nothing")
    git(tmp_path, "push", "--quiet", url, "main", "main:refs/ours/main")
    served = git_output(tmp_path, "ls-remote", url, "refs/*").replace("\t", " ")
    folder = gitea.repository(f"{ORGANISATION}/seen")
    assert served == git_output(folder, "for-each-ref", "--format=%(objectname) %(refname)")
    assert [line.split(" ")[1] for line in served.splitlines()] == ["refs/heads/main", "refs/ours/main"]


def test_gitea_refuses_a_write_to_another_users_private_repository(gitea: Gitea) -> None:
    gitea.api("user/repos", {"name": "own", "auto_init": True, "private": True}, user="ada")
    with pytest.raises(Answered) as refused:
        gitea.api("repos/ada/own/contents/file", {"content": "eA==", "message": "x"}, user="bob")
    assert refused.value.status in (403, 404)


def test_a_deleted_repository_is_gone(gitea: Gitea) -> None:
    name = f"{ORGANISATION}/short"
    gitea.create(name)
    gitea.delete(name)
    with pytest.raises(Answered) as refusal:
        gitea.api(f"repos/{name}")
    assert refusal.value.status == 404
    assert not gitea.repository(name).exists()
    gitea.delete(name)  # it is gone already

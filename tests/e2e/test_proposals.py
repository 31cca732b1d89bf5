"""`--pr` with a real Gitea: one pull request, from the repository, from a fork, and with nothing but a token."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.conftest import Allot, copy_sample, edit
from tests.controlplane.gitea import BOT, ORGANISATION, Gitea
from tests.support.published import git
from tests.support.terminal import ALLOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
REPOSITORY = f"{ORGANISATION}/proposals"
ID = "deploy-2026.11_a"
STOP = ("instance", "stop", "solo-ada/webui", "--pr", "-o", "json", "--operation-id", ID)


NEW_TENANT = {
    "tenant.yaml": """apiVersion: allotment.dev/v1alpha1
kind: Tenant
metadata:
  name: studio-new
spec:
  plan: starter
""",
    "members.yaml": """apiVersion: allotment.dev/v1alpha1
kind: Members
metadata:
  name: studio-new
spec:
  users:
    - name: eve
      role: Admin
      login: eve-k
      subject: 00u1eve
""",
}
ANSWERS = (
    ("GPU (1 to 1) [1]:", ""),
    ("App (1 to 6) [1]:", "3"),  # stable-diffusion-webui
    ("Storage (1 to 2) [2]:", ""),  # a new one
    ("Kind of storage (1 to 2) [1]:", ""),
    ("Name of the storage [", "checkpoints"),
    ("Size [50Gi]:", ""),
    ("Path in the container [/workspace/", "/workspace/models"),
    ("(empty: none) []:", ""),
    ("Another storage (1 to 2) [2]:", "none"),
    ("Create it? [Y/n]:", ""),
)


class Proposals:
    """A repository of the sample on a Gitea, and the people who change it."""

    def __init__(self, gitea: Gitea, allot: Allot, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.gitea, self.folder = gitea, folder
        self._allot, self._monkeypatch = allot, monkeypatch
        gitea.create(REPOSITORY)
        root = copy_sample(folder / "begin")
        edit(root, "platform/platform.yaml", "forge: GitHub", "forge: Gitea")
        edit(root, "platform/platform.yaml", "https://github.com/northlight-example/gpus", self.url)
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A")
        git(root, "-c", "user.name=a", "-c", "user.email=a@northlight.example", "commit", "-q", "-m", "Begin")
        git(root, "push", "-q", gitea.remote(REPOSITORY), "HEAD:main")
        eventually(lambda: not gitea.api(f"repos/{REPOSITORY}")["empty"], "the push to be known", 30)

    @property
    def url(self) -> str:
        return f"{self.gitea.url}/{REPOSITORY}"

    def clone(self, user: str, name: str) -> Path:
        """Return a clone of a user, who is logged in at the server."""
        folder = self.folder / name
        git(self.folder, "clone", "-q", self.gitea.remote(REPOSITORY, user), str(folder))
        return folder

    def propose(self, user: str, place: object, *words: object) -> dict[str, Any]:
        """Return the answer of a command with the token of a user."""
        self._monkeypatch.setenv("ALLOT_FORGE_TOKEN", self.gitea.tokens[user])
        result = self._allot(*(words or STOP), "--repo", place)
        assert result.code == 0, result
        assert self.gitea.tokens[user] not in result.out + result.err
        return dict(json.loads(result.out))

    def pulls(self) -> list[dict[str, Any]]:
        return list(self.gitea.api(f"repos/{REPOSITORY}/pulls?state=all"))

    def merge(self, number: int) -> None:
        """Merge a pull request into one commit with another message, and delete its branch."""
        body = {
            "Do": "squash",
            "MergeTitleField": "Squashed",
            "MergeMessageField": "x",
            "delete_branch_after_merge": True,
        }

        def merged() -> bool:
            if not self.gitea.api(f"repos/{REPOSITORY}/pulls/{number}")["merged"]:
                self.gitea.api(f"repos/{REPOSITORY}/pulls/{number}/merge", body)
            return bool(self.gitea.api(f"repos/{REPOSITORY}/pulls/{number}")["merged"])

        eventually(merged, "the merge", 60)

    def end(self) -> None:
        self.gitea.delete(REPOSITORY)
        for user in (BOT, "ada"):
            for repository in self.gitea.api("user/repos", user=user):
                if repository["fork"] and repository["owner"]["login"] == user:
                    self.gitea.delete(repository["full_name"])


@pytest.fixture
def proposals(gitea: Gitea, allot: Allot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proposals]:
    for name in ("GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, str(gitea.authority))
    place = Proposals(gitea, allot, monkeypatch, tmp_path)
    yield place
    place.end()


def test_a_member_opens_one_pull_request(proposals: Proposals) -> None:
    first_clone = proposals.clone(BOT, "first")
    answer = proposals.propose(BOT, first_clone)
    assert (answer["stage"], answer["branch"][:9]) == ("PullRequest", "allot/op-")
    assert proposals.propose(BOT, first_clone) == answer
    (pull,) = proposals.pulls()
    assert (pull["html_url"], pull["title"], pull["user"]["login"]) == (answer["url"], "Stop solo-ada/webui", BOT)
    assert pull["body"].endswith(f"Operation ID: `{ID}`\n")
    proposals.merge(pull["number"])
    assert proposals.propose(BOT, proposals.clone(BOT, "second")) == answer, "squashed, and the branch is deleted"
    shown = proposals.propose(BOT, first_clone, "operation", "show", ID, "-o", "json")
    assert (shown["state"], shown["url"], shown["resources"]) == (
        "Merged",
        answer["url"],
        ["GPUInstance solo-ada/webui"],
    )
    assert len(proposals.pulls()) == 1


def test_somebody_who_may_not_push_uses_a_fork(proposals: Proposals) -> None:
    clone = proposals.clone("ada", "clone")
    answer = proposals.propose("ada", clone)
    (pull,) = proposals.pulls()
    assert pull["head"]["repo"]["full_name"] == "ada/proposals"
    assert (pull["html_url"], pull["user"]["login"]) == (answer["url"], "ada")
    assert proposals.propose("ada", clone) == answer
    assert proposals.gitea.tokens["ada"] not in (clone / ".git/config").read_text().replace(
        proposals.gitea.remote(REPOSITORY, "ada"), ""
    )
    proposals.merge(pull["number"])
    assert proposals.propose("ada", clone)["branch"] == answer["branch"]
    assert len(proposals.pulls()) == 1


def test_a_token_alone_is_enough(proposals: Proposals) -> None:
    answer = proposals.propose(BOT, f"{proposals.url}.git")
    (pull,) = proposals.pulls()
    assert (pull["html_url"], pull["head"]["repo"]["full_name"]) == (answer["url"], REPOSITORY)
    other = ("instance", "stop", "ml-orbit/lab", "--pr", "-o", "json")
    assert proposals.propose(BOT, f"{proposals.url}.git", *other)["url"] != answer["url"]


def test_a_designer_opens_a_mergeable_pull_request_on_a_terminal(proposals: Proposals) -> None:
    """From an empty tenant, by answers to questions, to a WebUI with a new storage for its models."""
    clone = proposals.clone(BOT, "clone")
    for name, text in NEW_TENANT.items():
        file = clone / "tenants/studio-new" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    git(clone, "add", "-A")
    git(clone, "-c", "user.name=a", "-c", "user.email=a@northlight.example", "commit", "-q", "-m", "Add studio-new")
    git(clone, "push", "-q", "origin", "HEAD:main")
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "ALLOT_FORGE_TOKEN": proposals.gitea.tokens[BOT]}
    words = [*ALLOT[1:], "instance", "create", "studio-new/webui", "--pr"]
    child = pexpect.spawn(
        ALLOT[0], words, cwd=str(clone), env=environment, dimensions=(50, 110), encoding="utf-8", timeout=60
    )
    for question, answer in ANSWERS:
        child.expect_exact(question)
        child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    (pull,) = proposals.pulls()
    assert (child.exitstatus, pull["html_url"] in child.before) == (0, True), child.before
    path = f"repos/{REPOSITORY}/pulls/{pull['number']}"
    eventually(lambda: proposals.gitea.api(path)["mergeable"], "the pull request to be mergeable", 30)
    assert sorted(file["filename"] for file in proposals.gitea.api(f"{path}/files")) == [
        "tenants/studio-new/instances/webui.yaml",
        "tenants/studio-new/storages/checkpoints.yaml",
    ]
    proposals.merge(pull["number"])
    git(clone, "pull", "-q", "origin", "main")
    instance = (clone / "tenants/studio-new/instances/webui.yaml").read_text(encoding="utf-8")
    assert "    name: stable-diffusion-webui\n" in instance
    assert "    - name: checkpoints\n      mountPath: /workspace/models\n" in instance
    assert git(clone, "status", "--short") == ""

"""What every forge does for us, with a real Gitea."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.adapters import forge as forges
from allotment.adapters.forge import gitea as adapter
from allotment.adapters.forge.forge import Forge, Fork, Token
from tests.adapters.forge import contract
from tests.adapters.forge.contract import CONTRACT
from tests.controlplane.gitea import ADMIN, BOT, ORGANISATION, Gitea
from tests.e2e.pulls import TEAM, add_platform_team
from tests.support.published import git
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
REPOSITORY = f"{ORGANISATION}/contract"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@northlight.example")


class GiteaWorld:
    """A repository on the real thing, driven by its people."""

    bot, people = BOT, ("ada", "bob", ADMIN)

    def __init__(self, gitea: Gitea, folder: Path) -> None:
        self.gitea = gitea
        self.root = folder
        self._turn = 0
        gitea.create(REPOSITORY)
        for login in self.people:
            gitea.api(f"repos/{REPOSITORY}/collaborators/{login}", {"permission": "write"}, method="PUT")
        git(folder, "init", "-q", "-b", "main")
        git(folder, "remote", "add", "origin", gitea.remote(REPOSITORY))
        self._commit("base")
        git(folder, "push", "-q", "origin", "HEAD:main", "HEAD:other")

    @property
    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC).replace(microsecond=0)

    def api(self, path: str, body: Any = None, *, user: str = ADMIN, method: str | None = None) -> Any:
        return self.gitea.api(f"repos/{REPOSITORY}/{path}", body, user=user, method=method)

    def _commit(self, name: str) -> str:
        self._turn += 1
        (self.root / name).write_text(str(self._turn))
        git(self.root, "add", "-A")
        git(self.root, *IDENTITY, "commit", "-q", "-m", name)
        return git(self.root, "rev-parse", "HEAD")

    def open(self, number: int, *, base: str = "main") -> str:
        git(self.root, "checkout", "-q", "-B", f"change-{number}", "main")
        head = self._commit(f"change-{number}")
        git(self.root, "push", "-q", "-f", "origin", f"change-{number}")
        body = {"head": f"change-{number}", "base": base, "title": "x"}
        pull_number = eventually(
            lambda: self.api("pulls", body, user=self.people[0])["number"], "the branch to be known", 30
        )
        assert pull_number == number
        return head

    def push_branch(self, name: str, fork: Fork | None = None) -> str:
        git(self.root, "checkout", "-q", "-B", name, "main")
        head = self._commit(name.replace("/", "-"))
        to = self.gitea.remote(f"{BOT}/{REPOSITORY.split('/')[1]}", BOT) if fork else "origin"
        eventually(lambda: git(self.root, "push", "-q", to, f"HEAD:refs/heads/{name}") is not None, "the push", 30)
        owner = BOT if fork else ORGANISATION
        path = f"repos/{owner}/{REPOSITORY.split('/')[1]}/branches/{name}"
        eventually(lambda: self.gitea.api(path)["name"] == name, "the branch to be known", 30)
        return head

    def remove_branch(self, name: str) -> None:
        git(self.root, "push", "-q", "origin", f":refs/heads/{name}")

    def push(self, number: int, *, login: str = "") -> str:
        git(self.root, "checkout", "-q", f"change-{number}")
        head = self._commit(f"change-{number}")
        self.push_back(number, head, login or self.people[0])
        return head

    def push_back(self, number: int, head: str, login: str = ADMIN) -> None:
        force = ["-f"] if head != git(self.root, "rev-parse", f"change-{number}") else []
        git(self.root, "push", "-q", *force, self.gitea.remote(REPOSITORY, login), f"{head}:refs/heads/change-{number}")
        eventually(lambda: self.head(number) == head, "the head to be known", 30)

    def change_base(self, number: int, base: str) -> None:
        self.api(f"pulls/{number}", {"base": base}, method="PATCH")
        time.sleep(1.1)  # times are of seconds

    def head(self, number: int) -> str:
        return str(self.api(f"pulls/{number}")["head"]["sha"])

    def approve(self, number: int, login: str, *, takes_back: bool = False) -> None:
        if not takes_back:
            body = {"event": "APPROVED", "commit_id": self.head(number)}
            self.api(f"pulls/{number}/reviews", body, user=login)
            return
        for review in self.api(f"pulls/{number}/reviews"):
            if review["user"]["login"] == login:
                self.api(f"pulls/{number}/reviews/{review['id']}/dismissals", {"message": "no"})

    def say(self, number: int, login: str, body: str) -> None:
        user = ORGANISATION if login == BOT else login
        self.api(f"issues/{number}/comments", {"body": body}, user=user)

    def bodies(self, number: int) -> list[str]:
        return [comment["body"] for comment in self.api(f"issues/{number}/comments") if comment["user"]["login"] == BOT]

    def merge(self, number: int) -> str:
        def merged() -> str:
            pull = self.api(f"pulls/{number}")
            if not pull["merged"]:
                self.api(f"pulls/{number}/merge", {"Do": "merge"})
            return str(pull["merge_commit_sha"] or "") if pull["merged"] else ""

        return eventually(merged, "the merge", 60)

    def close_pull(self, number: int) -> None:
        self.api(f"pulls/{number}", {"state": "closed"}, method="PATCH")

    def lock(self, number: int) -> None:
        self.api(f"issues/{number}/lock", {}, method="PUT")

    def team(self, *logins: str) -> str:
        add_platform_team(self.gitea)
        team_ids = {team["name"]: team["id"] for team in self.gitea.api(f"orgs/{ORGANISATION}/teams")}
        for login in logins:
            self.gitea.api(f"teams/{team_ids[TEAM]}/members/{login}", method="PUT")
        return f"@{ORGANISATION}/{TEAM}"

    def end(self) -> None:
        for team in self.gitea.api(f"orgs/{ORGANISATION}/teams"):
            if team["name"] == TEAM:
                self.gitea.api(f"teams/{team['id']}", method="DELETE")
        self.gitea.delete(REPOSITORY)
        for repository in self.gitea.api("user/repos", user=BOT):
            if repository["fork"] and repository["owner"]["login"] == BOT:
                self.gitea.delete(repository["full_name"])


@pytest.fixture
def world(gitea: Gitea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GiteaWorld]:
    for name in ("GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, str(gitea.authority))
    monkeypatch.setattr(adapter, "PAGE", 2)  # so few on a page that every list has several
    gitea_world = GiteaWorld(gitea, tmp_path)
    gitea_world.open(1)
    yield gitea_world
    gitea_world.end()


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_the_contract(check: Callable[[contract.World, Forge], None], world: GiteaWorld) -> None:
    url = f"{world.gitea.url}/{REPOSITORY}"
    check(world, forges.connect("Gitea", url, Token(world.gitea.tokens[BOT])))

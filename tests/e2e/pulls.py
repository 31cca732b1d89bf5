"""People of a forge who fork, push, open, approve and merge pull requests, on a real Gitea."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.controlplane.gitea import ADMIN, BOT, ORGANISATION, Gitea
from tests.support.published import git
from tests.support.waiting import eventually

TEAM = "platform"


def add_platform_team(gitea: Gitea) -> None:
    """Give the organisation a team `platform`, whose only member is the administrator."""
    teams = {team["name"]: team["id"] for team in gitea.api(f"orgs/{ORGANISATION}/teams")}
    if TEAM not in teams:
        rights = {"units": ["repo.code", "repo.pulls", "repo.issues"], "permission": "write"}
        body = {"name": TEAM, "includes_all_repositories": True, **rights}
        teams[TEAM] = gitea.api(f"orgs/{ORGANISATION}/teams", body)["id"]
    gitea.api(f"teams/{teams[TEAM]}/members/{ADMIN}", method="PUT")


def name_people(root: Path) -> None:
    """Make the people of the sample those of the Gitea: ada is solo-ada, the administrator is the platform team."""
    for path, old, new in (
        ("platform/ownership.yaml", "@northlight-example/platform", f"@{ORGANISATION}/{TEAM}"),
        ("tenants/solo-ada/members.yaml", "login: ada-k", "login: ada"),
    ):
        file = root / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")


class Person:
    """A user with a fork of a repository, and a clone of that."""

    def __init__(self, gitea: Gitea, name: str, repository: str, folder: Path) -> None:
        self.gitea = gitea
        self.name = name
        self.repository = repository
        self.root = folder
        self._fork = f"{name}/{repository.split('/')[1]}"
        gitea.api(f"repos/{repository}/forks", {}, user=name)
        url = gitea.remote(self._fork, name)
        eventually(
            lambda: subprocess.run(["git", "clone", "-q", url, str(folder)], check=True, capture_output=True), "a fork"
        )
        self.sync()

    def api(self, path: str, body: Any = None, *, method: str | None = None) -> Any:
        """Return what the API says to this person, of the repository."""
        return self.gitea.api(f"repos/{self.repository}/{path}", body, user=self.name, method=method)

    def sync(self) -> None:
        """Be on the newest base, with nothing changed."""
        git(self.root, "fetch", "-q", self.gitea.remote(self.repository, self.name), "main")
        git(self.root, "checkout", "-q", "--detach", "FETCH_HEAD")
        git(self.root, "clean", "-qfd")

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{path} has no {old!r}"
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def fork(self, person: Person) -> str:
        """Return the URL by which somebody pushes to this person's fork."""
        return self.gitea.remote(self._fork, person.name)

    def invite(self, person: Person) -> None:
        """Let somebody push to this person's fork."""
        body = {"permission": "write"}
        self.gitea.api(f"repos/{self._fork}/collaborators/{person.name}", body, user=self.name, method="PUT")

    def push(self, branch: str, to: str = "origin", *, force: bool = True) -> str:
        """Commit what there is under somebody else's name, and push it to the fork, or another's; return the commit."""
        git(self.root, "add", "-A")
        git(self.root, "-c", "user.name=Pat", "-c", "user.email=pat@northlight.example", "commit", "-q", "-m", branch)
        git(self.root, "push", "-q", *(["-f"] if force else []), to, f"HEAD:refs/heads/{branch}")
        return git(self.root, "rev-parse", "HEAD")

    def open(self, branch: str, title: str = "Change", base: str = "main") -> int:
        """Push what there is, and open a pull request; return its number."""
        self.push(branch)
        body = {"head": f"{self.name}:{branch}", "base": base, "title": title}
        number: int = eventually(lambda: self.api("pulls", body)["number"], "the fork to know the branch", 30)
        return number

    def comments(self, number: int, author: str = BOT) -> list[dict[str, Any]]:
        """Return the comments of an author on a pull request."""
        return [comment for comment in self.api(f"issues/{number}/comments") if comment["user"]["login"] == author]

    def comment(self, number: int, marker: str) -> str:
        """Return the bot's one comment with a marker."""
        (body,) = [
            comment["body"]
            for comment in self.comments(number)
            if comment["body"].startswith(f"<!-- allotment:{marker} -->")
        ]
        return str(body)

    def status(self, number: int, context: str = "allot/plan") -> tuple[str, str]:
        """Return state and description of the newest status of a pull request's head."""
        head = self.api(f"pulls/{number}")["head"]["sha"]
        statuses = sorted(self.api(f"commits/{head}/statuses"), key=lambda status: int(status["id"]))
        matching_statuses = [
            (status["status"], status["description"]) for status in statuses if status["context"] == context
        ]
        return matching_statuses[-1] if matching_statuses else ("", "")

    def approve(self, number: int) -> None:
        """Approve what a pull request's head is now."""
        head = self.api(f"pulls/{number}")["head"]["sha"]
        self.api(f"pulls/{number}/reviews", {"event": "APPROVED", "commit_id": head})

    def merge(self, number: int, style: str = "merge") -> None:
        """Merge it, once the forge says that it can be."""
        eventually(lambda: self.api(f"pulls/{number}/merge", {"Do": style}) is not None, "the merge", 60)

    def forget(self) -> None:
        """Remove the fork."""
        self.gitea.delete(self._fork)
        shutil.rmtree(self.root)

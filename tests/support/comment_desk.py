"""A repository with open pull requests on a forge, and `allot comment` for it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest

from tests.adapters.forge.server import REPOSITORY, TOKEN, GitHubWorld, GitLabWorld, World
from tests.conftest import Allot, Result, edit
from tests.support.published import Place, git
from tests.support.pulled import plan_here

WEBUI = "tenants/solo-ada/instances/webui.yaml"
AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@northlight.example")


class Desk:
    """A published repository whose forge is a server of ours, and the trusted side of it."""

    def __init__(self, place: Place, world: World, allot: Allot) -> None:
        self.place = place
        self.world = world
        world.now = datetime.datetime.now(datetime.UTC)  # the command follows the merges of the last days
        self._allot = allot
        edit(place.root, "platform/platform.yaml", "forge: GitHub", f"forge: {world.kind}")
        edit(
            place.root,
            "platform/platform.yaml",
            "https://github.com/northlight-example/gpus",
            f"https://forge.example/{REPOSITORY}",
        )
        place.merge()
        world.on_merge = self._merge_branch

    def _merge_branch(self, number: int, message: str) -> str:
        """Merge a pull request's branch into the remote's main, as the forge does; return the commit."""
        root = self.place.root
        git(root, "checkout", "-q", "main")
        git(root, *AUTHOR, "merge", "-q", "--no-ff", "-m", message, f"change-{number}")
        git(root, "push", "-q", "origin", "main")
        return git(root, "rev-parse", "HEAD")

    def propose(self, number: int, old: str, new: str, *, author: str = "ada-k") -> str:
        """Open a pull request, or push to one, that changes ada's instance; return its head."""
        root = self.place.root
        git(root, "checkout", "-q", "-B", f"change-{number}")
        edit(root, WEBUI, old, new)
        return self.open(number, author)

    def open(self, number: int, author: str) -> str:
        """Open a pull request, or push to one, with what its branch's folder holds; return its head."""
        root = self.place.root
        git(root, *AUTHOR, "commit", "-q", "-a", "-m", "Change")
        head = git(root, "rev-parse", "HEAD")
        ref = "pull" if isinstance(self.world, GitHubWorld) else "merge-requests"
        git(root, "push", "-q", "-f", "origin", f"HEAD:refs/{ref}/{number}/head")
        if number in self.world.pulls:
            self.world.push(number, head)
        else:
            self.world.open(number, head, author)
        git(root, "checkout", "-q", "main")
        return head

    def merge(self, number: int) -> str:
        """Merge it on the forge; return the merge's commit."""
        commit = self._merge_branch(number, "Merge")
        self.world.merge(number, commit)
        return commit

    def comment(self, *words: object) -> Result:
        api = self.world.api
        return self._allot("comment", "--repo", self.place.root, "--forge-api", api, *words)

    def status(self, head: str, context: str = "allot/plan") -> str:
        """Return the state of the newest status of a context, as GitHub calls it."""
        states = [
            status["state"]
            for status in self.world.statuses.get(head, ())
            if context in (status.get("context"), status.get("name"))
        ]
        return {"failed": "failure"}.get(states[-1], str(states[-1])) if states else ""

    def rollouts(self, number: int) -> list[str]:
        return [body for body in self.world.bodies(number) if body.startswith("<!-- allotment:rollout -->")]


# What each forge must hold is the contract's (tests/adapters/forge/test_contract.py); here, what is told of it to people.
on_each_forge = pytest.mark.parametrize("desk", [GitHubWorld, GitLabWorld], ids=["GitHub", "GitLab"], indirect=True)


@pytest.fixture
def desk(request: pytest.FixtureRequest, place: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Return a repository to which nothing was proposed yet, on GitHub unless a test says otherwise."""
    world: World = getattr(request, "param", GitHubWorld)()
    world.page = 3
    world.teams["@northlight-example/platform"] = ["pat"]
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", TOKEN)
    plan_here(monkeypatch)
    yield Desk(place, world, allot)
    world.close()

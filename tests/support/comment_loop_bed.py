"""A comment loop whose forge is a server of the test, and its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from allotment.adapters.forge.forge import Token
from allotment.adapters.git.clone import Clone
from allotment.adapters.git.remote import Remote
from allotment.adapters.metrics import CommentMetrics, metrics_text
from allotment.cli.comment_options import create_pull_services
from allotment.services.pull_requests.comment_loop import CommentLoop
from tests.adapters.forge.server import TOKEN, GitHubWorld
from tests.conftest import Allot
from tests.support.comment_desk import Desk
from tests.support.published import Place, git
from tests.support.pulled import plan_here


class RecordedLog:
    """A log that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **about: Any) -> None:
        self.events.append((event, about))

    warning = error = info


class Bed:
    """A commenter of a repository whose forge is a server of ours."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk, self.world = desk, desk.world
        self.log, self.registry = RecordedLog(), CollectorRegistry()
        repository = Clone.open_or_create(folder)
        remote = Remote(repository, str(desk.place.remote), keep=True)
        self.commenter = CommentLoop(
            lambda: create_pull_services(
                folder, remote, "main", Token(TOKEN), desk.world.api, processes=1, merges=True
            ),
            CommentMetrics(self.registry),
            self.log,
            30,
        )

    def round(self) -> list[str]:
        """Run one round; return what it wrote on the forge."""
        self.world.calls.clear()
        self.commenter.tick()
        return self.world.writes()

    def also(self, number: int, head: str, author: str, base: str = "main") -> None:
        """Open another pull request of a commit."""
        git(self.desk.place.root, "push", "-q", "origin", f"{head}:refs/pull/{number}/head")
        self.world.open(number, head, author, base=base)

    def metric(self, name: str) -> float:
        lines = metrics_text(self.registry).decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


@pytest.fixture
def bed(place: Place, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """Return a commenter of a repository to which nothing was proposed."""
    world = GitHubWorld()
    world.teams["@northlight-example/platform"] = ["pat"]
    plan_here(monkeypatch)
    yield Bed(Desk(place, world, allot), tmp_path / "clone")
    world.close()

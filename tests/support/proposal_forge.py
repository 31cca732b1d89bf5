"""A forge with the repository of the sample and a place for a fork."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.forge.server import FORK, TOKEN, GitHubWorld, GitLabWorld, World
from tests.conftest import edit
from tests.support.published import Place, git


@pytest.fixture(params=[GitHubWorld, GitLabWorld], ids=["GitHub", "GitLab"])
def world(
    request: pytest.FixtureRequest, published: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """Return a forge with the repository of the sample and an empty place for a fork."""
    forge_world: World = request.param()
    edit(published.root, "platform/platform.yaml", "github.com/northlight-example/gpus", "forge.example/acme/gpus")
    edit(published.root, "platform/platform.yaml", "forge: GitHub", f"forge: {forge_world.kind}")
    published.merge()
    fork = tmp_path / "fork.git"
    git(tmp_path, "clone", "-q", "--bare", str(published.remote), str(fork))
    forge_world.repositories = {0: published.remote, FORK: fork}
    monkeypatch.setenv("ALLOT_FORGE_API", forge_world.api)
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", TOKEN)
    # The URLs lead to these repositories.
    git(published.root, "config", f"url.{published.remote}.insteadOf", "https://forge.example/acme/gpus")
    git(published.root, "config", f"url.{fork}.insteadOf", forge_world.fork_url)
    yield forge_world
    forge_world.close()

"""`allot operation show` names the place of a change, from the folder to the merge."""

from __future__ import annotations

from typing import Any

import pytest
from tests.adapters.forge.server import World
from tests.conftest import Allot, checked
from tests.support.operation import ID, STOP, WEBUI, branches, merge, push
from tests.support.proposal_forge import world  # noqa: F401  # a fixture
from tests.support.published import Place, git

RESOURCES = ["GPUInstance solo-ada/webui"]


def show(allot: Allot, place: Place) -> Any:
    result = allot("operation", "show", ID, "-o", "json", "--repo", place.root)
    assert result.code == 0, result
    return checked("operation", result.out)


def test_an_unknown_id(published: Place, allot: Allot) -> None:
    result = allot("operation", "show", ID, "--repo", published.root)
    assert result == (1, "", f"no change has the operation ID '{ID}'\n")
    result = allot("operation", "show", "a b", "--repo", published.root)
    assert (result.code, "the operation ID 'a b' is invalid" in result.err) == (2, True)


def test_a_change_in_the_folder(published: Place, allot: Allot) -> None:
    assert allot(*STOP, "--repo", published.root).code == 0
    operation = show(allot, published)
    assert (operation["state"], operation["title"], operation["commit"]) == ("Folder", "1 uncommitted file", None)
    assert operation["resources"] == RESOURCES
    assert allot(*STOP, "--repo", published.root, "--commit").code == 0
    operation = show(allot, published)
    assert (operation["state"], operation["title"]) == ("Commit", "Stop solo-ada/webui")
    assert (operation["resources"], operation["commit"]) == (RESOURCES, git(published.root, "rev-parse", "HEAD"))


@pytest.mark.parametrize("options", [("--no-ff",), ("--squash",)])
def test_a_pushed_and_a_merged_change(options: tuple[str, ...], published: Place, allot: Allot) -> None:
    push(allot, published.root)
    (branch,) = branches(published)
    operation = show(allot, published)
    assert (operation["state"], operation["branch"], operation["resources"]) == ("Branch", branch, RESOURCES)
    assert operation["title"] == "Stop solo-ada/webui"
    merge(published, *options)
    operation = show(allot, published)
    assert (operation["state"], operation["branch"], operation["resources"]) == ("Merged", None, RESOURCES)
    text = allot("operation", "show", ID, "--repo", published.remote.as_uri())
    assert text.out.splitlines() == [
        operation["title"],
        "  State         Merged: merged",
        "  Resources     GPUInstance solo-ada/webui",
        f"  Commit        {operation['commit']}",
    ]
    assert git(published.root, "show", "--name-only", "--format=", operation["commit"]) == WEBUI


def test_a_token_with_a_line_break_is_refused_unseen(
    published: Place,
    world: World,  # noqa: F811  # the fixture
    allot: Allot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", "S3cretTokenOfAda\nsecond")
    result = allot("operation", "show", ID, "--repo", published.root)
    assert (result.code, "S3cret" in result.err) == (2, False)
    assert "ALLOT_FORGE_TOKEN has characters that no token has" in result.err


def test_a_pull_request(published: Place, world: World, allot: Allot) -> None:  # noqa: F811  # the fixture
    result = allot(*STOP, "--pr", "--repo", published.root)
    assert result.code == 0, result
    (pull,) = world.pulls.values()
    operation = show(allot, published)
    assert (operation["state"], operation["branch"]) == ("PullRequest", pull.branch)
    assert operation["url"].startswith("https://forge.example/acme/gpus/")
    git(published.remote, "update-ref", "-d", f"refs/heads/{pull.branch}")
    world.close_pull(pull.number)
    assert show(allot, published)["state"] == "Closed"
    world.merge(pull.number)
    assert show(allot, published)["state"] == "Merged"
